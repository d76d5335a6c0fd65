"""An agent that was spawned, from its first moment to its last, and whoever waits for it, asks it or stops it."""

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources, RunLimits, Tree, TreeLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.compaction import CLEARED
from sagent.errors import UsageError
from sagent.events import Event, Notice, ReplyFinished
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import user
from sagent.model import Model, Request
from sagent.peer import Background, SpawnRequest, Stop, Switch
from sagent.session.contents import Unknown
from sagent.session.entries import read_body
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from sagent.tool import RunContext
from tests.agent.cast import PRICES, Cast, results, root_of, tree_tools
from tests.messages import Player, Step, call, calls, forever, in_turn, last
from tests.waiting import until


def ledger_of(usd: str) -> Ledger:
    return Ledger(Decimal(usd), PriceBook(PRICES))


class Gate:
    """A tool whose calls end when they are let through."""

    name, description = "Gate", "Waits."
    parameters = json_freeze_object({"type": "object"})

    def __init__(self) -> None:
        self.began, self.open = asyncio.Event(), asyncio.Event()

    async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
        self.began.set()
        await self.open.wait()
        return "through"


@pytest.mark.parametrize("persistent", [True, False])
async def test_interrupt_reaches_unstarted_agent(persistent: bool) -> None:
    cast = Cast(root__a=in_turn("too late"))
    agent = root_of(cast)
    peer = await agent.spawn(SpawnRequest("x", name="a", persistent=persistent))
    agent.interrupt()
    result = await asyncio.wait_for(peer.wait(), 60)
    assert result.stop_reason == "interrupted"
    assert cast.requests == {}
    if persistent:
        peer.send("now do it")
        assert (await peer.wait()).content == "too late"
    await agent.aclose()


async def test_interrupt_in_last_step_is_a_result() -> None:
    def listen(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            agent.interrupt()

    agent = Agent(ScriptedModel("done", "again"))
    agent.listen(listen)
    result = await agent.run("x")
    assert (result.content, result.stop_reason) == ("done", "interrupted")
    assert (await agent.run("y")).content == "again"
    await agent.aclose()


async def test_agent_ended_unstarted_leaves_nothing() -> None:
    ledger, cast = ledger_of("1"), Cast(root__a=in_turn("too late"))
    agent = root_of(cast, ledger=ledger)
    peer = await agent.spawn(SpawnRequest("x", name="a", budget_usd=Decimal("0.5"), persistent=True))
    assert agent.ledger.cap_of("root/a") == Decimal("0.5")
    async with asyncio.timeout(60):  # wait_for would let it begin, before Python 3.12
        await agent.aclose()
    assert (await peer.wait()).stop_reason == "interrupted"
    assert cast.requests == {}
    assert agent.ledger.cap_of("root/a") == 1
    assert [each.path for each in agent.tree.living] == ["root"]
    with pytest.raises(UsageError, match="has ended"):
        peer.send("anybody there?")


async def test_interrupted_agents_wait_for_a_message() -> None:
    cast = Cast(
        root__a=in_turn((call("1", "AgentSpawn", prompt="y", name="b", persistent=True),), forever, last),
        root__a__b=forever,
    )
    agent = root_of(cast)
    peer = await agent.spawn(SpawnRequest("x", name="a", persistent=True))
    await until(lambda: len(cast.requests.get("root/a", ())) == 2 and "root/a/b" in cast.requests)
    agent.interrupt()
    await peer.wait()
    await until(lambda: not agent.tree.below("root")[-1].busy)  # its own child's end has reached its inbox
    assert len(cast.requests["root/a"]) == 2
    peer.send("go on")
    assert (await peer.wait()).content == "go on"
    assert "root/a/b failed (interrupted)" in cast.requests["root/a"][2].messages[-2].content
    await agent.aclose()


async def test_deep_run_end_begins_no_turn_above() -> None:
    async def late(request: Request) -> str:
        await until(lambda: len(cast.requests["root/a/b"]) == 2)
        return "c"

    cast = Cast(
        root__a=in_turn((call("1", "AgentSpawn", prompt="y", name="b", persistent=True),), "a", "heard"),
        root__a__b=in_turn((call("2", "AgentSpawn", prompt="z", name="c", persistent=True),), "b", "b heard"),
        root__a__b__c=in_turn(late, "c again"),
    )
    agent = root_of(cast)
    await agent.spawn(SpawnRequest("x", name="a", persistent=True))
    await until(
        lambda: len(cast.requests.get("root/a/b", ())) == 3 and not any(a.busy for a in agent.tree.below("root"))
    )
    counts = {path: len(requests) for path, requests in cast.requests.items()}
    assert all(requests[-1].messages[-1].role == "user" for requests in cast.requests.values())
    agent.tree.wake_above("root/a/b/c")
    await asyncio.sleep(0.02)
    assert {path: len(requests) for path, requests in cast.requests.items()} == counts
    await agent.aclose()


async def test_waiting_after_writing_gets_that_answer() -> None:
    cast = Cast(root__a=in_turn("one", *[last] * 5))
    agent = root_of(cast)
    peer = await agent.spawn(SpawnRequest("x", name="a", persistent=True))
    assert (await peer.wait()).content == "one"
    for number in range(5):
        peer.send(f"message {number}")
        assert (await peer.wait()).content == f"message {number}"
    with pytest.raises(UsageError, match="runs by itself"):
        await peer.run("me too")
    await agent.aclose()


async def test_child_asks_parent_and_is_answered() -> None:
    def ask(request: Request) -> Step:
        return (call("2", "AgentSend", to="parent", content="which branch?"), call("3", "Gate"))

    def then(request: Request) -> str:
        asyncio.get_running_loop().call_later(0.05, gate.open.set)
        return "take main" if "which branch?" in last(request) else "?"

    gate = Gate()
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),), then, last, last, last),
        root__a=in_turn(ask, "done"),
    )
    agent = Agent(cast, tools=[*tree_tools(), gate], resources=Resources(tree=Tree()))
    result = await asyncio.wait_for(agent.run("go"), 60)
    assert last(cast.requests["root/a"][1]) == "root has answered:\ntake main"
    assert "done" in result.content
    await agent.aclose()


async def test_foreground_child_answers_a_cousin() -> None:
    gate = Gate()

    def ask(request: Request) -> Step:
        return (call("2", "AgentSend", to="b", content="how far?"),)

    async def free(request: Request) -> str:
        gate.open.set()
        return "half way"

    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="y", name="b"),), *[last] * 4),
        root__a=in_turn(ask, "asked", last),
        root__b=in_turn((call("3", "Gate"),), free, "through"),
    )
    agent = Agent(cast, tools=[*tree_tools(), gate], resources=Resources(tree=Tree()))
    task = asyncio.create_task(agent.run("go"))
    await gate.began.wait()
    asker = await agent.spawn(SpawnRequest("x", name="a", persistent=True))
    await asyncio.wait_for(task, 60)
    await until(lambda: len(cast.requests["root/a"]) == 3)
    assert last(cast.requests["root/a"][2]) == "root/b has answered:\nhalf way"
    assert (await asker.wait()).error is None
    await agent.aclose()


async def test_unread_question_is_returned() -> None:
    def spend(request: Request) -> Step:
        agent.tree.get("root/b").send(message)  # pyright: ignore[reportOptionalMemberAccess]
        return (call("1", "AgentSelf", status=True),)

    message = user("are you there?", sender="root/a")
    cast = Cast(root__a=in_turn("one", last), root__b=spend)
    agent = root_of(cast)
    asker = await agent.spawn(SpawnRequest("x", name="a", persistent=True))
    await asker.wait()
    failing = await agent.spawn(SpawnRequest("y", name="b", max_turns=1))
    assert (await failing.wait()).stop_reason == "max_turns"
    told = (await asker.wait()).content
    assert "root/b" in told
    assert "are you there?" in told or "failed (max_turns)" in told
    await agent.aclose()


async def test_ended_child_cannot_be_written_to() -> None:
    heard: list[bool] = []

    cast = Cast(root__a=in_turn("done"))
    agent = root_of(cast)
    peer = await agent.spawn(SpawnRequest("x", name="a"))
    agent.listen(lambda event: heard.append(bool(agent.peers("a"))) if type(event).__name__ == "Finished" else None)
    await peer.wait()
    assert heard == [False]
    await agent.aclose()


async def test_failed_spawn_takes_nothing(tmp_path: Path) -> None:
    ledger = ledger_of("1")
    with Session.create_at(tmp_path / "s") as session:
        log = session.log()
        log.append(Unknown("opened", {"session": session.id, "agent": "root"}))
        (tmp_path / "s" / "root").write_text("a file where a directory should be")
        agent = root_of(Cast(root__b=in_turn("b")), log=log, ledger=ledger, limits=TreeLimits(max_spawns=1))
        with pytest.raises(OSError, match="root"):
            await agent.spawn(SpawnRequest("x", name="b", budget_usd=Decimal("0.9")))
        assert ledger.cap_of("root/b") == 1
        (tmp_path / "s" / "root").unlink()
        with pytest.raises(UsageError, match="needs a prompt"):
            await agent.spawn(SpawnRequest("  ", name="b"))
        peer = await agent.spawn(SpawnRequest("x", name="b", budget_usd=Decimal("0.9")))
        assert (await peer.wait()).content == "b"
        assert peer.path == "root/b"
        await agent.aclose()


async def test_living_agents_limit_in_parallel() -> None:
    agent = root_of(
        Cast(**{f"root__{n}": forever for n in range(1, 9)}), ledger=ledger_of("1"), limits=TreeLimits(max_live=3)
    )
    orders = [SpawnRequest("x", budget_usd=Decimal("0.01"), persistent=True) for _ in range(8)]
    found = await asyncio.gather(*map(agent.spawn, orders), return_exceptions=True)
    assert sum(isinstance(each, Agent) for each in found) == 3
    assert len(agent.tree.living) == 4
    await agent.aclose()


async def test_answered_child_frees_its_place() -> None:
    cast = Cast(**{f"root__{n}": in_turn("fine") for n in range(1, 30)})
    agent = root_of(cast, limits=TreeLimits(max_live=1))
    for _ in range(20):
        peer = await agent.spawn("x")
        assert (await peer.wait()).content == "fine"
    await agent.aclose()


async def test_crashed_agent_reports_and_closes() -> None:
    def crash(request: Request) -> Step:
        raise RuntimeError("a defect")

    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a"),), results),
        root__a=in_turn(("half of it", call("2", "AgentSelf", status=True)), crash),  # pyright: ignore[reportArgumentType]
    )
    agent = root_of(cast)
    result = await agent.run("go")
    assert all(part in result.content for part in ("root/a failed (crashed)", "RuntimeError: a defect"))
    assert "Its output so far:\nhalf of it" in result.content
    assert [read_body(e)["kind"] for e in agent.log.child("root/a").entries() if e.kind == "failed"] == ["crashed"]


async def test_interrupted_child_keeps_early_words() -> None:
    first, second = Gate(), Gate()
    second.name = "Second"
    model = ScriptedModel(calls(call("1", "Gate"), text="It is in the parser."), calls(call("2", "Second")))
    child = await Agent(model, tools=[first, second]).spawn("find it")
    first.open.set()
    await second.began.wait()
    child.interrupt()
    result = await child.wait()
    assert result.error is not None
    assert (result.error.kind, result.content) == ("interrupted", "It is in the parser.")


async def test_old_call_text_does_not_delay_message() -> None:
    gate = Gate()
    cast = Cast(root=in_turn((call("1", "Gate"),), last))
    agent = Agent(cast, tools=[gate])
    agent.apply(Background("a call of long ago"))
    task = asyncio.create_task(agent.run("go"))
    await gate.began.wait()
    agent.apply(Background("another that there is not"))
    agent.send("read me")
    await until(lambda: len(cast.requests["root"]) == 2)
    assert last(cast.requests["root"][1]) == "read me"
    agent.interrupt()
    await task
    await agent.aclose()


async def test_task_survives_clear_after_a_job() -> None:
    gate = Gate()
    gate.open.set()
    seen: list[list[str]] = []

    def see(request: Request) -> str:
        seen.append([message.content for message in request.messages])
        return "end"

    model = ScriptedModel(
        (call("1", "Gate", background=True),),
        "waiting",
        (call("2", "AgentSelf", context={"clear": True}),),
        see,
    )
    agent = Agent(model, tools=[gate, *tree_tools()])
    await agent.run("the task")
    ((task, cleared),) = seen
    assert (task, cleared.startswith(CLEARED)) == ("the task", True)


async def test_run_waits_for_messages_and_lasting_jobs() -> None:
    gate = Gate()

    def play(steps: tuple[Step, ...]) -> Player:
        return in_turn(*steps, *[last] * 5)

    cast = Cast(
        root=play(
            (
                (call("1", "AgentSpawn", prompt="x", name="a", persistent=True),),
                (call("2", "AgentSend", to="a", content="later", delay=0.15),),
            )
        ),
        root__a=play(((call("3", "Gate", background=True),), "first")),
    )
    agent = Agent(cast, tools=[*tree_tools(), gate])
    task = asyncio.create_task(agent.run("go"))
    await until(lambda: any(last(request) == "later" for request in cast.requests.get("root/a", ())))
    await asyncio.sleep(0.02)
    assert not task.done()  # its child's job runs
    gate.open.set()
    result = await asyncio.wait_for(task, 60)
    assert "through" in last(cast.requests["root/a"][-1])
    assert "job:1" in result.content
    await agent.aclose()


async def test_late_message_is_told_to_sender() -> None:
    def write(request: Request) -> str:
        agent.post(peer.path, user("hello?", sender="root"), 0.01)
        return "waiting"

    agent = root_of(Cast(root=in_turn(write, last), root__a=in_turn("done")))
    peer = await agent.spawn(SpawnRequest("x", name="a"))
    await peer.wait()
    result = await asyncio.wait_for(agent.run("go"), 60)
    assert result.content.startswith("root/a has ended") and "did not reach it: hello?" in result.content


async def test_case_only_names_are_other_files() -> None:
    agent = root_of(Cast(root__Review=in_turn("1"), **{"root__review-2": in_turn("2")}))
    first, second = [await agent.spawn(SpawnRequest("x", name=name)) for name in ("Review", "review")]
    assert (first.path, second.path) == ("root/Review", "root/review-2")
    with pytest.raises(UsageError, match="is not a valid agent name"):
        await agent.spawn(SpawnRequest("x", name="parent"))
    await first.wait()
    await second.wait()


async def test_stop_reaches_run_waiting_for_children() -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", persistent=True),), "waiting"), root__a=forever
    )
    agent = root_of(cast)
    task = asyncio.create_task(agent.run("go"))
    await until(lambda: "root/a" in cast.requests and len(cast.requests["root"]) == 2)
    await asyncio.sleep(0.02)
    agent.apply(Stop("enough"))
    assert (await asyncio.wait_for(task, 60)).stop_reason == "enough"
    await agent.aclose()


async def test_cancelled_run_stops_those_below() -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", persistent=True),), forever), root__a=forever
    )
    agent = root_of(cast)
    task = asyncio.create_task(agent.run("go"))
    await until(lambda: "root/a" in cast.requests and len(cast.requests["root"]) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await asyncio.wait_for(agent.peers("a")[0].wait(), 60)).stop_reason == "interrupted"
    await agent.aclose()


async def test_cancelling_interrupted_run_works() -> None:
    agent = root_of(Cast(root=forever))
    task = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0.02)
    agent.interrupt()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closing_ends_a_run_in_progress() -> None:
    agent = root_of(Cast(root=forever))
    task = asyncio.create_task(agent.run("go"))
    await asyncio.sleep(0.02)
    await asyncio.wait_for(agent.aclose(), 60)
    assert (await task).stop_reason == "interrupted"


def test_agent_runs_in_successive_loops() -> None:
    told: list[Request] = []

    async def one(request: Request) -> str:
        while not told:  # so that its answer is news
            await asyncio.sleep(0.01)
        return "one"

    cast = Cast(
        root=in_turn(
            (call("1", "AgentSpawn", prompt="x", name="a", persistent=True),),
            lambda request: told.append(request) or last(request),
            last,
            (call("2", "AgentSpawn", prompt="y", name="b", background=True),),
            "waiting",
            last,
            (call("3", "BackgroundTask", operation="wait", id="job:1"),),
            results,
        ),
        root__b=in_turn("two"),
        root__a=in_turn(one),
    )
    agent = Agent(cast, tools=tree_tools(), limits=RunLimits())
    assert "one" in agent.run_sync("go").content
    assert "two" in agent.run_sync("and?").content
    assert "job:1" in agent.run_sync("and then?").content


async def test_job_cancelled_unstarted_has_ended() -> None:
    model = ScriptedModel(
        (call("1", "BackgroundTask", operation="cancel", id="job:1"), call("2", "Gate", background=True)), "end"
    )
    agent = Agent(model, tools=[*tree_tools(), Gate()])
    assert (await asyncio.wait_for(agent.run("go"), 60)).content == "end"
    assert [job.state for job in agent.jobs()] == ["cancelled"]


async def test_nobody_waits_for_resting_agent() -> None:
    gate = Gate()
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", persistent=True),), *[last] * 3),
        root__a=in_turn((call("2", "Gate", background=True),), forever),
    )
    agent = Agent(cast, tools=[*tree_tools(), gate])
    task = asyncio.create_task(agent.run("go"))
    await until(lambda: len(cast.requests.get("root/a", ())) == 2)
    agent.peers("a")[0].interrupt()
    await until(lambda: not agent.peers("a")[0].running)
    assert not task.done()
    gate.open.set()
    assert (await asyncio.wait_for(task, 60)).error is None
    await agent.aclose()


async def test_bad_delay_is_an_error_result() -> None:
    model = ScriptedModel((call("1", "Gate", delay="soon"),), results)
    agent = Agent(model, tools=[Gate()])
    assert "delay: a number of seconds" in (await agent.run("go")).content


async def test_huge_numbers_end_no_run() -> None:
    gate = Gate()
    gate.open.set()
    calls = (
        call("1", "Gate", delay=-(10**400)),
        call("2", "AgentSend", to="root", content="now", delay=-(10**400)),
        call("3", "BackgroundTask", operation="wait", id="job:1", seconds=10**400),
        call("4", "AgentSelf", limits={"max_turns": "9" * 5_000}),
    )
    agent = Agent(ScriptedModel(calls, results, "end", "end"), tools=[gate, *tree_tools()])
    through, sent, *others = (await agent.run("go")).content.split("\n")
    assert (through, sent) == ("through", "Sent to root.")
    assert "job:1" in others[0]
    assert "max_turns: give a whole number" in others[1]
    await agent.aclose()


async def test_late_change_is_told_and_not_made() -> None:
    away: list[str] = []

    def resolve(name: str) -> Model:
        if away:
            raise UsageError(f"{name} has gone")
        return ScriptedModel(model_id="other")

    def change(request: Request) -> Step:
        agent.apply(Switch(model="scripted/other"))
        away.append("yes")
        return (call("1", "BackgroundTask", operation="list"),)

    agent = Agent(ScriptedModel(change, "still me"), tools=tree_tools(), resources=Resources(resolve=resolve))
    notices: list[str] = []
    agent.listen(lambda event: notices.append(event.text) if isinstance(event, Notice) else None)
    assert (await agent.run("go")).content == "still me"
    assert len(notices) == 1 and notices[0].endswith("scripted/other has gone")


async def test_agent_spawned_by_job_ends_with_session() -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", budget_usd=0.5, persistent=True, background=True),), forever),
        root__1=forever,
    )
    ledger = Ledger(Decimal(1), PriceBook(PRICES))
    agent = root_of(cast, ledger=ledger)
    task = asyncio.create_task(agent.run("go"))
    await until(lambda: len(cast.requests.get("root", ())) == 2)
    await agent.spawn(SpawnRequest("y", name="other", persistent=True))  # something to end meanwhile
    await agent.aclose()
    await asyncio.sleep(0.15)
    assert (await task).stop_reason == "interrupted"
    assert [each.path for each in agent.tree.living] == ["root"]
    assert ledger.cap_of("root/1") == 1


@pytest.mark.parametrize("places", [(0, 1), (1, 0)])
async def test_agent_gets_message_of_same_reply(places: tuple[int, int]) -> None:
    made = (call("s", "AgentSpawn", prompt="x", name="a"), call("m", "AgentSend", to="a", content="mind the lock"))
    cast = Cast(root=in_turn(tuple(made[place] for place in places), last), root__a=in_turn("read", "read"))
    agent = root_of(cast)
    result = await asyncio.wait_for(agent.run("go"), 60)
    assert "No living agent" not in result.content
    assert "mind the lock" in "".join(m.content for r in cast.requests["root/a"] for m in r.messages)
    await agent.aclose()


async def test_agent_waiting_for_job_is_working() -> None:
    gate = Gate()
    model = ScriptedModel((call("g", "Gate", background=True),), "waiting", "done")
    agent = Agent(model, tools=[gate], limits=RunLimits(wait_for_jobs=False))
    await agent.run("go")
    assert (agent.status().state, agent.running) == ("working", False)
    gate.open.set()
    await until(lambda: not agent.state.jobs.running())
    assert agent.status().state == "idle"
    await agent.aclose()


def writing_to(other: str) -> Player:
    """A player that writes to another one whenever it is written to, for ever."""
    numbers = iter(range(100_000))

    def play(request: Request) -> Step:
        if request.messages[-1].results:
            return "sent"
        return (call(f"c{next(numbers)}", "AgentSend", to=other, content="and now you"),)

    return play


async def test_endless_jobs_are_stopped() -> None:
    numbers, gate = iter(range(1000)), Gate()
    gate.open.set()

    def play(request: Request) -> Step:
        if request.messages[-1].results:
            return "I wait."
        return (call(f"c{next(numbers)}", "Gate", background=True),)

    resources = Resources(tree=Tree(TreeLimits(max_exchanges=10)))
    agent = Agent(Cast(root=play), tools=[gate], resources=resources)
    result = await asyncio.wait_for(agent.run("go"), 60)
    assert (result.stop_reason, next(numbers)) == ("max_exchanges", 11)
    await agent.aclose()


async def test_endless_conversation_is_stopped() -> None:
    spawn = [call(name, "AgentSpawn", prompt="x", name=name, persistent=True) for name in "ab"]
    cast = Cast(root=in_turn(tuple(spawn), *["fine"] * 200), root__a=writing_to("b"), root__b=writing_to("a"))
    agent = root_of(cast, limits=TreeLimits(max_exchanges=40))
    told: list[str] = []
    agent.listen(lambda event: told.append(event.text) if isinstance(event, Notice) else None)
    result = await asyncio.wait_for(agent.run("go"), 60)
    await until(lambda: not any(peer.busy for peer in agent.tree.below("root")))
    assert result.stop_reason == "max_exchanges"
    assert [
        text.startswith("All agents were stopped: they have read 40 messages from each other") for text in told
    ] == [True]
    assert sum(map(len, cast.requests.values())) < 200
    cast.players["root"] = in_turn("I am here.")
    assert (await asyncio.wait_for(agent.run("and now?"), 60)).content == "I am here.", (
        "a word from a person counts anew"
    )
    await agent.aclose()


async def test_old_name_of_continue_run_warns() -> None:
    async with Agent(ScriptedModel("done")) as agent:
        agent.send("go")
        with pytest.warns(DeprecationWarning, match="continue_run"):
            assert (await agent.go_on()).content == "done"
