"""Retries and limits as hostile or wrong servers bring them about."""

from decimal import Decimal

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.request import wait_before_retry
from sagent.errors import ModelError
from sagent.events import Event, Finished, Notice
from sagent.lib.json import as_int, as_object
from sagent.model import Provider
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.session.folds import charges
from sagent.session.log import MemoryLog
from sagent.testing.server import Fail, FakeProviderServer, Received, Step, Turn

PRICES = {"input": 3, "output": 15}


def asked(request: Received) -> int:
    """The output limit in a request."""
    members = {**request.json, **as_object(request.json.get("generationConfig"))}
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
    return next((as_int(members[name]) for name in names if name in members), 0)


def anthropic(url: str) -> Provider:
    return Anthropic.from_key("k", base_url=url)


def openai(url: str) -> Provider:
    return OpenAI.from_key("k", base_url=url + "/v1")


def google(url: str) -> Provider:
    return Google.from_key("k", base_url=url)


def chat(url: str) -> Provider:
    return OpenAICompatible.from_key("k", base_url=url)


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (anthropic, "max_tokens: {n} > 4096, which is the maximum allowed number of output tokens for x"),
        (openai, "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 4096, but got {n}."),
        (
            google,
            "a maxOutputTokens value of {n} but the supported range is from 1 (inclusive) to 4097 (exclusive)",
        ),
        (chat, "Invalid max_tokens value, the valid range of max_tokens is [1, 4096]"),
    ],
)
async def test_refusal_corrects_output_limit(provider, words: str) -> None:
    """As under a cap, where a limit must be asked for, by data that are wrong."""

    def answer(request: Received) -> Step:
        limit = asked(request)
        return Fail(400, message=words.format(n=limit)) if limit > 4_096 else Turn(text="Here.")

    async with FakeProviderServer(answer) as server:
        source = provider(server.url)
        model = source.model("some-model")
        log = MemoryLog()
        ledger = Ledger(Decimal(9), PriceBook({f"{model.provider}/some-model": PRICES}))
        agent = Agent(model, resources=Resources(log=log, ledger=ledger))
        told: list[Event] = [event async for event in agent.stream("go")]
        assert (await agent.run("more")).content == "Here."
        assert [asked(request) for request in server.requests][1:] == [4_096, 4_096], "it is known from then on"
        notices = [event.text for event in told if isinstance(event, Notice) and event.level == "warning"]
        assert len([text for text in notices if "limited to 4,096 tokens" in text]) == 1
        assert len(list(charges(log.entries()))) == 2, "what was refused costs nothing"
        await source.aclose()


@pytest.mark.parametrize(("left", "calls"), [(13_043, 2), (40, 1)])
async def test_low_credits_ask_for_shorter_reply(left: int, calls: int) -> None:
    """As OpenRouter refuses one whose longest answer would cost too much, be the usual answer as short as it may."""
    words = f"More credits, or fewer max_tokens: you requested up to 64000 tokens, but can only afford {left}."

    def answer(request: Received) -> Step:
        return Turn(text="Here.") if 0 < asked(request) <= left else Fail(402, message=words)

    async with FakeProviderServer(answer) as server:
        source = chat(server.url)
        events = [event async for event in Agent(source.model("m")).stream("go")]
        result = next(event.result for event in events if isinstance(event, Finished))
        assert (result.content == "Here.") is (calls == 2)
        assert (result.error is not None and result.error.kind == "payment") is (calls == 1)
        assert len(server.requests) == calls
        await source.aclose()


async def test_contradictory_refusal_ends_run() -> None:
    words = "Invalid max_tokens value, the valid range of max_tokens is [1, 1000000]"
    async with FakeProviderServer([Fail(400, message=words)], repeat_last=True) as server:
        source = chat(server.url)
        with pytest.raises(ModelError, match="valid range"):
            await Agent(source.model("m"), limits=RunLimits(max_response_tokens=500)).run("go")
        assert len(server.requests) == 1
        await source.aclose()


async def test_shrinking_limit_is_not_followed_forever() -> None:
    def answer(request: Received) -> Step:
        return Fail(400, message=f"the valid range of max_tokens is [1, {asked(request) - 1}]")

    async with FakeProviderServer(answer) as server:
        source = chat(server.url)
        with pytest.raises(ModelError, match="valid range"):
            await Agent(source.model("m"), limits=RunLimits(max_response_tokens=500)).run("go")
        assert len(server.requests) == 4
        await source.aclose()


def limited(retry_after: float | None) -> ModelError:
    return ModelError("rate_limit", "slow down", provider="acme", model="m", retry_after=retry_after)


def test_repeated_zero_wait_is_not_believed() -> None:
    waits = [wait_before_retry(RunLimits(), limited(0.0), attempt) for attempt in range(8)]
    assert waits[:2] == [0.0, 0.0]
    assert all(wait is not None and wait >= 0.25 for wait in waits[2:])


def test_requested_wait_is_never_shortened() -> None:
    assert [wait_before_retry(RunLimits(), limited(100.0), attempt) for attempt in range(8)] == [100.0] * 8


@pytest.mark.parametrize("seconds", [1e12, 1e300, float("inf")])
def test_wait_beyond_all_dates_is_told(seconds: float) -> None:
    error = limited(seconds)
    assert wait_before_retry(RunLimits(), error, 0) is None
    assert "It can be asked again at 20" in str(error)
