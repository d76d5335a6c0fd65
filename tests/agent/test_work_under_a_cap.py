"""Ordinary work under ordinary caps, over HTTP, with what providers count and bill: it runs, and the cap holds."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import pytest

from sagent import tools
from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.events import Result, TextDelta
from sagent.model import Model
from sagent.providers import Anthropic, Google, OpenAI
from sagent.session.log import MemoryLog
from sagent.testing.delivery import Delivery, failure
from sagent.testing.server import ErrorEvent, Fail, FakeProviderServer, Received, Script, Stall, Step, Turn
from sagent.tools.agents import AgentSpawn
from sagent.usage import Usage

PRICES = PriceBook()
PROSE = "The quick brown fox jumps over the lazy dog, and then it rests.\n"


def prose(size: int) -> str:
    return (PROSE * (size // len(PROSE) + 1))[:size]


def anthropic(url: str) -> Model:
    return Anthropic.from_key("k", base_url=url).model("claude-sonnet-4-6")


def openai(url: str) -> Model:
    return OpenAI.from_key("k", base_url=f"{url}/v1").model("gpt-5.5")


def google(url: str) -> Model:
    return Google.from_key("k", base_url=url).model("gemini-3-pro-preview")


MAKERS = [anthropic, openai, google]


def billed(server: FakeProviderServer, model: Model) -> Decimal:
    prices = (PRICES.price(model.provider, model.id, usage) for usage in server.billed)
    return sum((usd or Decimal(0) for usd in prices), Decimal(0))


@asynccontextmanager
async def working(
    script: Script, make: Callable[[str], Model], cap: str, **options: object
) -> AsyncGenerator[tuple[Agent, FakeProviderServer]]:
    async with FakeProviderServer(script, **options) as server:  # pyright: ignore[reportArgumentType]
        model = make(server.url)
        resources = Resources(ledger=Ledger(Decimal(cap), PRICES), log=MemoryLog())
        belt = [tools.Read(), tools.Glob(), tools.Grep(), tools.Bash(), tools.Edit(), tools.Write(), AgentSpawn()]
        agent = Agent(model, tools=belt, resources=resources)
        try:
            yield agent, server
        finally:
            await agent.aclose()
            assert billed(server, model) <= Decimal(cap)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("size", "cap"), [(60, "0.05"), (30_000, "0.25"), (100_000, "1")])
async def test_question_diff_and_large_context(make: Callable[[str], Model], size: int, cap: str) -> None:
    async with working([Turn(text="It is fine.")] * 2, make, cap) as (agent, server):
        for prompt in (prose(size), "And now?"):
            result = await agent.run(prompt)
            assert (result.content, result.error) == ("It is fine.", None)
        asked = [request.json.get("max_tokens") or request.json.get("max_output_tokens") for request in server.requests]
        assert all(limit is None or (isinstance(limit, int) and limit > 1_000) for limit in asked)


@pytest.mark.parametrize(("make", "cap"), [(anthropic, "0.12"), (openai, "0.20"), (google, "0.10")])
async def test_provider_counts_where_bytes_exceed(make: Callable[[str], Model], cap: str) -> None:
    async with working([Turn(text="Yes.")] * 3, make, cap) as (agent, server):
        await agent.run(prose(30_000))
        assert len(server.counted) == 1
        await agent.run("Go on.")  # what the reply was billed says it now
        assert len(server.counted) == 1
    async with working([Turn(text="Yes.")], make, "20") as (agent, server):
        await agent.run(prose(30_000))
        assert server.counted == []


@pytest.mark.parametrize("make", MAKERS)
async def test_refusal_names_counted_size(make: Callable[[str], Model]) -> None:
    async with working([], make, "0.02") as (agent, server):
        with pytest.raises(BudgetExceeded) as refused:
            await agent.run(prose(60_000))
        found = re.search(r"with up to (\d+) tokens of input", str(refused.value))
        assert found is not None
        counted = len(server.counted[0].body) // 4
        assert counted <= int(found[1]) < counted * 11 // 10


async def test_provider_without_count_asked_once() -> None:
    async with working([Turn(text="Yes.")] * 4, anthropic, "0.12", counts=False) as (agent, server):
        for _ in range(2):
            with pytest.raises(BudgetExceeded):
                await agent.run(prose(60_000))
        assert len(server.counted) == 1


async def test_ten_interruptions_leave_money() -> None:
    """Each counts its input, what had streamed and a bounded slack; not the longest answer there could have been."""
    stall = Stall(Turn(text="word " * 40), after_events=6, seconds=60.0)
    async with working([stall] * 10, anthropic, "1") as (agent, server):
        agent.listen(lambda event: agent.interrupt() if isinstance(event, TextDelta) else None)
        for number in range(1, 11):
            result = await agent.run("Go on.")
            assert result.error is not None
            assert (result.error.kind, len(server.requests)) == ("interrupted", number)
        assert agent.ledger.held == 0
        assert agent.ledger.totals().whole.charges == 10  # one call is one charge, stated and guessed


async def test_four_agents_share_half_a_dollar() -> None:
    running, together = 0, 0

    async def step(_: object) -> Turn:
        nonlocal running, together
        running += 1
        together = max(together, running)
        await asyncio.sleep(0.2)
        running -= 1
        return Turn(text="done")

    async with FakeProviderServer(step) as server:
        provider, ledger = Anthropic.from_key("k", base_url=server.url), Ledger(Decimal("0.50"), PRICES)
        with await ledger.reserve("root", "executor", "anthropic", "claude-sonnet-4-6", 1, 1):
            pass  # there is more than one agent

        async def one(number: int) -> Result:
            resources = Resources(ledger=ledger, log=MemoryLog(), path=f"root/{number}")
            agent = Agent(provider.model("claude-sonnet-4-6"), tools=[tools.Read(), tools.Bash()], resources=resources)
            try:
                return await agent.run(prose(2_000))
            finally:
                await agent.aclose()

        results = await asyncio.gather(*map(one, range(4)))
        await provider.aclose()
    assert [result.content for result in results] == ["done"] * 4
    assert together == 4


async def test_reservation_shrinks_with_stream() -> None:
    stall = Stall(Turn(text="word " * 40), after_events=6, seconds=60.0)
    async with working([stall], anthropic, "5") as (agent, _server):
        seen: list[Decimal] = []

        def heard(event: object) -> None:
            if isinstance(event, TextDelta):
                seen.append(agent.ledger.held)
                agent.interrupt()

        agent.listen(heard)
        size = 40_000
        await agent.run(prose(size))
        ceiling = PRICES.ceiling("anthropic", "claude-sonnet-4-6")
        assert ceiling is not None
        assert seen[0] < ceiling.cost(size // 2, 0) + ceiling.cost(0, 32_000)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("fault", "counts"), [(ErrorEvent(Turn()), True), (Fail(529), False)])
async def test_error_in_begun_answer_may_be_billed(make: Callable[[str], Model], fault: Step, *, counts: bool) -> None:
    retry_at_once = replace(fault, headers={"retry-after": "0"}) if isinstance(fault, Fail) else fault
    async with working([retry_at_once, Turn(text="Yes.")], make, "1") as (agent, _server):
        result = await agent.run("Is it?")
        assert result.content == "Yes."
        assert bool(agent.ledger.cost().unbilled) is counts


async def test_failing_count_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = FakeProviderServer._count

    def failing_once(server: FakeProviderServer, member: str, received: Received) -> Delivery:
        once = len(server.counted) == 1
        return failure(Fail(529), received) if once else counted(server, member, received)

    monkeypatch.setattr(FakeProviderServer, "_count", failing_once)
    async with working([Turn(text="Yes.")], anthropic, "0.12") as (agent, server):
        with pytest.raises(BudgetExceeded):
            await agent.run(prose(60_000))
        assert (await agent.run("Is it?")).content == "Yes."
        assert len(server.counted) == 2


async def test_overbilling_count_is_not_trusted() -> None:
    """What it bills counts, and its next call is bounded by what was billed; not by another such count."""
    size = 60_000
    dear = Turn(text="Yes.", usage=Usage(input=40_000, output=5))
    async with working([dear] * 2, anthropic, "0.24") as (agent, server):
        await agent.run(prose(size))
        assert len(server.counted) == 1
        with pytest.raises(BudgetExceeded):
            await agent.run("And now?")
        assert (len(server.counted), len(server.requests)) == (1, 1)
