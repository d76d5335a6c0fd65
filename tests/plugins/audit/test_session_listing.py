"""The kept list of sessions says what reading each of them does, whatever happened to them and to it meanwhile."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.messages import user
from sagent.plugins.audit import listing
from sagent.plugins.audit.listing import NAME, list_sessions
from sagent.session.contents import Label, MessageEntry, Opened, StoredMessage
from sagent.session.retention import glances
from sagent.session.store import Session, delete
from tests.depth import deep

STEPS = st.lists(st.tuples(st.sampled_from("naalcbdtfx"), st.integers(0, 30)), min_size=3, max_size=25)


def step(state: Path, cwd: Path, made: list[Path], what: str, number: int) -> None:
    """Change one thing: a session, a child's log, a blob, or the kept list itself."""
    if what == "n" or not made:
        with Session.create(state, cwd) as session:
            session.log().append(Opened(session.id, "root", str(cwd), {}))
        made.append(session.path)
        return
    path, file = made[number % len(made)], state / NAME
    if what in "alcb":
        with Session.open(path) as session:
            match what:
                case "a":
                    session.log().append(MessageEntry(StoredMessage.of(user(f"ask {number}"), None)))
                case "l":
                    session.log().append(Label(f"name {number}"))
                case "c":
                    session.log("root/child").append(Label("inside"))
                case _:
                    session.log().blobs.put(b"x" * number)
    elif what == "d":
        delete(path)
        made.remove(path)
    elif what == "t":
        os.utime(path / "root.jsonl", (number * 1e6, number * 1e6))
    elif file.exists() and what == "f":
        data = bytearray(file.read_bytes())
        data[number * 37 % len(data)] ^= 1
        file.write_bytes(data)
    elif file.exists():
        file.write_bytes(file.read_bytes()[: number * 11])


@settings(max_examples=deep(30, 200), deadline=None)
@given(STEPS)
def test_kept_list_is_that_of_logs(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    home = tmp_path_factory.mktemp("h")
    state, cwd, made = home / "state", home / "work", list[Path]()
    cwd.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "MIN_SESSIONS", 1)
        for what, number in steps:
            step(state, cwd, made, what, number)
            assert list_sessions(state, cwd) == glances(state, cwd)
            assert list_sessions(state) == glances(state)
    shutil.rmtree(home)


def test_unchanged_sessions_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MIN_SESSIONS", 1)
    made: list[Path] = []
    for _ in range(3):
        step(tmp_path, tmp_path, made, "n", 0)
    before = list_sessions(tmp_path)
    read: list[Path] = []
    monkeypatch.setattr(listing, "glance", lambda path, room: read.append(path))
    assert list_sessions(tmp_path) == before
    assert not read
