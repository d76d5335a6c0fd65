"""Agents that wait for money say so, and a call that hangs gives its reservation up by a deadline."""

import asyncio
import math
import re
from decimal import Decimal

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger, Reservation
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError
from sagent.events import Event, Notice, TextDelta
from sagent.model import Model
from sagent.peer import SpawnRequest
from sagent.providers import Anthropic
from sagent.providers.wire.exchange import Timeouts
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.testing.server import FakeProviderServer, Stall, Turn
from sagent.tools.agents import _status
from sagent.usage import Charge, Usage

BOOK = PriceBook({"mine/flat": {"input": 1, "output": 1}, "scripted/scripted": {"input": 1, "output": 1}})
MICRO = Decimal("0.000001")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.cost.waiting.NOTICE_SECONDS", 0.02)
    monkeypatch.setattr("sagent.cost.waiting.REPEAT_SECONDS", 0.02)


async def held(ledger: Ledger, agent: str, output: int) -> Reservation:
    return await ledger.reserve(agent, "executor", "mine", "flat", 0, output, output)


async def told(lines: list[str]) -> str:
    async with asyncio.timeout(60):
        while not lines:
            await asyncio.sleep(0.01)
    return lines[-1]


async def test_wait_names_need_room_and_holders() -> None:
    ledger, lines = Ledger(MICRO * 1_000, BOOK), list[str]()
    first, second = await held(ledger, "root/a", 600), await held(ledger, "root/b", 300)
    waiting = asyncio.create_task(
        ledger.reserve("root/c", "executor", "mine", "flat", 0, 500, 500, on_waiting=lines.append)
    )
    words = await told(lines)
    found = re.search(
        r"^waiting for money .* needs (\S+), and (\S+) of (\S+) is free\. In flight: (.*)\. Interr", words
    )
    assert found is not None
    assert found.groups()[:3] == ("$0.0005", "$0.0001", "$0.001")
    assert re.findall(r"(root/\w) holds (\S+)", found[4]) == [("root/a", "$0.0006"), ("root/b", "$0.0003")]
    assert found[4].count("given up after") == 2
    assert ledger.waits("root/c").startswith("waiting for money")
    assert ledger.waits("root/a") == ""
    first.settle([Charge("flat", Usage(output=1))])
    (await waiting).release()
    second.release()
    assert ledger.waits("root/c") == ""


async def test_waiting_room_is_less_than_needed() -> None:
    """A call that begins beside others waits for room for a roomy answer, and not only for its least."""
    ledger, lines = Ledger(MICRO * 10_000, BOOK), list[str]()
    first = await held(ledger, "root/a", 7_000)
    waiting = asyncio.create_task(
        ledger.reserve("root/c", "executor", "mine", "flat", 0, 9_000, 16, on_waiting=lines.append)
    )
    found = re.search(r"needs \$(\S+), and \$(\S+) of", await told(lines))
    assert found is not None and Decimal(found[1]) > Decimal(found[2]) > MICRO * 16
    first.release()
    (await waiting).release()


async def test_later_waiters_say_so_once() -> None:
    ledger, first, behind = Ledger(MICRO * 10_000, BOOK), list[str](), list[str]()
    call = await held(ledger, "root/a", 9_000)
    tasks = [
        asyncio.create_task(
            ledger.reserve(f"root/{name}", "executor", "mine", "flat", 0, 5_000, 5_000, on_waiting=lines.append)
        )
        for name, lines in (("b", first), ("c", behind))
    ]
    async with asyncio.timeout(60):
        while len(first) < 4:
            await asyncio.sleep(0.01)
    assert len(behind) == 1
    call.release()
    for task in tasks:
        (await task).release()


async def test_largest_calls_in_flight_are_named() -> None:
    ledger, lines = Ledger(MICRO * 10_000, BOOK), list[str]()
    calls = [await held(ledger, f"root/{name}", 2_000 - at) for at, name in enumerate("abcd")]
    waiting = asyncio.create_task(
        ledger.reserve("root/e", "executor", "mine", "flat", 0, 5_000, 5_000, on_waiting=lines.append)
    )
    words = await told(lines)
    assert re.findall(r"(root/\w) holds", words) == ["root/a", "root/b"] and "2 more hold $0.003995" in words
    for call in calls:
        call.release()
    (await waiting).release()


async def test_pinged_call_has_a_deadline() -> None:
    ledger, lines = Ledger(MICRO * 1_000, BOOK), list[str]()
    first = await held(ledger, "root/a", 900)
    first.own_limit = 0.0
    waiting = asyncio.create_task(
        ledger.reserve("root/c", "executor", "mine", "flat", 0, 500, 500, on_waiting=lines.append)
    )
    words = await told(lines)
    assert re.search(r"kept alive by its provider, given up after (599|600) s more", words)
    first.release()
    (await waiting).release()


async def test_wait_of_a_branch_is_its_own() -> None:
    ledger = Ledger(MICRO * 1_000, BOOK)
    one, two = ledger.branch("root"), ledger.branch("root")
    first, lines = await held(one, "root", 900), list[str]()
    waiting = asyncio.create_task(two.reserve("root", "executor", "mine", "flat", 0, 500, 500, on_waiting=lines.append))
    assert "root holds $0.0009" in await told(lines)
    assert one.waits("root") == ""
    assert two.waits("root") != ""
    first.release()
    (await waiting).release()


async def test_least_above_share_granted_at_once() -> None:
    ledger = Ledger(MICRO * 20_000, BOOK)
    async with asyncio.timeout(60):
        granted = await held(ledger, "root/a", 15_000)
    assert granted.max_output == 15_000
    granted.release()


async def test_quick_grant_tells_nothing() -> None:
    ledger, lines = Ledger(MICRO * 1_000, BOOK), list[str]()
    (await ledger.reserve("root", "executor", "mine", "flat", 0, 500, 500, on_waiting=lines.append)).release()
    assert lines == []


def agent(model: Model, ledger: Ledger, path: str, seen: list[Event]) -> Agent:
    limits = RunLimits(max_retries=0, max_response_tokens=6_000)
    made = Agent(model, limits=limits, resources=Resources(ledger=ledger, log=MemoryLog(), path=path))
    made.listen(seen.append)
    return made


async def test_hung_call_yields_its_money() -> None:
    ledger, seen = Ledger(MICRO * 8_000, BOOK), list[Event]()
    hung = agent(ScriptedModel(("Hm", math.inf)), ledger, "root/a", seen)
    other = agent(ScriptedModel("Done."), ledger, "root/b", seen)
    first = asyncio.create_task(hung.run("go"))
    async with asyncio.timeout(60):
        while not ledger.held:
            await asyncio.sleep(0.01)
    for call in ledger._calls:
        call.max_silence = 0.2
    second = asyncio.create_task(other.run("go"))
    with pytest.raises(ModelError, match=r"given up after .* others wait for the money") as raised:
        await asyncio.wait_for(first, 60)
    assert raised.value.kind == "stalled"
    await asyncio.wait([second])
    assert second.exception() is None or isinstance(second.exception(), BudgetExceeded)
    notices = [event for event in seen if isinstance(event, Notice)]
    assert [notice.agent for notice in notices if "waiting for money" in notice.text][:1] == ["root/b"]
    assert {notice.level for notice in notices if "waiting for money" in notice.text} == {"warning"}
    assert (ledger.held, ledger._calls) == (0, set())
    await hung.aclose()
    await other.aclose()


async def test_status_says_what_agent_waits_for() -> None:
    ledger, seen = Ledger(MICRO * 10_000, BOOK), list[Event]()
    first = await held(ledger, "root/a", 9_000)
    waiting = agent(ScriptedModel("Done."), ledger, "root/b", seen)
    run = asyncio.create_task(waiting.run("go"))
    async with asyncio.timeout(60):
        while not waiting.status().waits:
            await asyncio.sleep(0.01)
    assert "root/a holds" in waiting.status().waits
    first.release()
    assert (await run).content == "Done."
    assert waiting.status().waits == ""
    await waiting.aclose()


async def test_pinged_call_yields_its_money() -> None:
    """Each ping is a sign of life, so that its own limit of silence never ends it."""
    ledger, seen = Ledger(MICRO * 8_000, PriceBook({"anthropic/claude-x": {"input": 0, "output": 1}})), list[Event]()
    hung = Stall(Turn("Hm"), after_events=4, pings=True)
    async with FakeProviderServer([hung, Turn("Done.")], counts=False) as server:
        provider = Anthropic.from_key("k", base_url=server.url, timeouts=Timeouts(stall=60, reasoning_stall=0.5))
        model = provider.model("claude-x")
        first, other = agent(model, ledger, "root/a", seen), agent(model, ledger, "root/b", seen)
        running = asyncio.create_task(first.run("go"))
        async with asyncio.timeout(60):
            while not any(isinstance(event, TextDelta) for event in seen):
                await asyncio.sleep(0.01)
        (call,) = ledger._calls
        assert (call.own_limit, call.max_silence) == (0.5, 600.0)
        call.max_silence = 1.0
        second = asyncio.create_task(other.run("go"))
        with pytest.raises(ModelError, match=r"given up after .* others wait for the money") as raised:
            await asyncio.wait_for(running, 60)
        assert raised.value.kind == "stalled"
        await asyncio.wait([second])
        await first.aclose()
        await other.aclose()
        await provider.aclose()
    assert (ledger.held, ledger._calls) == (0, set())


async def test_model_reads_who_waits_for_money() -> None:
    ledger, seen = Ledger(MICRO * 10_000, BOOK), list[Event]()
    boss = agent(ScriptedModel("Late."), ledger, "root", seen)
    first = await held(ledger, "root/a", 9_000)
    child = await boss.spawn(SpawnRequest("go", "b"))
    async with asyncio.timeout(60):
        while not child.status().waits:
            await asyncio.sleep(0.01)
    assert "waiting for money" in _status(boss, child) and "root/a holds $0.009" in _status(boss, child)
    assert "root/b: working, scripted/scripted, waits for money" in _status(boss, boss)
    first.release()
    assert (await child.wait()).content == "Late."
    assert "waits for money" not in _status(boss, boss)
    await boss.aclose()
