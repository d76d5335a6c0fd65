"""A usage or a price that no call can have: it is said, and the call counts with what it can cost at most."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError
from sagent.events import Notice, ReplyFinished
from sagent.messages import Message, Text
from sagent.model import Billed, Delta, ModelLimits, Reply, Request, RequestDigest, TextPart
from sagent.providers import OpenAICompatible
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.wire.faults import Origin
from sagent.session.log import MemoryLog
from sagent.testing.server import Cut, FakeProviderServer, Raw, Turn
from sagent.usage import Charge, Usage

BOOK = PriceBook({"mine/told": {"input": 1, "output": 2, "web_search": 10}})
MUCH = 10**12
TRUE = Usage(input=300, output=9)


@dataclass
class Telling:
    """A model that states these charges."""

    charges: tuple[Charge, ...]
    cut: bool = False
    size: int = 1_000
    provider: str = "mine"
    id: str = "told"
    limits: ModelLimits = field(default_factory=lambda: ModelLimits(100_000, 400))

    def max_input_tokens(self, request: Request) -> int:
        return self.size

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        yield TextPart("hello")
        if self.cut:
            yield Billed(self.charges)
            raise ModelError("cut", "the stream ended", provider="mine", final=True)
        message = Message("assistant", (Text("hello"),), model="mine/told", stop="end")
        yield Reply(message, self.charges[0].usage, self.charges, RequestDigest("0" * 64, 1, "told"))


def ledger(*, capped: bool) -> Ledger:
    return Ledger(Decimal(3) if capped else None, BOOK)


async def run_on(agent: Agent) -> None:
    for _ in range(1_000):
        await agent.run("go")


FALSE = {
    "input": Charge("told", Usage(input=MUCH, output=9)),
    "cached": Charge("told", Usage(input=3, cache_read=MUCH, output=9)),
    "output": Charge("told", Usage(input=300, output=MUCH)),
    "fee": Charge("told", Usage(300, output=9, fees={"web_search": MUCH})),
    "sound": Charge("told", Usage(300, output=9, fees={"audio_input": MUCH})),
    "price": Charge("told", TRUE, usd=Decimal(5_000_000)),
    "negative price": Charge("told", Usage(), usd=Decimal(-1)),
    "no number": Charge("told", Usage(), usd=Decimal("NaN")),
}


@pytest.mark.parametrize("name", FALSE)
@pytest.mark.parametrize("capped", [True, False])
@pytest.mark.parametrize("cut", [True, False])
async def test_false_bill_counts_as_maximum_cost(name: str, capped: bool, cut: bool) -> None:
    books, notices, told = ledger(capped=capped), list[str](), list[ReplyFinished]()
    limits = RunLimits(max_response_tokens=400, max_retries=0)
    resources = Resources(ledger=books, log=MemoryLog())
    async with Agent(Telling((FALSE[name],), cut), limits=limits, resources=resources) as agent:
        agent.listen(lambda event: notices.append(event.text) if isinstance(event, Notice) else None)
        agent.listen(lambda event: told.append(event) if isinstance(event, ReplyFinished) else None)
        for _ in range(2):
            if cut:
                with pytest.raises(ModelError):
                    await agent.run("go")
            else:
                assert (await agent.run("go")).content == "hello"
    cost = books.cost()
    counted, most = cost.total + cost.unbilled, 2 * Decimal("0.0018")  # 1,000 of input and 400 of output
    assert counted == most if capped else counted <= most
    assert all(event.usage.total_input < 1_000 and event.usage.output < 400 for event in told)
    assert len([each for each in notices if "impossible" in each]) == (not cut)  # said once


@pytest.mark.parametrize(
    "charge",
    [
        Charge("told", Usage(input=900_000, output=9)),  # with what the provider adds
        Charge("told", Usage(input=1_200, output=4_000)),  # more than was asked for
        Charge("told", TRUE, usd=Decimal(4)),
        Charge("told", Usage(300, output=9, fees={"web_search": 40})),
    ],
)
async def test_high_bill_counts_as_it_is(charge: Charge) -> None:
    books = ledger(capped=False)
    async with Agent(Telling((charge,)), resources=Resources(ledger=books, log=MemoryLog())) as agent:
        await agent.run("go")
    usd = BOOK.bill("mine", charge)
    assert usd is not None
    assert (books.cost().total, books.cost().unbilled) == (usd, 0)


async def test_false_bill_of_model_inside_call() -> None:
    books = ledger(capped=True)
    charges = (Charge("told", TRUE), Charge("told", Usage(input=MUCH), role="advisor"))
    async with Agent(Telling(charges), resources=Resources(ledger=books, log=MemoryLog())) as agent:
        assert (await agent.run("go")).content == "hello"
        assert (await agent.run("go")).content == "hello"
    assert books.cost().total + books.cost().unbilled < 1


async def test_false_price_of_gateway() -> None:
    """OpenRouter names what a call cost."""
    usage = {"prompt_tokens": 300, "completion_tokens": 9, "total_tokens": 309, "cost": 5e6}
    body = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "usage": usage}
    raw = Raw(body=json.dumps(body).encode(), headers=(("content-type", "application/json"),))
    async with FakeProviderServer([raw, raw], strict=False, counts=False) as server:
        provider = OpenAICompatible.from_key("k", base_url=f"{server.url}/v1")
        model = provider.model("dense")
        books = Ledger(Decimal(3), PriceBook({f"{model.provider}/dense": {"input": 1, "output": 4}}))
        async with Agent(model, resources=Resources(ledger=books, log=MemoryLog())) as agent:
            for _ in range(2):
                assert (await agent.run("go")).content == "hello"
        await provider.aclose()
    assert books.cost().total + books.cost().unbilled < 1


@pytest.mark.parametrize("share", [10, 100])
async def test_possible_low_count_is_the_providers(share: int) -> None:
    """Nobody can tell a tokenizer that makes few tokens from a count that lacks some, so that the refusal says whose
    count it goes by."""
    model = Telling((Charge("told", Usage(input=1_000 // share, output=9)),))
    books = Ledger(Decimal("0.0021"), BOOK)
    limits = RunLimits(max_response_tokens=400)
    async with Agent(model, limits=limits, resources=Resources(ledger=books, log=MemoryLog())) as agent:
        with pytest.raises(BudgetExceeded, match="as the provider counts"):
            await run_on(agent)
    cost = books.cost()
    assert cost.total <= Decimal("0.0021")
    assert cost.unbilled == 0


async def test_impossible_count_counts_as_bytes() -> None:
    """A thousandth of the bytes of a request."""
    model = Telling((Charge("told", Usage(input=9, output=9)),), size=10_000)
    books = Ledger(Decimal("0.03"), BOOK)
    async with Agent(
        model, limits=RunLimits(max_response_tokens=400), resources=Resources(ledger=books, log=MemoryLog())
    ) as agent:
        await agent.run("go")
        assert books.cost().unbilled > Decimal("0.009")
        with pytest.raises(BudgetExceeded, match="by its bytes"):
            await run_on(agent)


PROMPT = "(]{&" * 2_000  # 2,000 to 8,000 tokens
WORDS = "word " * 200
FEW: dict[str, dict[str, object]] = {
    "a price far below the list's": {"prompt_tokens": 8_000, "completion_tokens": 200, "cost": 1e-9},
    "that price alone": {"cost": 1e-9},
    "no price of a gateway that names them": {
        "prompt_tokens": 8_000,
        "completion_tokens": 200,
        "cost": 0,
        "is_byok": False,
    },
    "none of the provider behind it": {"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0}},
    "fewer tokens than words": {"prompt_tokens": 8_000, "completion_tokens": 20},
    "fewer tokens than a text can have": {"prompt_tokens": 40, "completion_tokens": 200},
}


@pytest.mark.parametrize("name", FEW)
async def test_low_bill_frees_nothing(name: str) -> None:
    choice = {"message": {"content": WORDS}, "finish_reason": "stop"}
    body = json.dumps({"choices": [choice], "usage": FEW[name]}).encode()
    raw = Raw(body=body, headers=(("content-type", "application/json"),))
    async with FakeProviderServer([raw], strict=False, counts=False) as server:
        provider = OpenAICompatible.from_key("k", base_url=f"{server.url}/v1")
        model = provider.model("dense")
        books = Ledger(Decimal(3), PriceBook({f"{model.provider}/dense": {"input": 1, "output": 4}}))
        resources, limits = Resources(ledger=books, log=MemoryLog()), RunLimits(max_response_tokens=1_000)
        async with Agent(model, limits=limits, resources=resources) as agent:
            await agent.run(PROMPT)
        await provider.aclose()
    cost = books.cost()
    assert cost.total + cost.unbilled >= Decimal("0.0088")  # 8,000 tokens of input and 200 of output


@pytest.mark.parametrize("discount", [Decimal("0.1"), Decimal("0.02")])
async def test_price_below_list_counts_as_it_is(discount: Decimal) -> None:
    """Cached, or in a batch."""
    usd = Decimal("0.000309") * discount
    books = ledger(capped=True)
    model = Telling((Charge("told", TRUE, usd=usd),))
    async with Agent(model, resources=Resources(ledger=books, log=MemoryLog())) as agent:
        await agent.run("go")
    assert (books.cost().total, books.cost().unbilled) == (usd, 0)


async def test_impossible_count_bounds_no_next_call() -> None:
    """A gateway that names its price and says that 8,000 characters are a token."""
    usage = {"prompt_tokens": 9, "completion_tokens": 200, "cost": 0.0088}
    body = {"choices": [{"message": {"content": WORDS}, "finish_reason": "stop"}], "usage": usage}
    raw = Raw(body=json.dumps(body).encode(), headers=(("content-type", "application/json"),))
    async with FakeProviderServer([raw, Cut(Turn(text="w"), after_events=2)], strict=False, counts=False) as server:
        provider = OpenAICompatible.from_key("k", base_url=f"{server.url}/v1")
        model = provider.model("dense")
        books = Ledger(Decimal(3), PriceBook({f"{model.provider}/dense": {"input": 1, "output": 4}}))
        resources, limits = Resources(ledger=books, log=MemoryLog()), RunLimits(max_response_tokens=99, max_retries=0)
        async with Agent(model, limits=limits, resources=resources) as agent:
            await agent.run(PROMPT)
            assert books.cost().total + books.cost().unbilled == Decimal("0.0088")
            with pytest.raises(ModelError):
                await agent.run("Go on.")
        await provider.aclose()
    assert books.cost().total + books.cost().unbilled >= 2 * Decimal("0.008")


EARLY, LATE = {"prompt_tokens": 8_000, "completion_tokens": 1, "total_tokens": 8_001}, {"completion_tokens": 200}


@pytest.mark.parametrize(
    ("first", "last", "least"),
    [
        ({**EARLY, "cost": 0.001}, None, "0.0088"),  # before the first word, and never again
        ({**EARLY, "cost": 0.5}, {**EARLY, **LATE, "total_tokens": 8_200, "cost": 0.001}, "0.0088"),  # it falls
        ({**EARLY, "cost": 0.001}, {**EARLY, **LATE, "total_tokens": 8_200, "cost": 0.002}, "0.002"),  # it grows
        ({**EARLY, "cost": 0.001}, {**EARLY, **LATE, "total_tokens": 8_200}, "0.0088"),  # only counts come in the end
    ],
)
async def test_highest_last_price_counts(first: dict[str, object], last: dict[str, object] | None, least: str) -> None:
    said = {"choices": [{"index": 0, "delta": {"content": WORDS}}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **({"usage": last} if last else {})}
    events = ({"choices": [], "usage": first}, said, end)
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    raw = Raw(body=body.encode(), headers=(("content-type", "text/event-stream"),))
    async with FakeProviderServer([raw], strict=False, counts=False) as server:
        provider = OpenAICompatible.from_key("k", base_url=f"{server.url}/v1")
        model = provider.model("dense")
        books = Ledger(Decimal(3), PriceBook({f"{model.provider}/dense": {"input": 1, "output": 4}}))
        resources, limits = Resources(ledger=books, log=MemoryLog()), RunLimits(max_response_tokens=1_000)
        async with Agent(model, limits=limits, resources=resources) as agent:
            await agent.run(PROMPT)
        await provider.aclose()
    cost = books.cost()
    assert cost.total + cost.unbilled >= Decimal(least)
    assert (cost.unbilled == 0) == (last is not None and last.get("cost") != 0.001)


def test_early_messages_price_is_an_estimate() -> None:
    """Of gateways that speak Anthropic's protocol."""
    reader = MessagesReplyReader(Origin("gateway", "m"), "anthropic:gateway")
    usage = {"input_tokens": 8_000, "output_tokens": 1, "cost": 0.001}
    reader.feed({"type": "message_start", "message": {"id": "m", "usage": usage}}, [])
    reader.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": WORDS}}, [])
    reader.feed({"type": "content_block_stop", "index": 0}, [])
    assert all(charge.estimated for charge in reader.bill(8_000)[1])
    reader.feed({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 200}}, [])
    (charge,) = reader.bill(8_000)[1]
    assert (charge.estimated, charge.usd, charge.usage) == (False, None, Usage(input=8_000, output=200))
