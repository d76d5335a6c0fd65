"""Sessions of every version of the format: they verify, and what is damaged of one does not."""

from pathlib import Path

import pytest

from sagent.plugins.audit.verify import verify
from sagent.session.blobs import OUTPUTS
from sagent.session.store import Session
from tests.session.format_1.test_format_1 import HEAD
from tests.session.format_1.test_format_1 import HERE as FIRST
from tests.session.test_recorded_formats import HEADS, HERE
from tests.session.test_session_versions import WRITERS


@pytest.mark.parametrize(
    ("session", "head", "figures"),
    [(FIRST, HEAD, (55, 5)), *((HERE / f"recorded_{version}", head, (118, 4)) for version, head in HEADS.items())],
)
def test_recorded_session_verifies(session: Path, head: str, figures: tuple[int, int]) -> None:
    proof = verify(session, head)
    assert proof.problems == ()
    assert (proof.entries, proof.blobs, proof.heads["root"]) == (*figures, head)


@pytest.mark.parametrize("version", WRITERS)
def test_written_session_verifies(version: int, tmp_path: Path) -> None:
    session = WRITERS[version](tmp_path / "20261121-031500-abcdef")
    proof = verify(session)
    assert proof.problems == ()
    assert (proof.entries, proof.blobs, proof.session) == (16, 1, session.name)


def test_emptied_log_is_not_verified(tmp_path: Path) -> None:
    with Session.create(tmp_path / "state", tmp_path) as session:
        session.begin(tmp_path)
    (session.path / "root.jsonl").write_bytes(b"")
    assert any("no whole entry" in problem for problem in verify(session.path).problems)


def test_non_blob_output_reported(tmp_path: Path) -> None:
    with Session.create(tmp_path / "state", tmp_path) as session:
        session.begin(tmp_path)
    (session.path / OUTPUTS).mkdir()
    assert verify(session.path).problems == ()
    (session.path / OUTPUTS / "0").write_text("not a blob")
    assert len(verify(session.path).problems) == 1
