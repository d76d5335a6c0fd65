"""A session in the text protocol is replayed, and its requests are built again byte for byte."""

from pathlib import Path

import pytest
from recorded_story import FAMILIES, Stage, agent_for, staged

from sagent.model import Model
from sagent.peer import Switch
from sagent.plugins.lab.replay import replay
from sagent.plugins.textcalls.model import TextModel
from sagent.session.contents import Opened
from sagent.session.store import Session
from sagent.testing.script import Call, Turn

ASKED = ("AgentSpawn", "Grep")


class TextStage(Stage):
    """Providers whose models speak text, but for those of one provider."""

    native = ""

    def resolve(self, name: str) -> Model:
        model = super().resolve(name)
        return model if model.provider == self.native else TextModel(model, ASKED)


async def session_of(state: Path, cwd: Path, family: str, other: str) -> Path:
    """A session that begins in text, goes on natively, and ends in text."""
    (cwd / "a.txt").write_text("one\n")
    steps = [
        Turn(text='I look.\n\n```Read\na.txt\n```\n\n```wait\n{"what": "this"}\n```\nIt says: two.'),
        Turn(text="```delete\nb\n```"),
        Turn(text="It says one."),
        Turn(text="I wait.", calls=(Call("wait", {"what": "that"}),)),
        Turn(text="I have waited."),
        Turn(text="```Read\na.txt\n"),
        Turn(text="The end."),
    ]
    async with staged(steps) as plain:
        stage = TextStage(plain.script, plain.providers)
        stage.native = other.partition("/")[0]
        with Session.create(state, cwd) as session:
            log = session.log()
            log.append(Opened(session.id, "root", str(cwd), {"sagent": "0.1.0"}))
            agent = agent_for(stage, log, cwd, family, advised=False)
            first = await agent.run("What does a.txt say?")
            assert first.content == "It says one."
            agent.apply(Switch(model=other))
            await agent.run("Wait.")
            agent.apply(Switch(model=family))
            await agent.run("And now?")
            names = [call.name for message in agent.messages for call in message.calls]
            assert names == ["Read", "wait", "delete", "wait", "Read"]
            denied = [result.denied for message in agent.messages for result in message.results]
            assert denied == [False, False, True, False, False]
            await agent.aclose()
    return session.path


@pytest.mark.parametrize(("family", "other"), [("chat", "anthropic"), ("anthropic", "responses"), ("google", "chat")])
async def test_mixed_protocol_session_replayed(family: str, other: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    session = await session_of(tmp_path / "state", tmp_path / "work", FAMILIES[family], FAMILIES[other])
    done = await replay(session)
    (root,) = done.agents
    assert root.divergence is None
    assert (root.requests, root.unchecked) == (7, {})
