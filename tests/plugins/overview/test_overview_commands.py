"""`/status` and its like: facts of the open session, and its sandbox."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.config import load
from sagent.errors import UsageError
from sagent.policy.permissions import PermissionPolicy
from sagent.repl.opening import OpenedHere
from sagent.sandbox import Sandbox, probe
from sagent.sandbox.probe import Confinement
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from tests.repl.recorded import RecordingContext
from tests.repl.test_slash_commands import Row, check_row

COMMANDS = (
    Row("/help [name]", "/help", "/ask-advisor", completes="quit", wrong="nonsense"),
    Row("/context", "/context", "About .* tokens", wrong="x"),
    Row("/status", "/status", "permissions", wrong="x"),
    Row("/sessions", "/sessions", "● .*not saved", wrong="x"),
    Row("/sandbox [mode]", "/sandbox", "sandbox +off: it is switched off", completes="required", wrong="on"),
    Row("/sandbox [mode]", "/sandbox auto", refuses="give --sandbox on the command line"),
    Row("/tools", "/tools", "Read", wrong="x"),
    Row("/earlier [messages]", "/earlier 3", refuses="no terminal to show them on", wrong="0"),
    Row("/copy", "/copy", refuses="no terminal with a clipboard", wrong="x"),
    Row("/skills", "/skills", refuses="There are no skills", wrong="x"),
)


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.headless)
async def test_overview_command_row_works(context: RecordingContext, row: Row) -> None:
    await check_row(context, row)


async def test_session_facts_are_shown(context: RecordingContext) -> None:
    await context.opened.agent.run("a question")
    assert "Read" in await context.do("/tools")
    assert "█" in await context.do("/context")
    assert "edit" in await context.do("/status")
    assert "(not saved)  a question" in await context.do("/sessions")
    await context.do("/copy")
    assert context.copied == "The answer."


async def test_sessions_are_listed_last_first(tmp_path: Path) -> None:
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    for asked in ("mend the gate", "paint it"):
        with Session.create(settings.state_dir, tmp_path) as session:
            agent = Agent(ScriptedModel("Yes."), resources=Resources(log=session.log()))
            await agent.run(asked)
            await agent.aclose()
    with Session.create(settings.state_dir, tmp_path) as session:
        agent = Agent(ScriptedModel("Yes."), resources=Resources(log=session.log()))
        context = RecordingContext(replace(settings, fork="another"), OpenedHere(agent, PermissionPolicy("edit")))
        listed = (await context.do("/sessions")).splitlines()
        assert all(text in listed[0] for text in ("●", session.id, "(no messages yet)"))
        assert [line.rpartition("  ")[2] for line in listed[1:]] == ["paint it", "mend the gate"]
        await agent.aclose()


@pytest.mark.needs("bwrap")
async def test_sandbox_command_shows_and_switches(context: RecordingContext, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    agent, sandbox = context.opened.agent, Sandbox("off")
    policy = PermissionPolicy("edit", home=tmp_path, domains=("pypi.org",))
    context = RecordingContext(context.settings, OpenedHere(agent, policy, sandbox))
    assert "it is switched off" in await context.do("/sandbox")
    assert "required already" not in await context.do("/sandbox required")
    assert (sandbox.wanted, sandbox.stands) == ("required", True)
    assert "required already" in await context.do("/sandbox required")
    await agent.run("go")
    shown = await context.do("/sandbox")
    assert re.search(r"sandbox +bubblewrap\n +hosts +pypi.org\n +writable +.*temporary files\n", shown)
    assert f"{tmp_path}/.ssh" in shown
    context.picks = ["keep", "off"]
    assert await context.do("/sandbox off") == "The sandbox stays."
    assert sandbox.stands
    assert "run without a sandbox" in await context.do("/sandbox off")
    assert not sandbox.stands
    await agent.run("go on")
    told = [message.content for message in agent.messages if message.sender == "sandbox"]
    assert told == [
        "From now on commands run in bubblewrap.",
        "From now on commands run without a sandbox: it is switched off.",
    ]


async def test_sandbox_not_switched_in_a_turn(context: RecordingContext) -> None:
    agent = context.opened.agent
    going = asyncio.create_task(agent.run("go"))
    while not agent.running:
        await asyncio.sleep(0)
    with pytest.raises(UsageError, match="A turn is in progress"):
        await context.do("/sandbox auto")
    await going


async def test_required_sandbox_refused_without_bwrap(
    context: RecordingContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_try_all", lambda: Confinement("none", "bwrap is not installed"))
    with pytest.raises(UsageError, match="there is no sandbox here, because bwrap is not installed"):
        await context.do("/sandbox required")
    assert "it is switched off" in await context.do("/sandbox")
