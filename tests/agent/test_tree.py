"""A tree of agents: spawned, named, told things, retuned, stopped; and what its limits hold."""

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.agent.tree import Tree, TreeLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.compaction import CLEARED
from sagent.errors import ModelError, UsageError
from sagent.events import Event, Finished
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.model import Model, Request
from sagent.peer import Compact, SpawnRequest, Switch
from sagent.policy import Allow, AllowAll, Deny, Verdict
from sagent.session.contents import Unknown
from sagent.session.folds import history
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from sagent.tool import Effect, Workspace
from sagent.tools import Bash
from tests.agent.cast import PRICES, Cast, results, root_of, tree_tools
from tests.intact import faults
from tests.messages import Player, Step, call, in_turn
from tests.waiting import until


async def test_child_answers_with_inherited_setup() -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="count to 3", name="my review"),), results),
        **{"root__my-review": in_turn("1 2 3")},
    )
    events: list[Event] = []
    agent = root_of(cast)
    agent.listen(events.append)
    result = await agent.run("go")
    (seen,) = cast.requests["root/my-review"]
    assert result.content == "1 2 3"
    assert (seen.system, seen.tools) == ("be brief", cast.requests["root"][0].tools)
    assert seen.messages[-1].sender == "root"
    assert "count to 3" in seen.messages[-1].content
    assert [event.agent for event in events if isinstance(event, Finished)] == ["root/my-review", "root"]
    assert [each.path for each in agent.tree.living] == ["root"]


async def test_parallel_children_named_by_path() -> None:
    together = asyncio.Barrier(2)

    async def meet(request: Request) -> str:
        await asyncio.wait_for(together.wait(), 60)
        return "met"

    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="a"), call("2", "AgentSpawn", prompt="b")), results),
        root__1=meet,
        root__2=in_turn((call("3", "AgentSpawn", prompt="c", name="deep"),), results),
        root__2__deep=meet,
    )
    result = await root_of(cast).run("go")
    assert result.content == "met\nmet"
    assert set(cast.requests) == {"root", "root/1", "root/2", "root/2/deep"}


def ask_when(words: str) -> list[Player]:
    """Ends its turn until the child has answered, and then asks it something."""

    def play(request: Request) -> Step:
        if words in request.messages[-1].content:
            return (call("2", "AgentSend", to="aide", content="what is 2+2?"),)
        return "waiting"

    def then(request: Request) -> Step:
        if words in request.messages[-1].content:
            return play(request)
        return f"heard: {request.messages[-1].content}"

    return [play, then]


async def test_lasting_child_answers_by_messages() -> None:
    cast = Cast(
        root=in_turn(
            (call("1", "AgentSpawn", prompt="wait for orders", name="aide", persistent=True),),
            *ask_when("ready"),
            *[lambda request: f"heard: {request.messages[-1].content}"] * 2,
        ),
        root__aide=in_turn("ready", "4"),
    )
    agent = root_of(cast)
    result = await agent.run("go")
    assert result.content.endswith("root/aide has answered:\n4")
    assert [peer.path for peer in agent.peers()] == ["root/aide"]
    await agent.aclose()
    assert [peer.path for peer in agent.peers()] == []


async def test_message_reaches_agent_in_a_tool() -> None:
    cast = Cast(
        root=in_turn((call("1", "Bash", command="sleep 30"),), lambda r: r.messages[-1].content),
    )
    agent = Agent(cast, tools=[Bash()])
    task = asyncio.create_task(agent.run("go"))
    await until(lambda: agent.running and len(cast.requests.get("root", ())) >= 1, task=task)
    await asyncio.sleep(0.2)
    agent.send("never mind")
    await until(lambda: len(cast.requests["root"]) >= 2, task=task)
    assert cast.requests["root"][1].messages[-1].content == "never mind"
    agent.interrupt()
    assert (await task).stop_reason in ("interrupted", "end")
    await agent.aclose()


async def test_cousins_write_by_name_or_pattern() -> None:
    ready = asyncio.Event()

    async def until_told(request: Request) -> str:
        ready.set()
        await asyncio.sleep(0.05)
        return "waiting"

    cast = Cast(
        root=in_turn(
            (call("1", "AgentSpawn", prompt="x", name="a", persistent=True),),
            (call("2", "AgentSpawn", prompt="y", name="b"),),
            lambda r: "ok",
            lambda r: "ok",
            lambda r: "ok",
        ),
        root__a=in_turn(until_told, lambda r: f"got {r.messages[-1].content} of {r.messages[-1].sender}"),
        root__b=in_turn(
            (call("3", "AgentSend", to="a*", content="hello cousin"), call("4", "AgentSend", to="nobody", content="?")),
            lambda r: results(r),
            lambda r: f"{r.messages[-1].content}",
        ),
    )
    agent = root_of(cast)
    await agent.run("go")
    answered = results(cast.requests["root/b"][1])
    assert "Sent to root/a." in answered
    assert all(part in answered for part in ("'nobody'", "root, root/a"))
    while len(cast.requests["root/a"]) < 2:
        await asyncio.sleep(0.01)
    assert cast.requests["root/a"][1].messages[-1].content == "hello cousin"
    await agent.aclose()


@pytest.mark.parametrize(
    ("limits", "spawns", "words"),
    [
        (TreeLimits(max_depth=0), 1, "at most 0 deep"),
        (TreeLimits(max_spawns=1), 2, "this session has reached its limit of spawned agents, 1"),
        (TreeLimits(max_live=1), 2, "(max_live_agents), and 256 be spawned in a session (max_spawns), 1 so far"),
    ],
)
async def test_limits_hold_in_code(limits: TreeLimits, spawns: int, words: str) -> None:
    calls = tuple(call(str(n), "AgentSpawn", prompt="x", name=f"n{n}") for n in range(spawns))
    cast = Cast(root=in_turn(calls, results), **{f"root__n{n}": in_turn("fine") for n in range(spawns)})
    result = await root_of(cast, limits=limits).run("go")
    assert words in result.content
    assert result.content.count("fine") == spawns - 1


async def test_denials_below_are_in_the_result() -> None:
    class Nothing(AllowAll):
        async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
            return Allow() if call.name == "AgentSpawn" else Deny("nothing today")

    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),), "done"),
        root__a=in_turn((call("2", "AgentSpawn", prompt="y", name="b"),), "done"),
        root__a__b=in_turn((call("3", "AgentSelf"),), "done"),
    )
    agent = Agent(cast, tools=tree_tools(), policy=Nothing())
    result = await agent.run("go")
    assert [(denial.tool, denial.call_id) for denial in result.denials] == [("AgentSelf", "3")]
    await agent.aclose()


async def test_child_may_be_forbidden_children() -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", max_depth=0),), results),
        root__a=in_turn((call("2", "AgentSpawn", prompt="y"),), results),
    )
    assert "at most 1 deep" in (await root_of(cast).run("go")).content


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"tools": ["Bash"]}, "no tool 'Bash' to pass on"),
        ({"model": "nobody/none"}, "has only scripted/scripted"),
        ({"effort": "huge"}, "unknown effort 'huge'"),
        ({"budget_usd": 9}, "more than what is left"),
        ({"budget_usd": -1}, "more than 0"),
        ({"share": "full", "system": "other"}, 'share "full"'),
        ({"name": "///"}, "is not a valid agent name"),
    ],
)
async def test_impossible_order_is_an_error_result(wish: dict[str, object], words: str) -> None:
    cast = Cast(root=in_turn((call("1", "AgentSpawn", prompt="x", **wish),), results))
    result = await root_of(cast, ledger=Ledger(Decimal(1), PriceBook(PRICES))).run("go")
    assert words in result.content
    assert set(cast.requests) == {"root"}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ModelError("auth", "no key", provider="p", model="m"), "failed (auth)"),
        (ModelError("network", "unplugged", provider="p", model="m"), "failed (network)"),
        (RuntimeError("a defect"), "failed (crashed): RuntimeError: a defect"),
    ],
)
async def test_failed_child_says_partial_output(fault: Exception, words: str) -> None:
    limits = RunLimits(max_retries=0)
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),), results),
        root__a=in_turn((call("2", "AgentSelf", status=True),), fault),
    )
    agent = Agent(cast, tools=tree_tools(), limits=limits)
    result = await agent.run("go")
    assert words in result.content
    assert result.error is None
    assert [each.path for each in agent.tree.living] == ["root"]


@pytest.mark.parametrize(("prices", "words"), [({}, "all agents: at least $0.0"), (PRICES, "all agents: $0.0")])
async def test_agent_is_told_of_unknown_price(prices: dict[str, dict[str, object]], words: str) -> None:
    cast = Cast(root=in_turn((call("1", "AgentSelf", status=True),), results))
    result = await root_of(cast, ledger=Ledger(None, PriceBook(prices))).run("go")
    assert words in result.content


async def test_share_full_copies_brief_tells_task() -> None:
    cast = Cast(
        root=in_turn(
            (call("1", "AgentSpawn", prompt="first", name="a"),),
            (call("2", "AgentSpawn", prompt="second", name="b", share="full"),),
            (call("3", "AgentSpawn", prompt="third", name="c", share="brief"),),
            "done",
        ),
        root__a=in_turn("from a"),
        root__b=in_turn("from b"),
        root__c=in_turn("from c"),
    )
    await root_of(cast).run("the great task")
    own, full, brief = (cast.requests[name] for name in ("root", "root/b", "root/c"))
    before = own[1].messages
    assert full[0].messages[: len(before)] == before
    assert (full[0].system, full[0].tools) == (own[1].system, own[1].tools)
    assert len(full[0].messages) == len(before) + 1
    told = brief[0].messages[0].content
    assert len(brief[0].messages) == 1
    assert "the great task" in told
    assert "from a" in told
    assert "from b" in told


async def test_agent_changes_itself_or_nothing() -> None:
    other = ScriptedModel("from the other", provider="other", model_id="m")

    def resolve(name: str) -> Model:
        if name == "other/m":
            return other
        raise UsageError(f"there is no {name}")

    def selfcall(call_id: str, **wish: object) -> tuple[ToolCall, ...]:
        return (call(call_id, "AgentSelf", **wish),)

    seen: list[str] = []

    def note(step: Step) -> Player:
        def play(request: Request) -> Step:
            seen.append(results(request))
            return step

        return play

    model = ScriptedModel(
        selfcall("1", status=True),
        note(selfcall("2", switch={"model": "nobody/x"}, limits={"max_turns": 3})),
        note(selfcall("3", limits={"max_turns": 99})),
        note(selfcall("3a", switch={"modell": "other/m"})),
        note(selfcall("3b", switch={"provider": "other"})),
        note(selfcall("3c", context={"drop": ["Nothing"]}, limits={"max_turns": 2})),
        note(selfcall("4", limits={"max_turns": 9}, switch={"effort": "low"})),
        note(selfcall("5", switch={"provider": "other", "model": "m"})),
    )
    agent = Agent(model, tools=tree_tools(), limits=RunLimits(max_turns=10), resources=Resources(resolve=resolve))
    result = await agent.run("go")
    assert result.content == "from the other"
    assert "context: about" in seen[0]
    assert "results of" not in seen[0]
    assert all(part in seen[1] for part in ("Nothing was changed", "nobody/x"))
    assert "max_turns can be at most 10" in seen[2]
    assert "switch has no 'modell'" in seen[3]
    assert "give a model of other too" in seen[4]
    assert all(part in seen[5] for part in ("Nothing was changed", "no tool 'Nothing'"))
    assert agent.status().limits == {"max_turns": 9}
    assert (agent.status().model, agent.status().effort) == ("other/m", "low")


async def test_results_dropped_and_context_cleared(tmp_path: Path) -> None:
    long = "x" * 5_000
    steps: list[Request] = []

    def see(step: Step) -> Player:
        def play(request: Request) -> Step:
            steps.append(Request("", tuple(request.messages)))
            return step

        return play

    class Long:
        name, description, parameters = "Long", "", json_freeze_object({"type": "object"})

        async def __call__(self, arguments: object, run: object) -> str:
            return long

    with Session.create_at(tmp_path / "s") as session:
        log = session.log()
        log.append(Unknown("opened", {"session": session.id, "agent": "root"}))
        model = ScriptedModel(
            (call("1", "Long"),),
            (call("2", "AgentSelf", context={"drop": ["Long"]}),),
            see((call("3", "AgentSelf", context={"clear": True}),)),
            see("end"),
        )
        agent = Agent(model, tools=[Long(), *tree_tools()], resources=Resources(log=log))
        await agent.run("the task")
        assert "taken out of the context" in steps[0].messages[2].results[0].text
        task, cleared = (message.content for message in steps[1].messages)
        assert (task, cleared.startswith(CLEARED)) == ("the task", True)
        assert "the task" in Path(cleared.rpartition("kept in ")[2].removesuffix(".")).read_text()
        assert history(log.entries(), log.blobs.get) == tuple(agent.messages)
    assert faults(tmp_path / "s") == []


async def test_coordinator_retunes_a_worker() -> None:
    cast = Cast(
        root=in_turn(
            (call("1", "AgentSpawn", prompt="x", name="worker", persistent=True),),
            (call("2", "AgentSelf", target="worker", switch={"effort": "high"}, limits={"max_turns": 5}),),
            "ok",
            "ok",
            "ok",
        ),
        root__worker=in_turn("idle"),
    )
    agent = root_of(cast)
    await agent.run("go")
    (worker,) = agent.peers()
    assert (worker.status().effort, worker.status().limits["max_turns"]) == ("high", 5)
    await agent.aclose()


async def test_interrupt_includes_descendants() -> None:
    async def forever(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),), "after"),
        root__a=in_turn((call("2", "AgentSpawn", prompt="y", name="b"),)),
        root__a__b=forever,
    )
    agent = root_of(cast)
    task = asyncio.create_task(agent.run("go"))
    while "root/a/b" not in cast.requests:
        await asyncio.sleep(0.01)
    agent.interrupt()
    result = await asyncio.wait_for(task, 30)
    assert result.stop_reason == "interrupted"
    assert [each.path for each in agent.tree.living] == ["root"]
    assert (await agent.run("again")).content == "after"


async def test_cancelled_parent_cancels_descendants() -> None:
    async def forever(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", persistent=True),), forever),
        root__a=in_turn((call("2", "AgentSpawn", prompt="y", name="b"),)),
        root__a__b=forever,
    )
    agent = root_of(cast)
    task = asyncio.create_task(agent.run("go"))
    while "root/a/b" not in cast.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(agent.aclose(), 30)
    assert [each.path for each in agent.tree.living] == ["root"]
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("root")]


async def test_allowance_bounds_child_and_returns() -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", budget_usd=0.00002),), results),
        root__a=in_turn("too dear"),
    )
    ledger = Ledger(Decimal(1), PriceBook(PRICES))
    result = await root_of(cast, ledger=ledger).run("go")
    assert "root/a failed (budget_exceeded)" in result.content or "root/a failed (budget)" in result.content
    assert "allowance of root/a" in result.content
    assert ledger.cap_of("root/a") == Decimal(1)
    assert "root/a" not in cast.requests


async def test_log_of_tree_is_verified_whole(tmp_path: Path) -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),), "end"),
        root__a=in_turn((call("2", "AgentSpawn", prompt="y", name="b"),), "a"),
        root__a__b=in_turn("b"),
    )
    with Session.create_at(tmp_path / "s") as session:
        log = session.log()
        log.append(Unknown("opened", {"session": session.id, "agent": "root"}))
        result = await root_of(cast, log=log).run("go")
        assert result.content == "end"
    assert faults(tmp_path / "s") == []
    assert (tmp_path / "s/root/a/b.jsonl").is_file()
    data = (tmp_path / "s/root/a/b.jsonl").read_bytes()
    (tmp_path / "s/root/a/b.jsonl").write_bytes(data.replace(b'"b"', b'"c"', 1))
    assert faults(tmp_path / "s")


async def test_agents_spawned_from_python() -> None:
    cast = Cast(root=in_turn("unused"), root__a=in_turn("one", "two"))
    agent = root_of(cast)
    peer = await agent.spawn(SpawnRequest("x", name="a", persistent=True))
    assert (await peer.wait()).content == "one"
    peer.send("more")
    while len(cast.requests["root/a"]) < 2 or peer.status().state != "idle":
        await asyncio.sleep(0.01)
    assert (await peer.wait()).content == "two"
    peer.apply(Compact(clear=True))
    with pytest.raises(UsageError):
        peer.apply(Switch(effort="no such"))
    assert [status.path for status in (one.status() for one in agent.tree.living)] == ["root", "root/a"]
    await agent.aclose()
    assert peer.status().state == "ended"


def test_names_find_agents_as_meant() -> None:
    tree = Tree()

    class Named:
        def __init__(self, path: str) -> None:
            self.path, self.hears = path, True

    for path in ("root", "root/a", "root/b", "root/a/b", "root/a/c"):
        tree.add(Named(path))  # pyright: ignore[reportArgumentType]

    def found(pattern: str, near: str) -> list[str]:
        return [agent.path for agent in tree.find(pattern, near)]

    assert found("b", "root/a") == ["root/a/b"]
    assert found("b", "root") == ["root/b"]
    assert found("c", "root/b") == ["root/a/c"]
    assert found("parent", "root/a/c") == ["root/a"]
    assert found("a/c", "root/b") == ["root/a/c"]
    assert found("*", "root/a") == ["root", "root/a/b", "root/a/c", "root/b"]
    assert found("root/a/*", "root") == ["root/a/b", "root/a/c"]
    assert found("zz", "root") == []
