"""Replies that end by themselves without saying or doing anything: asked for again once, then an error."""

import json
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import pytest

from sagent import Agent
from sagent.agent import Resources, RunLimits
from sagent.cli.headless import EXIT_FAILED, exit_code
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError
from sagent.events import Result, Retrying
from sagent.lib.json import EMPTY
from sagent.messages import Image, Message, Opaque, Part, Private, StopReason, Text, Thinking, assistant
from sagent.testing import ScriptedModel
from sagent.testing.server import FakeProviderServer, Raw, Step, Turn
from sagent.usage import Usage
from tests.agent.test_cut_calls import FAMILIES, provider_of, region

__all__ = ["region"]  # a fixture

THOUGHTS = Turn(thinking="The user wants 4.", stop="end", usage=Usage(input=7, output=5))
OPAQUE = Opaque("", Private("elsewhere", EMPTY))


async def ended(agent: Agent) -> Result:
    """Run an agent; its result, be it an error."""
    with suppress(ModelError):
        await agent.run("2+2?")
    result = await agent.wait()
    await agent.aclose()
    return result


async def played(family: str, steps: Sequence[Step]) -> tuple[Result, int]:
    async with FakeProviderServer(steps) as server:
        provider, model = provider_of(family, server.url)
        result = await ended(Agent(provider.model(model)))
        await provider.aclose()
    return result, len(server.requests)


@pytest.mark.parametrize("family", FAMILIES)
async def test_thoughts_alone_are_asked_again(family: str) -> None:
    result, requests = await played(family, [THOUGHTS, Turn("4", usage=Usage(input=7, output=1))])
    assert (result.content, result.error, requests) == ("4", None, 2)
    assert (result.usage.input, result.usage.output) == (14, 6)


@pytest.mark.parametrize("family", FAMILIES)
async def test_thoughts_alone_twice_are_an_error(family: str) -> None:
    result, requests = await played(family, [THOUGHTS] * 9)
    assert result.error is not None
    assert (result.error.kind, result.stop_reason, requests) == ("empty", "error", 2)
    assert "without saying or doing anything" in result.error.message
    assert exit_code(result) == EXIT_FAILED
    assert (result.usage.input, result.usage.output) == (14, 10)


@pytest.mark.parametrize("family", FAMILIES)
async def test_empty_reply_is_asked_again(family: str) -> None:
    result, requests = await played(family, [Turn(stop="end"), Turn("4")])
    assert (result.content, requests) == ("4", 2)


@pytest.mark.parametrize(
    "deltas",
    [
        [{"content": "<think>The user wants 4."}],
        [{"reasoning_content": "The user wants 4."}],
        [{"content": "<think>Hm.</think>\n\n"}],
        [{"content": " \n"}],
        [{"content": "The user wants 4."}, {"content": "</think>\n"}],
        [{"content": "<thinking>The user\nwants 4.</thinking>"}],
        [{"content": "<reasoning>\u00e9</reasoning>"}],
        [],
    ],
)
async def test_wordless_chat_reply_is_asked_again(deltas: list[dict[str, str]]) -> None:
    choices = [*({"index": 0, "delta": delta} for delta in deltas), {"index": 0, "delta": {}, "finish_reason": "stop"}]
    chunks = [{"choices": [choice]} for choice in choices]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    answer = Raw(200, (("content-type", "text/event-stream"),), f"{body}data: [DONE]\n\n".encode())
    result, requests = await played("chat", [answer, Turn("4")])
    assert (result.content, requests) == ("4", 2)


@pytest.mark.parametrize(
    "parts", [(), (Thinking("Hm."),), (Text(" \n"),), (Thinking("Hm."), Text("")), (Text("\u200b\ufeff\n\u2800"),)]
)
@pytest.mark.parametrize("stop", ["end", "stop_sequence"])
async def test_any_model_is_asked_again_once(parts: tuple[Part, ...], stop: StopReason) -> None:
    parts = parts if parts or stop == "end" else (Thinking("Hm."), Thinking("So."))
    empty = Message("assistant", parts, stop=stop)
    agent = Agent(ScriptedModel(empty, "4"))
    retries: list[Retrying] = []
    agent.listen(lambda event: retries.append(event) if isinstance(event, Retrying) else None)
    assert (await agent.run("2+2?")).content == "4"
    assert [retry.kind for retry in retries] == ["empty"]
    assert [message.content for message in agent.messages] == ["2+2?", "4"]
    await agent.aclose()


@pytest.mark.parametrize(
    "part",
    [
        Text("4"),
        Text("\u200b\u00e9"),
        Text("Hm.</think>4"),
        Text("<b>4</b>"),
        Text("\u00e9>"),
        OPAQUE,
        Image("image/png", b"x"),
    ],
)
async def test_reply_with_content_is_not_empty(part: Part) -> None:
    result = await ended(Agent(ScriptedModel(Message("assistant", (Thinking("Hm."), part), stop="end"))))
    assert (result.error, result.turns) == (None, 1)


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "content_filter"])
async def test_empty_reply_keeps_its_own_reason(stop: str) -> None:
    line = assistant("", Thinking("Hm."), stop=stop)  # pyright: ignore[reportArgumentType] -- one of StopReason
    result = await ended(Agent(ScriptedModel(line)))
    assert (result.stop_reason, result.turns) == (stop, 1)


async def test_each_try_is_billed_as_counted() -> None:
    usage = Usage(input=1_000_000, output=0)
    prices = PriceBook({"scripted/scripted": {"input": "1", "output": "1"}})
    resources = Resources(ledger=Ledger(Decimal(5), prices))
    agent = Agent(ScriptedModel((Thinking("Hm."), usage), (Thinking("Hm."), usage)), resources=resources)
    result = await ended(agent)
    assert result.error is not None
    assert (result.error.kind, result.run_usd) == ("empty", Decimal(2))


async def test_empty_without_retries_is_an_error() -> None:
    agent = Agent(ScriptedModel(Thinking("Hm.")), limits=RunLimits(max_retries=0))
    result = await ended(agent)
    assert result.error is not None and result.error.kind == "empty"


async def test_earlier_other_failures_do_not_count() -> None:
    busy = ModelError("server", "busy", provider="scripted")
    agent = Agent(ScriptedModel(busy, Thinking("Hm."), "4"))
    assert (await agent.run("2+2?")).content == "4"
    await agent.aclose()


async def test_other_model_replaces_silent_one() -> None:
    silent, other = ScriptedModel(*[Thinking("Hm.")] * 2), ScriptedModel("4", model_id="other")
    agent = Agent(silent, resources=Resources(fallbacks=(other,)))
    assert (await agent.run("2+2?")).content == "4"
    await agent.aclose()
