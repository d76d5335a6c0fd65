"""What programs that are killed leave among temporary files: it is gone with the next session, whoever made it."""

import os
import tempfile
from pathlib import Path

import pytest

from sagent.sandbox import Sandbox, scratch
from sagent.sandbox.scratch import sweep
from sagent.tool import Workspace
from sagent.tools.bash import Bash
from tests.sandbox.leavings import age, check_leavings
from tests.tools.conftest import Folder

BLOBS = "from sagent.session.blobs import BlobDirectory; blobs = BlobDirectory(); blobs.put(b'kept'); ready()"
BUNDLE = """
from sagent.sandbox.scratch import temporary
with temporary() as place: (place / "stays").touch(); (place / "before").touch(); ready()
"""
HALF_MADE = """
import os, tempfile
from sagent.sandbox import scratch
scratch._locked = lambda made: ready()
scratch.Scratch()
"""
PROGRAMS = {"blobs": BLOBS, "any": BUNDLE, "half-made": HALF_MADE}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path.resolve() / "t"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.mark.costly
@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_programs_leavings_removed(tmp_path: Path, place: Path, name: str) -> None:
    check_leavings(tmp_path, place, PROGRAMS[name], named=name != "half-made")


async def test_leavings_removed_without_sandbox(tmp_path: Path, place: Path) -> None:
    scratch.Scratch().close()  # as the system does
    age(place)
    sandbox, blobs = Sandbox("off"), Folder(tmp_path / "blobs")
    await Bash(sandbox=sandbox).prepare(Workspace(place), blobs)
    await sandbox.aclose()
    assert age(place) == []


def test_old_detached_output_is_removed(place: Path) -> None:
    old, young, others = (place / f"{name}.out" for name in ("sagent-tmp-old", "sagent-tmp-young", "sagent-old"))
    for path in (old, young, others):
        path.touch()
    for path in (old, others):
        os.utime(path, (0, 0))
    sweep()
    assert sorted(place.iterdir()) == sorted([young, others])


def test_kept_files_cost_sessions_little(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (place / f"sagent-tmp-{number}/put-back/x.undone-0").mkdir(parents=True)
        if number % 2:
            (place / f"sagent-tmp-{number}/put-back/copies").mkdir()
            (place / f"sagent-tmp-{number}/tmp").mkdir()
    age(place)
    sweep()
    assert len(list(place.rglob("*"))) == 3 * 20
    looked_into: list[Path] = []
    monkeypatch.setattr(scratch, "_going", looked_into.append)
    sweep()
    assert looked_into == []
