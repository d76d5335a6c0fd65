"""Going back, going forward again, and going on in a copy."""

import os
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.errors import SessionNotFound, UsageError
from sagent.session.contents import Unknown
from sagent.session.folds import history, points
from sagent.session.store import Session, copy
from sagent.session.verify import verify
from sagent.testing import ScriptedModel


def texts(agent: Agent) -> list[str]:
    return [message.content for message in agent.messages]


async def test_back_before_a_request_and_forward_again(tmp_path: Path) -> None:
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
    assert not verify(session.path).problems


async def test_a_copy_goes_on_by_itself(tmp_path: Path) -> None:
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
            assert not verify(path).problems
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
