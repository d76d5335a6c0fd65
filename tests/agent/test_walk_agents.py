"""Promises about agents in a tree that a walk through them found broken, or shown by nothing else."""

import asyncio
from decimal import Decimal

import pytest

from sagent.agent import Agent, Resources, RunLimits, Tree, resume
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.events import Event, ToolProgress
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import Message, Text, user
from sagent.model import Request
from sagent.peer import SpawnRequest
from sagent.session.entries import Entry
from sagent.tool import RunContext
from tests.agent.cast import PRICES, Cast, results, root_of, tree_tools
from tests.messages import Player, Step, call, in_turn


async def forever(request: Request) -> str:
    await asyncio.sleep(60)
    return "never"


def last(request: Request) -> str:
    return request.messages[-1].content


def look(words: str, call_id: str = "look") -> Player:
    """Says something, and goes on."""
    return lambda request: (words, call(call_id, "AgentSelf", status=True))  # pyright: ignore[reportReturnType]


def told(agent: Agent) -> str:
    """The results of all its calls."""
    return "\n".join(result.text for message in agent.messages for result in message.results)


class Letting:
    """A tool whose calls can be let go."""

    name, description = "Letting", ""
    parameters = json_freeze_object({"type": "object"})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
        gone = asyncio.Event()

        def let_go() -> str:
            gone.set()
            return "its output goes to /there"

        run.offer_detach(let_go)
        await gone.wait()
        return ""


async def test_interrupted_parent_knows_childs_text() -> None:
    cast = Cast(root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),)), root__a=in_turn(look("half"), forever))
    agent = root_of(cast)
    task = asyncio.create_task(agent.run("go"))
    while len(cast.requests.get("root/a", ())) < 2:
        await asyncio.sleep(0.002)
    agent.tree.interrupt("root")
    assert (await task).stop_reason == "interrupted"
    assert told(agent) == "interrupted before it ended\nThe end of what it had shown:\nroot/a: half"


async def test_cancelled_job_keeps_childs_text() -> None:
    def wait(request: Request) -> Step:
        return (call("2", "BackgroundTask", operation="cancel", id="job:1"),)

    async def ready(request: Request) -> Step:
        while len(cast.requests.get("root/a", ())) < 2:
            await asyncio.sleep(0.002)
        return wait(request)

    output = (call("3", "BackgroundTask", operation="output", id="job:1"),)
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", background=True),), ready, output, results),
        root__a=in_turn(look("half"), forever),
    )
    agent = root_of(cast)
    assert (await agent.run("go")).content.endswith("root/a: half")
    assert [each.path for each in agent.tree.living] == ["root"]


async def test_interrupted_agent_tool_text_is_known() -> None:
    inner = Cast(root=in_turn("begun"))
    inner.players["root/ask"] = in_turn(look("half"), forever)
    tool = Agent(inner, tools=tree_tools()).as_tool("ask", "Asks.")
    cast = Cast(root=in_turn((call("1", "ask", prompt="x"),)))
    agent = Agent(cast, tools=[tool])
    task = asyncio.create_task(agent.run("go"))
    while len(inner.requests.get("root/ask", ())) < 2:
        await asyncio.sleep(0.002)
    agent.interrupt()
    await task
    assert told(agent).endswith("The end of what it had shown:\nhalf")


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"max_turns": -1}, "max_turns: give a whole number above 0, not -1"),
        ({"max_turns": 0}, "max_turns: give a whole number above 0, not 0"),
        ({"max_depth": -1}, "max_depth: give a whole number, 0 or more, not -1"),
    ],
)
async def test_child_cannot_pass_parents_limits(wish: dict[str, object], words: str) -> None:
    cast = Cast(root=in_turn((call("1", "AgentSpawn", prompt="x", **wish),), results))
    agent = Agent(cast, tools=tree_tools(), limits=RunLimits(max_turns=2))
    assert words in (await agent.run("go")).content
    assert set(cast.requests) == {"root"}


async def test_order_may_leave_things_open() -> None:
    wish: dict[str, object] = {"name": None, "max_turns": None, "max_depth": None, "budget_usd": None, "tools": None}
    cast = Cast(root=in_turn((call("1", "AgentSpawn", prompt="x", **wish),), results), root__1=in_turn("fine"))
    assert (await root_of(cast).run("go")).content == "fine"


@pytest.mark.parametrize("usd", ["-0.5", "NaN", "Infinity", "1e60"])
async def test_allowance_is_an_amount(usd: str) -> None:
    ledger = Ledger(Decimal(1), PriceBook(PRICES))
    agent = root_of(Cast(), ledger=ledger)
    with pytest.raises(UsageError, match="an amount of USD"):
        await agent.spawn(SpawnRequest("x", name="a", budget_usd=Decimal(usd)))
    assert ledger.cap_of("root/a") == 1
    assert [each.path for each in agent.tree.living] == ["root"]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"limits": {"budget_usd": 0.5}}, "limits has no 'budget_usd', it takes max_turns, "),
        ({"limits": {"max_turns": "many"}}, "max_turns: give a whole number above 0, not 'many'"),
        ({"limits": {"max_turns": 2.5}}, "max_turns: give a whole number above 0, not 2.5"),
        ({"limits": {"max_turns": True}}, "max_turns: give a whole number above 0, not True"),
        ({"limits": {"max_turns": 0}}, "max_turns: give a whole number above 0, not 0"),
        ({"switch": {"effort": 5}}, "effort: give a name, not 5"),
        ({"switch": {"model": ""}}, "model: give a name, not ''"),
        ({"switch": {"speed": "high"}}, "switch has no 'speed'"),
        ({"switch": {"provider": "other"}}, "give a model of other too"),
    ],
)
async def test_senseless_change_changes_nothing(wish: dict[str, object], words: str) -> None:
    cast = Cast(root=in_turn((call("1", "AgentSelf", **wish),), results))
    agent = Agent(cast, tools=tree_tools(), limits=RunLimits(max_turns=9))
    before = agent.status()
    said = (await agent.run("go")).content
    assert said.startswith(f"Nothing was changed: {words}")
    assert said.count("Nothing was changed") == 1
    assert (agent.status().limits, agent.status().effort) == (before.limits, before.effort)


async def test_empty_wish_claims_nothing() -> None:
    cast = Cast(root=in_turn((call("1", "AgentSelf", switch={"model": None}, limits={}, context={}),), results))
    assert (await root_of(cast).run("go")).content.startswith("root: working, scripted/scripted")


async def test_limit_may_be_written_as_text() -> None:
    cast = Cast(root=in_turn((call("1", "AgentSelf", limits={"max_turns": "5"}),), results))
    agent = Agent(cast, tools=tree_tools(), limits=RunLimits(max_turns=9))
    await agent.run("go")
    assert agent.status().limits == {"max_turns": 5}


async def test_agent_is_interrupted_by_its_path() -> None:
    cast = Cast(root__a=forever, root__a__b=forever, root__c=forever)
    agent = root_of(cast)
    a = await agent.spawn(SpawnRequest("x", name="a", persistent=True))
    b = await a.spawn(SpawnRequest("x", name="b", persistent=True))
    c = await agent.spawn(SpawnRequest("x", name="c", persistent=True))
    while len(cast.requests) < 3:
        await asyncio.sleep(0.002)
    agent.tree.interrupt("root/a", "self")
    assert (await a.wait()).stop_reason == "interrupted"
    assert (b.busy, c.busy) == (True, True)
    agent.tree.interrupt("root/a")
    assert (await b.wait()).stop_reason == "interrupted"
    assert c.busy
    with pytest.raises(UsageError, match=r"'root/d'\. There are: root, root/a, root/a/b, root/c\."):
        agent.tree.interrupt("root/d")
    await agent.aclose()


async def test_detached_jobs_known_at_session_end() -> None:
    def jobs() -> Player:
        begin = (call("1", "Letting", background=True),)
        return in_turn(begin, (call("2", "BackgroundTask", operation="detach", id="job:1"),), "done")

    cast = Cast(root=in_turn((call("0", "AgentSpawn", prompt="x", name="a"),), *[jobs()] * 3), root__a=jobs())
    agent = Agent(cast, tools=[*tree_tools(), Letting()])
    assert (await agent.run("go")).content == "done"
    await agent.aclose()
    text = "job:1 is detached and continues on its own, even after this session: its output goes to /there"
    assert agent.tree.detached == (f"root/a: {text}", f"root: {text}")


async def test_tool_learns_caller_and_costs() -> None:
    seen: list[object] = []

    class Curious:
        name, description, parameters = "Curious", "", json_freeze_object({"type": "object"})

        async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
            run.progress("half way")
            assert run.caller is not None
            seen.append((run.agent, run.caller.path, [peer.path for peer in run.caller.peers()], run.caller.cost()))
            return "done"

    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),), "end"),
        root__a=in_turn((call("2", "Curious"),), "a"),
    )
    events: list[Event] = []
    ledger = Ledger(Decimal(1), PriceBook(PRICES))
    agent = Agent(cast, tools=[*tree_tools(), Curious()], resources=Resources(ledger=ledger, tree=Tree()))
    agent.listen(events.append)
    await agent.run("go")
    ((who, path, peers, cost),) = seen  # pyright: ignore[reportGeneralTypeIssues]
    assert (who, path, peers) == ("root/a", "root/a", ["root"])
    assert set(cost.by_agent) == {"root", "root/a"}
    assert 0 < cost.total < ledger.cost().total
    assert ToolProgress("root/a", "2", "half way") in events


async def test_agent_reminds_itself() -> None:
    def wait(request: Request) -> str:
        return "look again" if last(request) == "look again" else "waiting"  # it may be there already

    cast = Cast(root=in_turn((call("1", "AgentSend", to="root", content="look again", delay=0.02),), wait, last))
    assert (await root_of(cast).run("go")).content == "look again"
    assert last(cast.requests["root"][-1]) == "look again"


async def test_ended_agent_message_names_living() -> None:
    cast = Cast(
        root=in_turn(
            (call("1", "AgentSpawn", prompt="x", name="a"), call("2", "AgentSpawn", prompt="x", name="b")),
            (call("3", "AgentSpawn", prompt="x", name="c", persistent=True),),
            (call("4", "AgentSend", to="a", content="still there?"),),
            results,
            last,
        ),
        root__a=in_turn("a"),
        root__b=in_turn("b"),
        root__c=in_turn("c"),
    )
    agent = root_of(cast)
    await agent.run("go")
    assert all(part in told(agent) for part in ("called 'a'", "root/c"))
    await agent.aclose()


async def test_brief_hand_off_is_last_request() -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="z", name="b", share="brief"),), "end"),
        root__a=in_turn("first answer", "second answer"),
        root__b=in_turn("b"),
    )
    agent = root_of(cast)
    a = await agent.spawn(SpawnRequest("first task", name="a", persistent=True))
    await a.wait()
    a.send("second task")
    await a.wait()
    await agent.run("go")
    told = last(cast.requests["root/b"][0])
    assert "root/a was asked:\nfirst task\nand answered:\nfirst answer" in told
    assert "root/a was asked:\nsecond task\nand answered:\nsecond answer" in told
    await agent.aclose()


@pytest.mark.parametrize("kind", ["network", "stalled", "overloaded", "payment", "not_found"])
async def test_lost_provider_is_named_with_text(kind: str) -> None:
    fault = ModelError(kind, "it is gone", provider="p", model="m")  # pyright: ignore[reportArgumentType]
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),), results), root__a=in_turn(look("half"), fault)
    )
    agent = Agent(cast, tools=tree_tools(), limits=RunLimits(max_retries=0))
    said = (await agent.run("go")).content
    assert said.startswith(f"root/a failed ({kind}): p/m: it is gone")
    assert said.endswith("Its output so far:\nhalf")


async def test_child_out_of_money_says_text() -> None:
    ledger = Ledger(Decimal(1), PriceBook(PRICES))
    spend = [look(f"part {number}", str(number)) for number in range(400)]
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", budget_usd=0.008),), results),
        root__a=in_turn(*spend),
    )
    said = (await root_of(cast, ledger=ledger).run("go")).content
    done = len(cast.requests["root/a"])
    assert said.startswith("root/a failed (budget)")
    assert said.endswith(f"Its output so far:\npart {done - 1}")
    assert ledger.spent_below("root/a") <= Decimal("0.008")
    assert ledger.cap_of("root/a") == 1


def test_cut_off_childs_text_is_known() -> None:
    def entry(number: int, kind: str) -> Entry:
        return Entry(str(number), str(number - 1) if number else "", "", kind, b"")

    asked, said, empty = user("x"), Message("assistant", (Text("half"),)), Message("assistant", ())
    entries = [entry(0, "opened"), entry(1, "message"), entry(2, "message")]
    assert resume.cut_off("root/a", entries, [], [asked, said, empty]) == (
        "root/a was lost: the process ended.\nIts output so far:\nhalf"
    )
    assert resume.cut_off("root/a", entries, [], [asked]) == (
        "root/a was lost: the process ended.\nIt had not said anything yet."
    )
    assert resume.cut_off("root/a", entries, ["2"], [asked, said]) is None
    assert resume.cut_off("root/a", entries[:1], [], []) is None


async def test_every_set_limit_can_be_lowered() -> None:
    limits = RunLimits(max_turns=9, max_tool_call_rounds=9, max_request_tokens=90_000, max_response_tokens=9_000)
    lower = {"max_turns": 8, "max_tool_call_rounds": 7, "max_request_tokens": 80_000, "max_response_tokens": 8_000}
    cast = Cast(root=in_turn((call("1", "AgentSelf", limits=lower),), "end"))
    agent = Agent(cast, tools=tree_tools(), limits=limits)
    assert set(agent.status().limits) == set(lower)
    await agent.run("go")
    assert agent.status().limits == lower
