"""Sessions that were helped, that an older version wrote, or that had options, run again and compared."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sagent import Agent
from sagent.config import load
from sagent.plugins.lab.replay import replay
from sagent.plugins.lab.rerun import read_asked
from sagent.plugins.lab.sessiondiff import diff_sessions
from sagent.providers import OpenAICompatible
from sagent.session.contents import Opened
from sagent.session.store import Session
from sagent.testing.server import FakeProviderServer, Step, Turn
from tests.agent.test_going_round import LOOK, look, run
from tests.depth import later
from tests.plugins.exports.test_denied_calls import refused
from tests.plugins.lab.recorded_story import FAMILIES, agent_for, staged
from tests.session.test_recorded_formats import session, version

__all__ = ["session", "version"]  # fixtures
OWN = {"anthropic": {"type": "web_search_20250305", "name": "web_search"}, "google": {"urlContext": {}}}
ENDLESS = Turn("I read the file. " * 20_000, pieces=200)
CALL_AS_TEXT = Turn('```json\n{"name": "look", "arguments": {"path": "b"}}\n```')


@later
@pytest.mark.costly
@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([*[LOOK] * 3, Turn(stop="end"), CALL_AS_TEXT, Turn("It says a.")], "end"),
        ([LOOK] * 5, "repeated_calls"),
        ([LOOK, ENDLESS], "max_tokens"),
        ([Turn("I have updated the file."), Turn("I have not.")], "end"),
    ],
)
async def test_assisted_session_replayed(steps: Sequence[Step], reason: str, tmp_path: Path) -> None:
    async with FakeProviderServer(steps) as server:
        provider = OpenAICompatible.from_key("k", base_url=f"{server.url}/v1")
        agent = Agent(provider.model("m"), tools=[look, run], session=tmp_path / "s")
        assert (await agent.run("go")).stop_reason == reason
        await agent.aclose()
        await provider.aclose()
    (replayed,) = (await replay(tmp_path / "s")).agents
    assert (replayed.divergence, replayed.turns) == (None, replayed.recorded)


@pytest.mark.costly
async def test_team_session_replays(session: Path) -> None:
    """What the team said into the conversation was no reply of a model, and is where a replay of it ends."""
    found = await replay(session)
    assert [(each.agent, each.requests, each.recorded) for each in found.agents] == [
        ("root", 12, 13), ("root/one", 1, 1), ("root/review", 2, 2), ("root/two", 1, 1),
    ]  # fmt: skip
    assert [each.agent for each in found.agents if each.divergence] == ["root"]
    assert (found.agents[0].side_calls.same, found.agents[0].unchecked) == (2, {})


@pytest.mark.parametrize("family", FAMILIES)
async def test_replay_exact_and_rerun_keeps_options(family: str, tmp_path: Path) -> None:
    async with staged([Turn(text="One."), Turn(text="Two.")]) as stage:
        with Session.create(tmp_path, tmp_path) as made:
            made.log().append(Opened(made.id, "root", str(tmp_path), {}))
            sent = {"temperature": 0.25, "top_p": 0.5, "tools": [OWN.get(family, {"type": "web_search"})]}
            given = {"options": sent, "effort": "high", "advised": False}
            agent = agent_for(stage, made.log(), tmp_path, FAMILIES[family], **given)
            await agent.run("a")
            await agent.run("b")
            await agent.aclose()
    done = await replay(made.path)
    assert done.is_exact
    asked = read_asked(made.path, load({"cwd": str(tmp_path)}))
    assert asked.effort is not None
    assert asked.options == ("temperature=0.25", "top_p=0.5")


@later
async def test_denial_from_tool_counts_as_error(tmp_path: Path) -> None:
    path, _, _ = await refused(tmp_path / "s")
    side = diff_sessions(path, path).left
    assert (side.errors, side.denials) == (1, 0)
