"""When a model cannot be reached another takes over, and everybody is told."""

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, ModelErrorKind
from sagent.events import Event, Finished, Notice, Retrying, Switched
from sagent.lib.json import as_str
from sagent.model import Delta, Model, Reply, Request, is_same_model
from sagent.peer import Switch
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.session.entries import read_body
from sagent.session.folds import charges
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.testing.script import Fail, Turn
from sagent.testing.server import FakeProviderServer


def down(kind: ModelErrorKind = "overloaded", retry_after: float | None = 0.0) -> ModelError:
    return ModelError(kind, "no answer", provider="first", model="m", retry_after=retry_after)


def other(*script: object, name: str = "second") -> ScriptedModel:
    return ScriptedModel(*script, provider=name, model_id="m")  # pyright: ignore[reportArgumentType]


def agent_of(first: Model, *fallbacks: Model, log: MemoryLog | None = None, ledger: Ledger | None = None) -> Agent:
    resources = Resources(log=log, ledger=ledger, fallbacks=fallbacks)
    return Agent(first, limits=RunLimits(max_retries=1), effort="high", resources=resources)


async def run(agent: Agent) -> tuple[list[Event], Finished]:
    events = [event async for event in agent.stream("go")]
    assert isinstance(events[-1], Finished)
    return events, events[-1]


@pytest.mark.parametrize("kind", ["overloaded", "server", "network", "stalled", "rate_limit", "cut", "protocol"])
async def test_next_model_takes_over_after_retries(kind: ModelErrorKind) -> None:
    log = MemoryLog()
    first, second = other(down(kind), down(kind), name="first"), other("Here.", "Again.")
    agent = agent_of(first, second, log=log)
    events, end = await run(agent)
    assert (end.result.content, end.result.error, end.result.model) == ("Here.", None, "second/m")
    assert len(first.requests) == 2, "one retry"
    notices = [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert len(notices) == 1 and all(part in notices[0] for part in ("first/m is unavailable", "second/m takes over"))
    assert [event.what for event in events if isinstance(event, Switched)] == ["model second/m, effort high"]
    switched = [read_body(entry) for entry in log.entries() if entry.kind == "switched"]
    assert [(body["model"], body["effort"]) for body in switched] == [("second/m", "high")]
    assert "no answer" in as_str(switched[0]["reason"])
    billed = [(bill.provider, bill.estimated) for bill in charges(log.entries())]
    assert billed[-1] == ("second", False)
    assert set(billed[:-1]) <= {("first", True)}, "a call that was cut may have been billed"
    assert agent.messages[-1].model == "second/m" and second.requests[0].effort == "high"
    assert (await agent.run("more")).content == "Again.", "it stays"
    log.close()


async def test_too_long_wait_is_skipped() -> None:
    first, second = other(down("rate_limit", 7_200), name="first"), other("Here.")
    events, end = await run(agent_of(first, second))
    assert end.result.content == "Here." and len(first.requests) == 1
    assert "It can be asked again at 2" in next(event.text for event in events if isinstance(event, Notice))


async def test_error_without_fallback_says_until() -> None:
    with pytest.raises(ModelError, match=r"no answer\. It can be asked again at \d{4}-\d\d-\d\d \d\d:\d\d \S+; "):
        await agent_of(other(down("rate_limit", 7_200), name="first")).run("go")


@pytest.mark.parametrize("kind", ["auth", "permission", "payment", "not_found", "invalid_request", "context_overflow"])
async def test_incurable_error_uses_no_fallback(kind: ModelErrorKind) -> None:
    second = other("Never.")
    with pytest.raises(ModelError) as caught:
        await agent_of(other(down(kind), name="first"), second).run("go")
    assert caught.value.kind == kind and not second.requests


async def test_text_of_failed_model_is_discarded() -> None:
    agent = agent_of(other(down(), ("Half of", down("cut")), name="first"), other("Whole."))
    events, end = await run(agent)
    assert end.result.content == "Whole."
    assert [event.discarded for event in events if isinstance(event, Retrying)] == ["", "Half of"]
    assert [message.content for message in agent.messages] == ["go", "Whole."]


async def test_fallbacks_in_order_then_last_error() -> None:
    failing = [other(down(), down(), name=name) for name in ("first", "second", "third")]
    last = ModelError("server", "the last one", provider="fourth")
    events, end = await run(agent_of(*failing, other(last, last, name="fourth")))
    assert end.result.error is not None and "the last one" in end.result.error.message
    assert len([event for event in events if isinstance(event, Switched)]) == 3


async def test_model_is_not_its_own_fallback() -> None:
    first = other(down(), down(), name="first")
    with pytest.raises(ModelError):
        await agent_of(first, first).run("go")
    assert len(first.requests) == 2


async def test_self_fallback_is_said() -> None:
    first = other(down(), down(), name="first")
    events, end = await run(agent_of(first, first, other("Here.")))
    assert end.result.content == "Here."
    assert any("first/m cannot take over" in each.text for each in events if isinstance(each, Notice))


async def test_replica_of_same_name_takes_over() -> None:
    events, end = await run(agent_of(other(down(), down()), other("Here.")))
    assert end.result.content == "Here."
    assert any("another second/m takes over" in each.text for each in events if isinstance(each, Notice))


@pytest.mark.parametrize("kind", [Anthropic, OpenAICompatible, OpenAI, Google])
async def test_replicas_are_known_by_address(kind: Any) -> None:
    failing = Fail(503, headers={"retry-after": "0"})
    async with FakeProviderServer([failing] * 4) as gone, FakeProviderServer([Turn("Here.")]) as up:
        first, second = (kind.from_key("k" * 20, base_url=server.url) for server in (gone, up))
        same = first.model("m")
        agent = agent_of(first.model("m"), same, second.model("m"))
        events, end = await run(agent)
        assert end.result.content == "Here."
        notices = [each.text for each in events if isinstance(each, Notice)]
        assert any("cannot take over: it is the model" in text for text in notices)
        assert is_same_model(first.model("m"), same)
        assert not is_same_model(same, second.model("m"))
        assert not is_same_model(same, kind.from_key("l" * 20, base_url=gone.url).model("m")), "another key"
        await first.aclose()
        await second.aclose()


@pytest.mark.parametrize("kind", [Anthropic, OpenAICompatible, OpenAI, Google])
def test_same_address_and_key_same_models(
    kind: Any,
) -> None:
    one, again = (kind.from_key("k" * 20, base_url="http://127.0.0.1:9/v1") for _ in "ab")
    assert is_same_model(one.model("m"), again.model("m"))
    assert not is_same_model(one.model("m"), again.model("n"))
    several = kind.from_key("k" * 20 + "," + "l" * 20, base_url="http://127.0.0.1:9/v1")
    assert not is_same_model(one.model("m"), several.model("m")), "it has a second key"


async def test_unpriced_fallback_is_skipped_and_said() -> None:
    prices = PriceBook({f"{name}/m": {"input": 1, "output": 1} for name in ("first", "third")})
    second, third = other("Never."), other("Here.", name="third")
    ledger = Ledger(Decimal(1), prices)
    events, end = await run(agent_of(other(down(), down(), name="first"), second, third, ledger=ledger))
    assert end.result.content == "Here." and not second.requests
    assert any("second/m cannot take over" in event.text for event in events if isinstance(event, Notice))
    assert list(end.result.cost.by_model) == ["third/m"]


async def test_requested_switch_ends_wait() -> None:
    first, second = other(down(retry_after=3600.0), name="first"), other("Here.")
    agent = Agent(
        first, limits=RunLimits(max_retries=1, longest_wait=7200.0), resources=Resources(resolve=lambda _: second)
    )
    agent.listen(lambda event: agent.apply(Switch(model="second/m")) if isinstance(event, Retrying) else None)
    result = await agent.run("go")
    assert (result.content, result.model, len(first.requests)) == ("Here.", "second/m", 1)


async def test_omission_is_said_once() -> None:
    class Clamping(ScriptedModel):
        async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
            async for item in super().stream(request):
                yield replace(item, notes=("m has no effort max: high is used",)) if isinstance(item, Reply) else item

    agent = Agent(Clamping("One.", "Two.", "Three."))
    told: list[Event] = []
    for prompt in ("a", "b", "c"):
        told += [event async for event in agent.stream(prompt) if isinstance(event, Notice)]
    assert [(event.level, event.text) for event in told if isinstance(event, Notice)] == [
        ("warning", "m has no effort max: high is used")
    ]


async def test_final_error_goes_to_fallback_at_once() -> None:
    refused = ModelError("network", "the certificate is not trusted", provider="first", model="m", final=True)
    first, second = other(refused, name="first"), other("Here.")
    _, end = await run(agent_of(first, second))
    assert (end.result.content, len(first.requests)) == ("Here.", 1)


@pytest.mark.parametrize("after", [0, 1])
async def test_fallback_after_set_retries(after: int) -> None:
    first, second = other(*[down()] * 9, name="first"), other("Here.")
    limits = RunLimits(max_retries=5, fallback_after=after)
    agent = Agent(first, limits=limits, resources=Resources(fallbacks=(second,)))
    assert (await agent.run("go")).content == "Here."
    assert len(first.requests) == after + 1


async def test_unusable_fallback_keeps_all_retries() -> None:
    first, unpriced = other(down(), down(), "Here.", name="anthropic"), other(name="nobody")
    first.id = "claude-sonnet-4-6"
    ledger = Ledger(Decimal(5), PriceBook())
    limits = RunLimits(max_retries=2, fallback_after=0)
    agent = Agent(first, limits=limits, resources=Resources(ledger=ledger, fallbacks=(unpriced,)))
    assert (await agent.run("go")).content == "Here."
    assert len(first.requests) == 3 and not unpriced.requests
