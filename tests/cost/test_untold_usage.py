"""The cap's promise where a provider's usage says nothing, a part or nonsense: what is true never passes it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.agent import Agent, Resources, RunLimits, Tree
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ModelError
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, Text, ToolCall
from sagent.model import Billed, Delta, ModelLimits, Provider, Reply, Request, RequestDigest, TextPart
from sagent.plugins.clouds import Bedrock
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.session.log import MemoryLog
from sagent.testing.server import Cut, FakeProviderServer, Raw, Received, Step, Turn
from sagent.tools.agents import AgentSpawn
from sagent.usage import Charge, Usage
from tests.depth import deep

BOOK = PriceBook({"mine/dense": {"input": 1, "output": 2}})
MICRO = Decimal("0.000001")
NONSENSE: tuple[object, ...] = (None, "", "many", -7, 1.5, "NaN", True, [], {}, 0)


@dataclass
class Silent:
    """A model that knows what a call costs, and does not say it. `text` is a token for `density` bytes."""

    random: Random
    density: float
    says: str  # nothing, zero, output, input, nonsense, or all of it
    calls_left: int = 30
    true: Decimal = Decimal(0)
    provider: str = "mine"
    id: str = "dense"
    limits: ModelLimits = field(default_factory=lambda: ModelLimits(1_000_000, 400))

    def max_input_tokens(self, request: Request) -> int:
        return 100 + len(request.system) + sum(len(repr(message.parts)) for message in request.messages)

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        chance = self.random
        self.calls_left -= 1
        size = self.max_input_tokens(request)
        asked = min(request.max_output or 400, 400)
        usage = Usage(input=int(size / self.density), output=chance.choice((1, asked // 2, asked)))
        self.true += MICRO * (usage.input + 2 * usage.output)
        told = self.told(usage)
        await asyncio.sleep(chance.choice((0, 0, 0.001)))
        yield TextPart("w" * min(40, usage.output))
        if chance.random() < 0.2:
            yield Billed(tuple(Charge("dense", each, estimated=True) for each in told))
        if chance.random() < 0.1:
            raise ModelError("cut", "the stream ended", provider="mine", retry_after=0.0)
        calls: tuple[ToolCall, ...] = ()
        if self.calls_left > 0 and chance.random() < 0.8:
            arguments = json_freeze_object({"prompt": "word " * chance.choice((1, 60, 400)), "name": f"a{size}"})
            calls = (ToolCall(f"c{size}", "AgentSpawn", arguments),)
        message = Message("assistant", (Text("w"), *calls), model="mine/dense", stop="tool_use" if calls else "end")
        own = told[0] if told else Usage()
        charges = tuple(Charge("dense", each) for each in told)
        yield Reply(message, own, charges, RequestDigest("0" * 64, 1, "dense"))

    def told(self, usage: Usage) -> list[Usage]:
        match self.says:
            case "nothing":
                return []
            case "zero":
                return [Usage()]
            case "output":
                return [Usage(output=usage.output)]
            case "input":
                return [Usage(input=usage.input)]
            case "nonsense":
                wrong = self.random.choice((-5, 2.5, "7", None, float("nan")))
                return [Usage(input=wrong, output=usage.output)]  # pyright: ignore[reportArgumentType]
            case "huge":
                much = self.random.choice((10**8, 10**12, 2**80))
                return [self.random.choice((Usage(much), Usage(1, cache_read=much), Usage(1, output=much)))]
            case "huge fee":
                return [replace(usage, fees={"web_search": 10**12})]
            case "sometimes":
                return [usage] if self.random.random() < 0.5 else []
            case _:
                return [usage]


@settings(max_examples=deep(40, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 2**32),
    st.floats(1, 8),
    st.sampled_from(["nothing", "zero", "output", "input", "nonsense", "huge", "huge fee", "sometimes", "all"]),
    st.integers(3_000, 60_000),
)
def test_true_tree_cost_stays_within_cap(seed: int, density: float, says: str, micros: int) -> None:
    model, cap = Silent(Random(seed), density, says), MICRO * micros

    async def work() -> Decimal:
        ledger = Ledger(cap, BOOK)
        limits = RunLimits(max_turns=8, max_retries=2, max_response_tokens=400)
        resources = Resources(ledger=ledger, log=MemoryLog(), tree=Tree())
        async with Agent(model, tools=[AgentSpawn()], limits=limits, resources=resources) as agent:
            for number in range(3):
                try:
                    await agent.run(f"go {number}")
                except (BudgetExceeded, ModelError):
                    break
        assert ledger.held == 0
        return ledger.cost().total + ledger.cost().unbilled

    counted = asyncio.run(work())
    assert model.true <= cap
    assert model.true <= counted <= cap


FAMILIES: Mapping[str, tuple[str, ...]] = {  # of usage, by what they say
    "anthropic": ("input_tokens", "output_tokens"),
    "chat": ("prompt_tokens", "completion_tokens", "total_tokens"),
    "responses": ("input_tokens", "output_tokens", "total_tokens"),
    "google": ("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
    "converse": ("inputTokens", "outputTokens", "totalTokens"),
}
STREAMS = {"converse": "application/vnd.amazon.eventstream"}


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def provider_of(family: str, url: str) -> Provider:
    match family:
        case "anthropic":
            return Anthropic.from_key("k", base_url=url)
        case "responses":
            return OpenAI.from_key("k", base_url=f"{url}/v1")
        case "google":
            return Google.from_key("k", base_url=url)
        case "converse":
            return Bedrock.from_key("k", base_url=url)
        case _:
            return OpenAICompatible.from_key("k", base_url=f"{url}/v1")


def retold(value: object, family: str, chance: Random, says: str) -> object:
    """An answer with other usage: everything, one side, or each member, left out or made nonsense."""
    if isinstance(value, list):
        return [retold(each, family, chance, says) for each in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, object] = {}
    for name, each in value.items():
        if name in ("usage", "usageMetadata") and isinstance(each, dict):
            if says == "nothing":
                continue
            made[name] = told_usage({**each}, FAMILIES[family], chance, says)
        else:
            made[str(name)] = retold(each, family, chance, says)
    return made


def told_usage(usage: dict[str, object], names: tuple[str, ...], chance: Random, says: str) -> dict[str, object]:
    match says:
        case "zero":
            return dict.fromkeys(usage, 0)
        case "input":
            return {names[0]: usage[names[0]]} if names[0] in usage else {}
        case "output":
            return {names[1]: usage[names[1]]} if names[1] in usage else {}
        case "huge":
            return {name: 10**12 if name in names else each for name, each in usage.items()}
        case "huge input":
            return {name: 10**9 if name == names[0] else each for name, each in usage.items()}
        case _:
            return {name: chance.choice(NONSENSE) if name in names else each for name, each in usage.items()}


def retold_body(body: bytes, family: str, chance: Random, says: str) -> bytes:
    lines: list[bytes] = []
    for line in body.split(b"\n"):
        start, found, rest = line.partition(b"data: ")
        if found and rest.strip() not in (b"", b"[DONE]"):
            lines.append(start + found + json.dumps(retold(json.loads(rest), family, chance, says)).encode())
        else:
            lines.append(line)
    return b"\n".join(lines)


def retold_frame(true: Usage, chance: Random, says: str) -> bytes:
    """The last frame of Converse, with other usage."""
    from sagent.testing.families.converse import frame

    usage = {"inputTokens": true.input, "outputTokens": true.output, "totalTokens": true.input + true.output}
    told = {} if says == "nothing" else {"usage": told_usage({**usage}, FAMILIES["converse"], chance, says)}
    return frame({":event-type": "metadata", ":message-type": "event"}, json.dumps(told).encode())


@pytest.mark.costly
@pytest.mark.parametrize("family", [*FAMILIES])
@pytest.mark.parametrize("says", ["nothing", "zero", "input", "output", "nonsense", "huge", "huge input"])
async def test_true_cost_over_http_within_cap(family: str, says: str) -> None:
    """One or two bytes are a token, over turns of dense text that add little to much; now and then a stream is cut."""
    from sagent.testing.families import FAMILIES as WIRES
    from sagent.testing.families.answer import Answer

    chance, served = Random(7), list[Usage]()

    def step(request: Received) -> Step:
        turn = Turn(text="w" * chance.choice((3, 300)))
        density = chance.choice((1, 2))
        true = Usage(input=len(request.body) // density, output=chance.choice((80, 500, 1_000)))
        served.append(true)
        answer = Answer(turn, request, true, f"{len(served):016d}")
        rendered = WIRES[family].render(answer)
        if family == "converse" and isinstance(rendered, list):
            told = b"".join((*rendered[:-1], retold_frame(true, chance, says)))
        else:
            body = b"".join(rendered) if isinstance(rendered, list) else rendered
            told = retold_body(body, family, chance, says)
        if chance.random() < 0.1:
            return Cut(Turn(text="w"), after_events=2)
        return Raw(body=told, headers=(("content-type", STREAMS.get(family, "text/event-stream")),))

    cap = Decimal("0.40")
    async with FakeProviderServer(step, strict=False, counts=False) as server:
        provider = provider_of(family, server.url)
        model = provider.model("dense")
        prices = PriceBook({f"{model.provider}/dense": {"input": 1, "output": 4}})
        ledger, refused, answered = Ledger(cap, prices), False, 0
        limits = RunLimits(max_response_tokens=1_000, max_retries=1)
        resources = Resources(ledger=ledger, log=MemoryLog())
        async with Agent(model, limits=limits, resources=resources) as agent:
            for number in range(30):
                try:
                    answered += "w" in (await agent.run(f"{number} " + "(]{&" * (100 if number else 8_000))).content
                except BudgetExceeded:
                    refused = True
                    break
                except ModelError:
                    continue
        await provider.aclose()
    true = sum((MICRO * (usage.input + 4 * usage.output) for usage in served), Decimal(0))
    assert refused
    assert answered > 2
    assert true <= cap
    assert ledger.cost().total + ledger.cost().unbilled <= cap


async def test_count_without_cached_bounds_nothing() -> None:
    """A gateway that leaves the cache's members out says 100 tokens of a conversation that had 8,000."""
    told = [Usage(input=8_000, output=9), Usage(input=100, output=9), Usage(input=9_000, output=9)]

    def step(_: Received) -> Step:
        usage = told.pop(0)
        counts = {"prompt_tokens": usage.input, "completion_tokens": usage.output}
        body = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}], "usage": counts}
        return Raw(body=json.dumps(body).encode(), headers=(("content-type", "application/json"),))

    async with FakeProviderServer(step, strict=False, counts=False) as server:
        provider = provider_of("chat", server.url)
        model = provider.model("dense")
        ledger = Ledger(Decimal(1), PriceBook({f"{model.provider}/dense": {"input": 1, "output": 4}}))
        limits = RunLimits(max_response_tokens=1_000)
        async with Agent(model, limits=limits, resources=Resources(ledger=ledger, log=MemoryLog())) as agent:
            await agent.run("(]{&" * 4_000)
            assert ledger.cost().unbilled == 0
            await agent.run("Go on.")
            unsure = ledger.cost().unbilled
            assert unsure > MICRO * 7_000  # what the whole conversation may cost
            await agent.run("Go on.")
            assert ledger.cost().unbilled == unsure
        await provider.aclose()
