"""Patterns as tools of another agent: their agents work below the one that calls, on its ledger, with what it has."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sagent import run_sync
from sagent.agent import Agent, RunLimits
from sagent.cost.ledger import Ledger
from sagent.errors import ModelError, UsageError
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.model import Request
from sagent.plugins.teams import Role, Team, handoff, loop_until, parallel, sequential, triage
from sagent.plugins.teams.files import read_team
from sagent.session.contents import Unknown
from sagent.session.store import Session
from sagent.testing import Line, ScriptedModel
from tests.agent.test_agent_tool import PRICES, ask, echo, lead, results
from tests.agent.test_agents_beside_the_tree import warnings
from tests.agent.test_deps import Shop, stock
from tests.agent.test_deps import ask as ask_for
from tests.agent.test_short_forms import check
from tests.agent.test_walk_agents import Cast, call, forever, in_turn, look, told, tree_tools
from tests.depth import slow
from tests.intact import faults


async def test_pattern_runs_below_caller_ledger() -> None:
    ledger = Ledger(Decimal(1), PRICES)
    team = sequential(
        parallel(
            Agent(ScriptedModel("a")), Agent(ScriptedModel("b")), aggregate=lambda rs: "".join(r.content for r in rs)
        ),
        Agent(ScriptedModel(echo)),
    )
    agent = lead(team, resources={"ledger": ledger})
    result = await agent.run("go")
    assert result.content == "<ab>"
    assert set(ledger.cost().by_agent) == {"root", "root/expert", "root/expert-2", "root/expert-3"}
    assert all(each.ledger.cost().total == 0 for each in team.agents)


@pytest.mark.parametrize("nested", [False, True])
async def test_pattern_call_continues_conversation(nested: bool) -> None:
    writer = Agent(ScriptedModel("1", lambda r: f"{len(r.messages)}: {r.messages[1].content} and more"))
    agent = lead(
        loop_until(sequential(writer) if nested else writer, lambda result: "more" in result.content or "longer")
    )
    assert (await agent.run("go")).content == "3: 1 and more"
    assert not writer.messages


async def test_parallel_handoffs_below_caller() -> None:
    def pass_on(request: Request) -> tuple[Line, ...]:
        said = json_freeze_object({"to": "b", "message": request.messages[-1].content})
        return (ToolCall("h", "handoff", said),)

    def answer(request: Request) -> str:
        return request.messages[-1].content.rpartition("\n")[2]

    team = handoff({"a": Agent(ScriptedModel(pass_on, pass_on)), "b": Agent(ScriptedModel(answer, answer))})
    result = await lead(team, (ask("1", "x"), ask("2", "y")), results).run("go")
    assert result.content == "x|y"


async def test_failing_step_fails_the_call() -> None:
    error = ModelError("network", "unplugged", provider="p", model="m")
    after = Agent(ScriptedModel("never"))
    failing = Agent(ScriptedModel(error), limits=RunLimits(max_retries=0))
    result = await lead(sequential(failing, after)).run("go")
    assert "expert failed (network): p/m:" in result.content


async def test_log_of_tree_verifies(tmp_path: Path) -> None:
    with Session.create_at(tmp_path / "s") as session:
        log = session.log()
        log.append(Unknown("opened", {"session": session.id, "agent": "root"}))
        expert = loop_until(Agent(ScriptedModel("1", "2")), lambda result: result.content == "2")
        agent = lead(expert, resources={"log": log})
        assert (await agent.run("go")).content == "2"
        await agent.aclose()
    assert faults(tmp_path / "s") == []
    assert (tmp_path / "s/root/expert-2.jsonl").is_file()


async def test_interrupted_pattern_shows_progress() -> None:
    inner = Cast(root=in_turn("begun"))
    inner.players["root/ask"] = in_turn("first")
    inner.players["root/ask-2"] = in_turn(look("half"), forever)
    made = [Agent(inner, tools=tree_tools()) for _ in range(2)]
    tool = sequential(*made).as_tool("ask", "Asks.")
    cast = Cast(root=in_turn((call("1", "ask", prompt="x"),)))
    agent = Agent(cast, tools=[tool])
    task = asyncio.create_task(agent.run("go"))
    while len(inner.requests.get("root/ask-2", ())) < 2:
        await asyncio.sleep(0.002)
    agent.interrupt()
    await task
    assert told(agent).endswith("The end of what it had shown:\nhalf")


async def test_pattern_within_tree_not_warned() -> None:
    given = parallel(Agent(ScriptedModel("yes")), Agent(ScriptedModel("yes"))).as_tool("inside", "Within the tree.")
    assert await warnings(given, Decimal(1)) == []


def test_pattern_runs_synchronously() -> None:
    assert run_sync(sequential(Agent(ScriptedModel("a")), Agent(ScriptedModel("b"))), "x").content == "b"


async def test_deps_reach_all_agents() -> None:
    shop = Shop("s")

    def one() -> Agent[Shop]:
        return Agent(ScriptedModel(ask_for("x"), "said"), deps_type=Shop, tools=[stock])

    await sequential(one(), parallel(one(), one())).run("go", deps=shop)
    assert shop.asked == ["root x"] * 3
    lead = Agent(Cast(root__a=in_turn(ask_for("y"), "said")), deps_type=Shop, tools=[stock])
    result = await Team(lead, [Role("a", "look")]).run("go", deps=shop)
    assert result.error is None and shop.asked[3:] == ["root/a y"]


def test_team_keeps_each_task(tmp_path: Path) -> None:
    lead = Agent(ScriptedModel("one", "two"), session=tmp_path / "a")
    team = Team(lead, [Role("writer", "Write.")])
    assert [team.run_sync(text).content for text in ("x", "y")] == ["one", "two"]
    assert [message.content for message in Agent(ScriptedModel(), session=tmp_path / "a").messages][-2:] == ["y", "two"]


async def test_roles_and_advisors_have_own_options(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text(
        """name = "t"
[[roles]]
name = "first"
prompt = "p"
temperature = 0.1
[[roles]]
name = "second"
prompt = "p"
options = { top_p = 0.3, stop_sequences = ["X"] }
"""
    )
    roles = read_team(tmp_path / "team.toml").roles
    assert [role.options for role in roles] == [{"temperature": 0.1}, {"top_p": 0.3, "stop_sequences": ["X"]}]
    model = ScriptedModel("done", "done", "done")
    lead = Agent(model, options={"temperature": 0.9})
    await Team(lead, (*roles, Role("third", "p"))).run("go")
    assert [request.options for request in model.requests] == [
        {"temperature": 0.1},
        {"top_p": 0.3, "stop_sequences": ("X",)},
        {"temperature": 0.9},
    ]
    await lead.aclose()


def made(pattern: object) -> Any:
    """Return a pattern as a program without types sees it."""
    return pattern


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda agent: made(triage)(agent, [agent]), "triage takes agents by name"),
        (lambda agent: made(handoff)([agent]), "handoff takes agents by name"),
        (lambda agent: made(loop_until)(agent, 3), "done is int: give an agent or a function"),
        (lambda agent: made(loop_until)(agent, lambda result: None).run_sync("x"), "done returned None: True approves"),
        (lambda agent: made(loop_until)(agent, bool, rounds="3"), "rounds='3': give a whole number from 1"),
        (lambda agent: made(parallel)(agent, quorum="1"), "quorum='1': give a whole number from 1"),
        (lambda agent: made(parallel)(agent, aggregate=3), "aggregate is int: give an agent or a function"),
        (
            lambda agent: made(parallel)(agent, aggregate=lambda results: 3).run_sync("x"),
            "aggregate returned 3: a string",
        ),
    ],
)
def test_invalid_pattern_explained(make: Callable[[Agent], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make(Agent(ScriptedModel("a")))


@pytest.mark.parametrize("pattern", [sequential, parallel])
def test_pattern_names_its_members(pattern: Callable[..., object]) -> None:
    with pytest.raises(UsageError, match="list is not an agent: pass agents or patterns, each as its own argument"):
        pattern([Agent(ScriptedModel("x")), Agent(ScriptedModel("x"))])


IDIOMS = """
from sagent import Agent
from sagent.plugins.teams import Role, Team, loop_until, parallel, sequential
from sagent.testing import ScriptedModel


async def main() -> None:
    one, two = (Agent(ScriptedModel("x")) for _ in range(2))
    await sequential(one, two).run("Which?")
    await parallel(one, two, aggregate=lambda results: results[0].content).run("Which?")
    await loop_until(one, lambda result: "done" in result.content or "go on").run("Which?")
    async with Team(one, [Role("finder", "Find bugs.")]) as team:
        await team.run("Look.")
"""


@slow
def test_pattern_idioms_type_check() -> None:
    assert check({"idioms": IDIOMS}) == ""
