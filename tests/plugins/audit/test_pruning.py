"""Old sessions go, and nothing else does."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.plugins.audit.pruning import age, prune
from sagent.session.contents import Unknown
from sagent.session.lock import in_use
from sagent.session.retention import glances
from sagent.session.store import Session, sessions
from tests.session_place import aged_session

DAY = 86_400.0


def pruned(state: Path, cwd: Path | None, days: float, keep: int = 0, *, dry: bool = False) -> dict[Path, str]:
    found = prune(glances(state, cwd), state, time.time() - days * DAY, keep, dry=dry)
    return {each.session.path: each.kept for each in found}


def test_old_sessions_beyond_last_are_pruned(state: Path, tmp_path: Path):
    old = [aged_session(state, tmp_path, days) for days in (100, 95, 91)]
    new = aged_session(state, tmp_path, 10)
    assert pruned(state, tmp_path, 90, keep=2, dry=True) == {old[1]: "", old[0]: ""}
    assert set(sessions(state)) == {*old, new}
    assert pruned(state, tmp_path, 90, keep=2) == {old[1]: "", old[0]: ""}
    assert set(sessions(state)) == {old[2], new}
    assert pruned(state, tmp_path, 90) == {old[2]: ""}
    assert pruned(state, tmp_path, 90) == {}


def test_other_directories_stay_unless_all(state: Path, tmp_path: Path):
    mine, theirs = aged_session(state, tmp_path / "a", 100), aged_session(state, tmp_path / "b", 100)
    assert pruned(state, tmp_path / "a", 90) == {mine: ""}
    assert pruned(state, None, 90) == {theirs: ""}


def test_child_at_work_keeps_session_young(state: Path, tmp_path: Path):
    path = aged_session(state, tmp_path, 100)
    with Session.open(path) as session:
        session.log("root/a").append(Unknown("opened", {}))
    os.utime(path / "root.jsonl", (0, 0))
    assert pruned(state, tmp_path, 90) == {}


def test_session_in_use_stays(state: Path, tmp_path: Path):
    path = aged_session(state, tmp_path, 100)
    with Session.open(path):
        os.utime(path / "root.jsonl", (0, 0))
        assert in_use(path)
        assert pruned(state, tmp_path, 90, dry=True) == {path: "it is in use"}
        assert f"process {os.getpid()} " in pruned(state, tmp_path, 90)[path]
        assert path.exists()
    assert not in_use(path)
    os.utime(path / "root.jsonl", (0, 0))
    assert pruned(state, tmp_path, 90) == {path: ""}


def test_only_state_directory_is_pruned(state: Path, tmp_path: Path):
    elsewhere = Session.create_at(tmp_path / "elsewhere" / "mine")
    elsewhere.log().append(Unknown("opened", {}))
    elsewhere.close()
    os.utime(elsewhere.path / "root.jsonl", (0, 0))
    home = aged_session(state, tmp_path).parent
    (home / "20000101-000000-aaaaaa").symlink_to(elsewhere.path)
    (state / "sessions" / "linked").symlink_to(elsewhere.path.parent)
    kept = pruned(state, None, 90)
    assert set(kept.values()) == {"it is not in the state directory"}
    assert len(kept) == 2
    assert (elsewhere.path / "root.jsonl").exists()


def test_linked_blobs_are_not_followed(state: Path, tmp_path: Path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    path = aged_session(state, tmp_path, 100)
    (path / "blobs").symlink_to(precious)
    pruned(state, tmp_path, 90)
    assert (precious / "file").read_text() == "mine"


def test_session_used_since_listing_stays(state: Path, tmp_path: Path):
    path = aged_session(state, tmp_path, 100)
    found = glances(state)
    os.utime(path / "root.jsonl")
    (kept,) = prune(found, state, time.time() - 90 * DAY, 0)
    assert kept.kept == "it was used just now"
    assert path.exists()


@pytest.mark.needs("not-root")
def test_undeletable_is_told_next_is_pruned(state: Path, tmp_path: Path):
    first, second = aged_session(state, tmp_path / "a", 100), aged_session(state, tmp_path / "b", 101)
    first.chmod(0o500)
    try:
        kept = pruned(state, None, 90)
    finally:
        first.chmod(0o700)
    assert "Permission denied" in kept[first]
    assert kept[second] == ""


def test_ages_are_hours_days_and_weeks():
    assert [age(text) for text in ("12h", "90d", "2w")] == [timedelta(hours=12), timedelta(days=90), timedelta(weeks=2)]
    for text in ("", "90", "d", "-1d", "1.5d", "3m", "9999999d"):
        with pytest.raises(UsageError, match="such as 12h, 90d or 2w"):
            age(text)
