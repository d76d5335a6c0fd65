"""The cap's promise, over real HTTP, against a server that always bills the worst case."""

import asyncio
from decimal import Decimal

import pytest

from sagent import tools
from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError
from sagent.events import Result
from sagent.providers import Anthropic, OpenAI, OpenAICompatible
from sagent.session.log import MemoryLog
from sagent.testing.server import Call, Cut, ErrorEvent, FakeProviderServer, Received, Step, Turn
from tests.depth import deep

AGENTS = deep(24, 50)
CAP = Decimal(AGENTS) / 100
ROW = {"input": 3, "output": 15, "cache_read": Decimal("0.3"), "cache_write": Decimal("3.75"), "cache_write_1h": 6}


def step(request: Received) -> Step:
    """Tool turns, and now and then a stream that is cut, or a request that is taken and never answered."""
    turn = Turn(text="Looking.", calls=(Call("Glob", {"pattern": "*.nothing"}),))
    if len(request.body) % 5 == 0:
        return Cut(turn, after_events=-1)
    return Cut(turn, after_events=5) if len(request.body) % 7 == 0 else turn


@pytest.mark.parametrize("family", ["anthropic", "chat"])
async def test_many_agents_never_pass_the_cap(family: str) -> None:
    async with FakeProviderServer(step, bill="worst") as server:
        if family == "anthropic":
            provider = Anthropic.from_key("k", base_url=server.url)
        else:
            provider = OpenAICompatible.from_key("k", base_url=server.url + "/v1")
        prices = PriceBook({f"{provider.name}/some-model": ROW})
        ledger = Ledger(CAP, prices)

        async def one(number: int) -> Result | BudgetExceeded:
            agent = Agent(
                provider.model("some-model"),
                tools=[tools.Glob()],
                limits=RunLimits(max_turns=10, max_retries=2, max_response_tokens=1000),
                resources=Resources(ledger=ledger, log=MemoryLog(), path=f"root/{number}"),
            )
            try:
                return await agent.run(f"go {number}")
            except BudgetExceeded as error:
                return error
            finally:
                await agent.aclose()

        outcomes = await asyncio.gather(*(one(number) for number in range(AGENTS)))
        await provider.aclose()
        billed = sum(
            ((prices.price(provider.name, "some-model", usage) or Decimal(0)) for usage in server.billed), Decimal(0)
        )
        total = ledger.cost()
        assert 0 < total.total <= CAP
        assert billed <= CAP
        assert ledger.held == 0
        assert any(isinstance(outcome, BudgetExceeded) for outcome in outcomes), "the cap was never near"
        assert sum(total.by_agent.values()) == total.total
        assert len(server.billed) >= AGENTS / 5


@pytest.mark.parametrize("kind", [OpenAI, OpenAICompatible])
async def test_failed_call_writing_may_be_billed(kind: type[OpenAI | OpenAICompatible]) -> None:
    writing = ErrorEvent(Turn(calls=(Call("Write", {"file_path": "x", "content": "word " * 400}),)), after_events=30)
    async with FakeProviderServer([writing], bill="worst") as server:
        provider = kind.from_key("k", base_url=server.url + "/v1")
        prices = PriceBook({f"{provider.name}/some-model": ROW})
        resources = Resources(ledger=Ledger(CAP, prices), log=MemoryLog())
        agent = Agent(provider.model("some-model"), limits=RunLimits(max_retries=0), resources=resources)
        with pytest.raises(ModelError):
            await agent.run("go")
        await agent.aclose()
        (usage,) = server.billed
        cost = resources.ledger.cost() if resources.ledger else None
        assert cost is not None
        assert cost.total + cost.unbilled >= (prices.price(provider.name, "some-model", usage) or 0)
