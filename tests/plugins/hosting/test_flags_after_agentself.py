"""What AgentSelf changed in a session gives way to what a person names when they continue or fork it."""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from sagent.advisor.extension import AdvisorExtension, advise
from sagent.agent import Agent, Resources
from sagent.app import open_agent
from sagent.config import Settings, load
from sagent.peer import Switch
from sagent.plugins.hosting.live import ClientOptions
from sagent.plugins.hosting.opening import settings_for
from sagent.testing import ScriptedModel
from sagent.testing.server import Call, FakeProviderServer, Turn

ADVISOR = "anthropic/claude-opus-4-8"


class Door:
    """Opens sessions in one directory."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def settings(self, **flags: object) -> Settings:
        environment = {"HOME": str(self._place), "SAGENT_STATE_DIR": str(self._place / "state")}
        return load({"permission_mode": "full", **flags}, environment, self._place)


@pytest.fixture
async def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Door]:
    """A door to a session in which AgentSelf has changed everything it may."""
    changed = {"switch": {"effort": "low", "advisor": "off"}, "limits": {"max_turns": 7}}
    script = [Turn(calls=(Call("AgentSelf", changed),)), Turn(text="Done.")]
    async with FakeProviderServer(script, repeat_last=True) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        found = Door(tmp_path)
        flags = {"model": "anthropic/claude-sonnet-4-6", "tools": "AgentSelf", "advisor": [ADVISOR]}
        async with open_agent(found.settings(effort="high", **flags), lambda _: None) as agent:
            result = await agent.run("change yourself")
            assert result.content == "Done.", result
            assert not active(agent)
            assert agent.status().effort == "low"
        yield found


def active(agent: Agent) -> list[str]:
    assert isinstance(agent.advisory, AdvisorExtension)
    return [str(one) for one in agent.advisory.roster.active]


@pytest.mark.parametrize("how", ["continue_session", "fork", "session"])
async def test_flag_given_now_wins(door: Door, tmp_path: Path, how: str) -> None:
    place = next((tmp_path / "state" / "sessions").rglob("root.jsonl")).parent
    given = {"continue_session": {"continue": True}, "fork": {"fork": str(place)}, "session": {"session": str(place)}}
    flags = {"advisor": [ADVISOR], "effort": "max", "max_turns": 9}
    async with open_agent(door.settings(**given[how], **flags), lambda _: None) as agent:
        assert active(agent) == [f"advisor={ADVISOR}"]
        assert (agent.status().effort, agent.state.limits.max_turns) == ("max", 9)
    async with open_agent(door.settings(**given[how]), lambda _: None) as agent:
        assert active(agent) == ([] if how == "fork" else [f"advisor={ADVISOR}"]), "of the session that was continued"


async def test_advisor_set_again_in_repl_asked(door: Door) -> None:
    async with open_agent(door.settings(**{"continue": True}), lambda _: None) as agent:
        assert not active(agent)
        agent.apply(Switch(advisor=ADVISOR))
        assert active(agent) == [f"advisor={ADVISOR}"]
    async with open_agent(door.settings(**{"continue": True}), lambda _: None) as agent:
        assert active(agent) == [f"advisor={ADVISOR}"]


async def test_program_restores_given_advisors(tmp_path: Path) -> None:
    def agent() -> Agent:
        advisory = advise([ADVISOR])
        resources = Resources(advisory=advisory, resolve=lambda _: ScriptedModel("Advice."))
        return Agent(ScriptedModel("Done.", "Done."), session=tmp_path / "session", resources=resources)

    async with agent() as first:
        await first.run("go")
        first.apply(Switch(advisor="off"))
        assert not active(first)
        await first.run("go on")
    async with agent() as again:
        await again.run("go on")
        assert active(again) == [f"advisor={ADVISOR}"]


async def check_kept(place: Path, way: Callable[[Mapping[str, object], Path], Settings]) -> None:
    """Check that the flags of a server, which opens sessions in this way, do not undo what a session decided."""
    session = next((place / "state" / "sessions").rglob("root.jsonl")).parent
    flags = {"permission_mode": "full", "advisor": [ADVISOR], "cwd": str(place)}
    async with open_agent(way(flags, session), lambda _: None) as agent:
        assert not active(agent)
        agent.apply(Switch(advisor=ADVISOR))
    async with open_agent(way({**flags, "advisor": ["anthropic/claude-haiku-4-5"]}, session), lambda _: None) as agent:
        assert active(agent) == [f"advisor={ADVISOR}"]
    async with open_agent(way(flags, place / "new"), lambda _: None) as agent:
        assert active(agent) == [f"advisor={ADVISOR}"], "a session that begins has the server's"


async def test_server_flag_keeps_session_choice(door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `serve`, `acp`, `a2a` and `mcp serve` open a session."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SAGENT_STATE_DIR", str(tmp_path / "state"))
    await check_kept(
        tmp_path,
        lambda flags, path: settings_for(flags, ClientOptions(session=path.name) if path.exists() else ClientOptions()),
    )
