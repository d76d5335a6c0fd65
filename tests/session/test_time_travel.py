"""Going back, going forward again, and going on in a copy."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.errors import SessionNotFound, UsageError
from sagent.messages import user
from sagent.session.contents import MessageEntry, Opened, Spawned, StoredMessage, Unknown
from sagent.session.folds import history, points
from sagent.session.log import MemoryLog
from sagent.session.store import Session, copy, latest, sessions
from sagent.session.touches import Touched
from sagent.testing import ScriptedModel
from tests.depth import deep
from tests.intact import faults


def texts(agent: Agent) -> list[str]:
    return [message.content for message in agent.messages]


async def test_back_before_a_request_and_forward(tmp_path: Path) -> None:
    with Session.create(tmp_path, tmp_path) as session:
        log = session.log()
        log.append(Unknown("opened", {"session": session.id}))
        model = ScriptedModel("one", "two", "three", lambda request: str(len(request.messages)))
        agent = Agent(model, resources=Resources(log=log))
        for text in ("first", "second", "third"):
            await agent.run(text)
        assert [(point.text, point.depth) for point in points(log.entries())] == [
            ("first", 0),
            ("second", 1),
            ("third", 2),
        ]
        before = texts(agent)
        agent.rewind(points(log.entries())[1].before)
        assert texts(agent) == ["first", "one"]
        assert (await agent.run("another second")).content == "3"
        found = points(log.entries())
        assert [(point.text, point.current) for point in found] == [
            ("first", True),
            ("second", False),
            ("third", False),
            ("another second", True),
        ]
        agent.rewind(found[2].tip)
        assert texts(agent) == before
        agent.rewind(points(log.entries())[3].tip)
        assert texts(agent)[-2:] == ["another second", "3"]
        assert history(log.entries(), log.blobs.get) == tuple(agent.messages)
        with pytest.raises(UsageError):
            agent.rewind("f" * 64)
        await agent.aclose()
    assert faults(session.path) == []


async def test_branch_ends_at_its_last_message() -> None:
    log = MemoryLog()
    log.append(Unknown("opened", {}))
    agent = Agent(ScriptedModel("one", "two", "three"), resources=Resources(log=log))
    await agent.run("first")
    early = log.head
    await agent.run("second")
    late = log.head
    for place, tip, there in ((1, late, late), (0, late, early), (0, early, late)):
        agent.rewind(points(log.entries())[place].before)
        log.append(Touched("rewind-1", "rewind", ended=False))
        assert points(log.entries())[place].tip == tip
        agent.rewind(there)
        log.append(Touched("rewind-2", "rewind", ended=False))  # killed: what it has restored is not what was left
        log.append(Unknown("opened", {}))
    assert points(log.entries())[1].tip == late
    agent.rewind(early)
    await agent.run("third")
    further = log.head
    agent.rewind(late)
    assert [point.tip for point in points(log.entries())[:1:-1]] == [further]
    await agent.aclose()


async def test_copy_continues_by_itself(tmp_path: Path) -> None:
    with Session.create(tmp_path, tmp_path) as session:
        log = session.log()
        log.append(Unknown("opened", {"session": session.id}))
        log.blobs.put(b"kept")
        agent = Agent(ScriptedModel("one", "two"), resources=Resources(log=log))
        await agent.run("first")
        await agent.run("second")
        entry = points(log.entries())[1].before
        whole, part = copy(session.path, tmp_path, tmp_path), copy(session.path, tmp_path, tmp_path, entry[:12])
        own = len(list(log.entries()))
        for path, said in ((whole, ["first", "one", "second", "two"]), (part, ["first", "one"])):
            with Session.open(path) as other:
                assert [message.content for message in history(other.log().entries(), other.log().blobs.get)] == said
                other.log().append(Unknown("label", {"text": "mine"}))
            assert faults(path) == []
            (blob,) = (path / "blobs").iterdir()
            assert blob.read_bytes() == b"kept"
            assert os.stat(path / "root.jsonl").st_mode & 0o777 == 0o600
        assert len(list(log.entries())) == own
        await agent.aclose()
    with pytest.raises(UsageError, match="no entry begins with 'zz'"):
        copy(session.path, tmp_path, tmp_path, "zz")
    with pytest.raises(SessionNotFound):
        copy(tmp_path / "nothing", tmp_path, tmp_path)
    assert len([path for path in session.path.parent.iterdir() if path.is_dir()]) == 3


def die_at(step: int) -> None:
    """Have this process killed at one of its next steps at the file system."""
    steps = iter(range(1, step))

    def strike(event: str, _: object) -> None:
        if event.startswith(("os.", "open", "shutil.")) and next(steps, None) is None:
            signal.raise_signal(signal.SIGKILL)

    sys.addaudithook(strike)


def test_copy_killed_at_any_step_is_none(tmp_path: Path) -> None:
    """Each process of these is killed before its next step at the file system; the last one ends."""
    state = tmp_path / "state"
    with Session.create(state, tmp_path) as session:
        log = session.log()
        below = session.log("root/child").append(MessageEntry(StoredMessage.of(user("below"), None)))
        log.append(Spawned("root/child", below.id))
        for number in range(3):
            session._blobs.put(f"{number}".encode())
        entry = log.append(MessageEntry(StoredMessage.of(user("first"), None))).id
    os.utime(session.path / "root.jsonl", (1e9, 1e9))
    for step in range(1, 10_000, deep(5, 1)):
        if not (child := os.fork()):
            die_at(step)
            copy(session.path, state, tmp_path, entry)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for found in set(sessions(state, tmp_path)) - {session.path}:
            assert faults(found) == []
            assert len(list(found.joinpath("blobs").iterdir())) == 3
            shutil.rmtree(found)
        assert latest(state, tmp_path) == session.path
        if not ended:
            break
    assert step > 60, step
    assert not ended
    for left in session.path.parent.glob(".copy-*"):
        os.utime(left, (1e9, 1e9))
    shutil.rmtree(copy(session.path, state, tmp_path))
    assert not list(session.path.parent.glob(".copy-*"))


def test_silent_session_is_not_continued(tmp_path: Path) -> None:
    with Session.create(tmp_path, tmp_path) as silent:
        silent.log().append(Opened(silent.id, "root", str(tmp_path), {}))
    with pytest.raises(SessionNotFound):
        latest(tmp_path, tmp_path)
