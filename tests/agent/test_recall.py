"""What an earlier process left: a session as `kill -9` leaves it is a copy of its files while it is at work."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources, Tree
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import user
from sagent.model import Model, ModelLimits
from sagent.peer import SpawnRequest, Switch
from sagent.session.contents import Unknown
from sagent.session.folds import charges, history
from sagent.session.log import read_log
from sagent.session.store import Session, log_files
from sagent.tool import RunContext
from tests.agent.cast import PRICES, Cast, results, tree_tools
from tests.intact import faults
from tests.messages import call, forever, in_turn, last
from tests.waiting import until


class Gate:
    """A tool whose calls never end."""

    name, description = "Gate", "Waits."
    parameters = json_freeze_object({"type": "object"})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
        await asyncio.sleep(60)
        return "through"


class Other(Cast):
    """Another model."""

    id = "other"
    limits = ModelLimits(200_000, 8_000)


@asynccontextmanager
async def at_work(directory: Path, cast: Cast, cap: Decimal | None = None) -> AsyncIterator[Agent]:
    """An agent on the session of a directory, which is begun, or taken up again."""
    fresh = not directory.exists()
    with Session.create_at(directory) if fresh else Session.open(directory) as session:
        log = session.log()
        ledger = Ledger(cap, PriceBook(PRICES | {"scripted/other": {"input": "1", "output": "1"}}))
        if fresh:
            log.append(Unknown("opened", {"session": session.id, "agent": "root"}))
        else:
            ledger.restore(charge for file in log_files(directory) for charge in charges(read_log(file)))

        def resolve(name: str) -> Model:
            if name == "scripted/scripted":
                return cast
            other = Other()
            other.players, other.requests = cast.players, cast.requests
            return other

        resources = Resources(log=log, ledger=ledger, tree=Tree(), resolve=resolve)
        agent = Agent(cast, system="be brief", tools=[*tree_tools(), Gate()], resources=resources)
        if not fresh:
            agent.restore(history(log.entries(), log.blobs.get))
            await agent.resume()
        try:
            yield agent
        finally:
            await agent.aclose()


def killed(directory: Path) -> Path:
    """The session as it is on the disk now."""
    copy = directory.with_name(f"{directory.name}-killed")
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("lock"))
    return copy


async def test_unread_prompt_is_worked_on(tmp_path: Path) -> None:
    async with at_work(tmp_path / "s", Cast(root__a=forever)) as agent:
        await agent.spawn(SpawnRequest("count to 3", name="a", persistent=True, system="you count"))
        copy = killed(tmp_path / "s")
    cast = Cast(root__a=in_turn("1 2 3"), root=in_turn(last))
    async with at_work(copy, cast) as agent:
        assert (await agent.peers("a")[0].wait()).content == "1 2 3"
        (request,) = cast.requests["root/a"]
        assert request.system == "you count"
        assert "count to 3" in last(request)
    assert faults(copy) == []


async def test_late_answer_arrives_and_cut_is_told(tmp_path: Path) -> None:
    cast = Cast(root__a=forever, root__b=in_turn("one", "two"), root__c=in_turn("fine"))
    async with at_work(tmp_path / "s", cast) as agent:
        for name in "abc":
            await agent.spawn(SpawnRequest("x", name=name, persistent=True))
        await until(lambda: not any(agent.tree.get(f"root/{name}").busy for name in "bc"))  # pyright: ignore[reportOptionalMemberAccess]
        log = tmp_path / "s" / "root.jsonl"
        before = log.read_bytes()
        agent.peers("b")[0].send("and more?")
        await agent.peers("b")[0].wait()
        copy = killed(tmp_path / "s")
        (copy / "root.jsonl").write_bytes(before)  # the second answer of b had not reached its parent's log
    again = Cast(root=in_turn(lambda r: "\n".join(m.content for m in r.messages)), root__a=in_turn(last))
    async with at_work(copy, again) as agent:
        told = (await agent.run("what is new?")).content
        assert "root/a was at work" in told
        assert "root/b has answered:\ntwo" in told
        assert told.count("root/c") == 1
        assert told.endswith("what is new?")
        a = agent.peers("a")[0]
        a.send("go on")
        assert (await a.wait()).content == "go on"
        twice = killed(copy)
    silent = Cast(root=in_turn(lambda r: "|".join(m.content for m in r.messages)))
    async with at_work(twice, silent) as agent:
        assert {peer.path for peer in agent.peers()} == {"root/a", "root/b", "root/c"}
        assert (await agent.run("and now?")).content.endswith("go on|and now?")


async def test_child_resumes_as_changed(tmp_path: Path) -> None:
    cast = Cast(
        root=in_turn((call("1", "AgentSpawn", prompt="x", name="a", share="full", persistent=True),), "ok", "ok", "ok"),
        root__a=in_turn("seen"),
    )
    async with at_work(tmp_path / "s", cast) as agent:
        await agent.run("the great task")
        a = agent.peers("a")[0]
        a.apply(Switch(model="scripted/other", effort="high", limits={"max_turns": 7}))
        before = a.messages
        copy = killed(tmp_path / "s")
    assert [message.content for message in before[:1]] == ["the great task"]
    again = Cast(root__a=in_turn(last))
    async with at_work(copy, again) as agent:
        a = agent.peers("a")[0]
        status = a.status()
        assert (status.model, status.effort, status.limits) == ("scripted/other", "high", {"max_turns": 7})
        assert a.messages == before
        a.send("still there?")
        assert (await a.wait()).content == "still there?"
        assert again.requests["root/a"][0].messages[: len(before)] == before
    assert faults(copy) == []


@pytest.mark.parametrize("seconds", [0.05, 0.3])
async def test_delayed_message_survives_process(tmp_path: Path, seconds: float) -> None:
    async with at_work(tmp_path / "s", Cast(root__a=in_turn("one"))) as agent:
        a = await agent.spawn(SpawnRequest("x", name="a", persistent=True))
        await a.wait()
        agent.post("root/a", user("remember the milk", sender="root"), seconds)
        copy = killed(tmp_path / "s")
        await agent.aclose()
        await asyncio.sleep(0.1)
        assert len(a.messages) == 2  # closed is closed
    cast = Cast(root__a=in_turn(last), root=in_turn("hm", last, "hm"))
    async with at_work(copy, cast) as agent:
        result = await agent.run("go")
        assert last(cast.requests["root/a"][0]) == "remember the milk"
        assert result.content == "root/a has answered:\nremember the milk"
        twice = killed(copy)
    async with at_work(twice, Cast()) as agent:
        await asyncio.sleep(0.05)
        assert not agent.tree.post.waiting  # pyright: ignore[reportOptionalMemberAccess]


async def test_unread_messages_are_delivered_once(tmp_path: Path) -> None:
    async with at_work(tmp_path / "s", Cast(root__a=in_turn("one", forever))) as agent:
        a = await agent.spawn(SpawnRequest("x", name="a", persistent=True))
        await a.wait()
        a.send("first")
        await until(lambda: len(a.messages) == 3)
        a.send(user("second", sender="root"))
        agent.send("for the root")
        copy = killed(tmp_path / "s")
    cast = Cast(root=in_turn(lambda r: "|".join(m.content for m in r.messages), "x", "x"), root__a=in_turn(last))
    async with at_work(copy, cast) as agent:
        assert (await agent.peers("a")[0].wait()).content == "second"
        told = (await agent.run("new prompt")).content
        assert told.count("for the root") == 1
        assert told.endswith("new prompt")
        assert [m.content for m in cast.requests["root/a"][0].messages].count("first") == 1


async def test_lost_jobs_told_and_names_not_reused(tmp_path: Path) -> None:
    cast = Cast(root=in_turn((call("1", "Gate", background=True),), forever))
    async with at_work(tmp_path / "s", cast) as agent:
        task = asyncio.create_task(agent.run("go"))
        await until(lambda: len(cast.requests.get("root", ())) == 2)
        copy = killed(tmp_path / "s")
        agent.interrupt()
        await task
    again = Cast(root=in_turn(lambda r: r.messages[-2].content, (call("2", "Gate", background=True),), forever))
    async with at_work(copy, again) as agent:
        assert (await agent.run("and?")).content.startswith("job:1, a call of Gate, was lost")
        task = asyncio.create_task(agent.run("more"))
        await until(lambda: len(again.requests["root"]) == 3)
        assert [job.name for job in agent.jobs()] == ["job:2"]
        agent.interrupt()
        await task


async def test_jobs_stopped_with_session_are_told(tmp_path: Path) -> None:
    cast = Cast(root=in_turn((call("1", "Gate", background=True),), forever))
    async with at_work(tmp_path / "s", cast) as agent:
        task = asyncio.create_task(agent.run("go"))
        await until(lambda: len(cast.requests.get("root", ())) == 2)
        agent.interrupt()
        await task
    again = Cast(root=in_turn(lambda r: r.messages[-2].content))
    async with at_work(tmp_path / "s", again) as agent:
        told = (await agent.run("and?")).content
        assert "the call of Gate, was cancelled" in told


async def test_allowance_rest_is_reserved_again(tmp_path: Path) -> None:
    async with at_work(tmp_path / "s", Cast(root__a=in_turn("one")), Decimal(1)) as agent:
        a = await agent.spawn(SpawnRequest("x", name="a", persistent=True, budget_usd=Decimal("0.25")))
        await a.wait()
        spent = agent.ledger.spent_below("root/a")
        copy = killed(tmp_path / "s")
    assert spent > 0
    async with at_work(copy, Cast(), Decimal(1)) as agent:
        assert agent.ledger.cap_of("root/a") == Decimal("0.25") - spent
        assert agent.ledger.spent_below("root") == spent


async def test_unrestorable_child_is_told(tmp_path: Path) -> None:
    async with at_work(tmp_path / "s", Cast(root__a=in_turn("one")), Decimal(1)) as agent:
        a = await agent.spawn(SpawnRequest("x", name="a", persistent=True, budget_usd=Decimal("0.5")))
        await a.wait()
        copy = killed(tmp_path / "s")
    cast = Cast(root=in_turn((call("1", "AgentSend", to="a", content="hi"),), results))
    async with at_work(copy, cast, Decimal("0.1")) as agent:
        result = await agent.run("go")
        assert "No living agent is called 'a'" in result.content
        assert any("root/a" in m.content and "an allowance" in m.content for m in agent.messages)
        with pytest.raises(UsageError):
            agent.tree.reserve("root", "///")
        assert agent.tree.reserve("root", "a") == "root/a-2"


async def test_swapped_child_log_is_not_restored(tmp_path: Path) -> None:
    async with at_work(tmp_path / "s", Cast(root__a=in_turn("one"), root__b=in_turn("two"))) as agent:
        for name in ("a", "b"):
            child = await agent.spawn(SpawnRequest("x", name=name, persistent=True))
            await child.wait()
        copy = killed(tmp_path / "s")
    shutil.copyfile(copy / "root" / "b.jsonl", copy / "root" / "a.jsonl")
    async with at_work(copy, Cast(root=in_turn("so be it"))) as agent:
        assert [each.path for each in agent.tree.living] == ["root", "root/b"]
        await agent.run("go on")
        assert any("root/a" in m.content and "restored: its log" in m.content for m in agent.messages)
