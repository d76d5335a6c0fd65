"""Goals: an agent continues until a command passes, or until results prove a condition, and no longer than allowed."""

import asyncio
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError, UsageError
from sagent.events import Event, Notice
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.plugins.goals.goal import ROLE, UNMET, Goal, policy_of, read_judgement
from sagent.plugins.goals.kept import FILE, Kept, keep, read
from sagent.plugins.goals.slash import Loop, read_interval
from sagent.surface import Surface
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools import Bash
from tests.repl.recorded import RecordingContext


def bash(command: str) -> ToolCall:
    return ToolCall("c", "Bash", json_freeze_object({"command": command}))


def agent_with(
    model: ScriptedModel, cwd: Path, *, events: list[Event] | None = None, cap: Decimal | None = None
) -> Agent:
    """Return an agent that has Bash and works in a directory."""
    book = PriceBook({f"{model.provider}/{model.id}": {"input": 1, "output": 2}})
    resources = Resources(workspace=Workspace(cwd), ledger=Ledger(cap, book))
    agent = Agent(model, tools=(Bash(),), resources=resources)
    if events is not None:
        agent.listen(events.append)
    return agent


def pursue(agent: Agent, text: str, attempts: int = 10) -> Goal:
    policy_of(surface := Surface(), agent).goal = found = Goal(agent, text, attempts)
    assert policy_of(surface, agent).goal is found
    return found


async def test_works_until_command_passes(tmp_path: Path) -> None:
    model = ScriptedModel("Done, it passes.", bash("touch made"), "Done now.", "Not asked for.")
    events: list[Event] = []
    async with agent_with(model, tmp_path, events=events) as agent:
        pursue(agent, "!test -e made || { echo made is missing; exit 3; }")
        result = await agent.run("Make the file.")
    assert (result.content, result.error) == ("Done now.", None)
    told = [one for one in agent.messages if one.sender == ROLE]
    assert len(told) == 1 and "made is missing" in told[0].content and "exit 3" in told[0].content
    assert any(isinstance(one, Notice) and "reached" in one.text for one in events)
    assert (await agent.run("And now?")).content == "Not asked for."  # it is not pursued further


async def test_unmet_goal_is_an_error(tmp_path: Path) -> None:
    async with agent_with(ScriptedModel(*["Done."] * 9), tmp_path) as agent:
        pursue(agent, "!false", attempts=3)
        result = await agent.run("Make it true.")
    assert result.error is not None and result.error.kind == result.stop_reason == UNMET
    assert result.turns == 3


async def test_check_can_be_interrupted(tmp_path: Path) -> None:
    async with agent_with(ScriptedModel("Done."), tmp_path) as agent:
        pursue(agent, "!touch begun; sleep 300")
        running = asyncio.ensure_future(agent.run("go"))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        agent.interrupt()
        result = await running
    assert result.stop_reason == "interrupted"


async def test_hanging_check_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.goals.goal.CHECK_TIMEOUT_SECONDS", 0.3)
    async with agent_with(ScriptedModel("Done.", "Done."), tmp_path) as agent:
        goal = pursue(agent, "!sleep 1000 & sleep 1000", attempts=2)
        result = await agent.run("go")
        assert agent.jobs() == ()
    assert result.stop_reason == UNMET and goal.last is not None and not goal.last.reached


async def test_condition_needs_proof_from_results(tmp_path: Path) -> None:
    model = ScriptedModel(
        "All 7 tests pass.",
        "REACHED\n> All 7 tests pass.",  # the judge, who believes what was said
        bash("echo 7 passed in 0.1s"),
        "They pass.",
        "REACHED\n> 7 passed in 0.1s",
    )
    async with agent_with(model, tmp_path) as agent:
        goal = pursue(agent, "all tests pass")
        result = await agent.run("Make them pass.")
        assert agent.ledger.totals().by_role[ROLE].charges == 2
    assert result.content == "They pass." and result.error is None and goal.attempts == 2
    assert goal.last is not None and goal.last.reached
    judged = [one for one in model.requests if "word for word" in (one.system or "")]
    assert len(judged) == 2 and not any(one.tools for one in judged)


async def test_judge_that_fails_ends_the_goal(tmp_path: Path) -> None:
    model = ScriptedModel("Done.", ModelError("auth", "no such key", provider="x"), "More.")
    async with agent_with(model, tmp_path) as agent:
        pursue(agent, "it is done")
        result = await agent.run("go")
        assert result.stop_reason == UNMET
        assert (await agent.run("again")).content == "More."


async def test_goal_stays_in_the_budget(tmp_path: Path) -> None:
    async with agent_with(ScriptedModel(*["Done."] * 500), tmp_path, cap=Decimal("0.01")) as agent:
        pursue(agent, "!false", attempts=400)
        with pytest.raises(BudgetExceeded):
            await agent.run("go")
        assert agent.cost().total <= Decimal("0.01")


@given(st.lists(st.sampled_from(["REACHED", "> ", "7 passed", "\n", " ", "`", "MISSING:"])).map("".join), st.text())
def test_only_quotes_of_results_reach(said: str, results: str) -> None:
    found = read_judgement(said, results)
    assert found.why
    if found.reached:
        assert "7 passed" in " ".join(results.split()) or "REACHED" in results


@pytest.mark.parametrize(
    ("said", "reached"),
    [
        ("REACHED\n> 7 passed", True),
        ("**REACHED**\n\n> `7  passed`", True),
        ("REACHED", False),
        ("REACHED\n> ok", False),
        ("REACHED\n> [Bash]", False),
        ("REACHED\n> 7 passed\n> 0 failed", False),
        ("MISSING: run the tests", False),
        ("It is reached.\n> 7 passed", False),
        ("", False),
    ],
)
def test_judgement_of_a_model(said: str, *, reached: bool) -> None:
    assert read_judgement(said, "[Bash]\n7 passed\nok\n").reached is reached


@pytest.mark.parametrize("text", ["", "  ", "!", "! "])
async def test_empty_goal_is_refused(text: str, tmp_path: Path) -> None:
    async with agent_with(ScriptedModel(), tmp_path) as agent:
        with pytest.raises(UsageError, match="words or a command"):
            Goal(agent, text, 3)


async def test_command_goal_needs_bash(context: RecordingContext) -> None:
    with pytest.raises(UsageError, match="no Bash"):
        await context.do("/goal !make test")
    assert "no goal" in await context.do("/goal")


async def test_goal_in_the_repl(context: RecordingContext) -> None:
    await context.do("/goal the answer is there")
    assert len(context.prompts) == 1 and "the answer is there" in context.prompts[0]
    assert "0 of 10" in await context.do("/goal")
    assert "no longer" in await context.do("/goal off")
    assert "no goal" in await context.do("/goal off")


# -- loops -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m look", 600), ("1s look", 1), ("2 hours look", 7_200), ("1d look", 86_400)]
)
def test_interval_is_read(text: str, seconds: int) -> None:
    assert read_interval(text) == (seconds, "look")


@pytest.mark.parametrize("text", ["look", "10 look", "0s look", "10m", "10m ", "8d look", "-1m look", "1.5h look"])
def test_wrong_interval_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="/loop"):
        read_interval(text)


async def sent(context: RecordingContext, number: int) -> None:
    """Wait until so many prompts were sent."""
    while len(context.prompts) < number:
        await asyncio.sleep(0)


async def test_loop_sends_between_turns(context: RecordingContext) -> None:
    await context.turn.acquire()
    loop = Loop(context, "look", 0.001)
    await asyncio.sleep(0.01)
    assert not context.prompts
    context.turn.release()
    await sent(context, 3)
    assert set(context.prompts) == {"look"} and loop.sent >= 3
    context._opened = replace(context.opened)  # another session was opened
    while not loop.done:
        await asyncio.sleep(0)


async def test_loop_survives_a_restart(context: RecordingContext, tmp_path: Path) -> None:
    keep(cast("Any", SimpleNamespace(log=SimpleNamespace(path=str(tmp_path)))), loop="look", interval_seconds=60.0)
    assert read(str(tmp_path)) == Kept(loop="look", interval_seconds=60.0)
    monkey = context.local.log
    monkey.path = str(tmp_path)  # pyright: ignore[reportAttributeAccessIssue] -- of a log in memory
    keep(context.local, due=time.time() - 150)
    await context.do("/loop on")
    await asyncio.sleep(0.1)
    assert context.prompts == ["look"] and "2 runs were missed" in context.written[-1]
    with pytest.raises(UsageError):
        await context.do("/loop on")
    assert read(str(tmp_path)).due > time.time()
    await context.do("/loop off")
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"loop": 7, "due": "x", "attempts": -3}', '{"due": NaN}', "\x00"])
def test_damaged_notes_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    assert read(str(tmp_path)) == Kept()


async def test_second_loop_replaces_the_first(context: RecordingContext) -> None:
    await context.do("/loop 1d one")
    await sent(context, 1)
    await context.do("/loop 1d two")
    await sent(context, 2)
    assert context.prompts == ["one", "two"]
    assert "two" in await context.do("/loop")
    assert "Ended" in await context.do("/loop off")
    assert "no loop" in await context.do("/loop")
