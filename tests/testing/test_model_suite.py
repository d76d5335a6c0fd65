"""The suite for models, run over what this package ships, and over models that break its promises."""

import contextlib
import json
import math
from dataclasses import replace
from typing import assert_never

import pytest

from sagent.errors import ModelError, ModelErrorKind
from sagent.lib.json import EMPTY, JsonObject, json_freeze_object, json_load
from sagent.messages import Message, Part, StopReason, Thinking, ToolCall
from sagent.model import Reply, TextPart
from sagent.testing.model_suite import MakeModel, ModelSuite
from sagent.testing.script import Call, Cut, ErrorEvent, Fail, Raw, Stall, Step, Turn
from sagent.testing.scripted import Line, ScriptedModel

KINDS: dict[int, ModelErrorKind] = {
    400: "invalid_request",
    401: "auth",
    403: "permission",
    404: "not_found",
    429: "rate_limit",
    529: "overloaded",
}


def error(kind: ModelErrorKind, **members: object) -> ModelError:
    return ModelError(kind, "as scripted", provider="scripted", model="scripted", **members)  # pyright: ignore[reportArgumentType]


def line(step: Step) -> Line:
    """What a script for the server means for a scripted model."""
    match step:
        case Turn():
            end = Message(
                "assistant", tuple(call(number, item) for number, item in enumerate(step.calls)), stop=stop(step)
            )
            return (step.delay, *said(step), end, *((step.usage,) if step.usage else ()))
        case Fail():
            wait = float(dict(step.headers).get("retry-after", 0)) or None
            return error(KINDS.get(step.status, "server"), status=step.status, retry_after=wait)
        case Raw():
            return error("server", status=step.status)
        case Cut():
            return (*said(step.turn)[: max(0, step.after_events)], error("cut"))
        case ErrorEvent():
            return (*said(step.turn)[: step.after_events], error("overloaded"))
        case Stall():
            return (*said(step.turn)[: step.after_events], math.inf)
        case _:
            assert_never(step)


def said(turn: Turn) -> tuple[Line, ...]:
    size = turn.pieces or len(turn.text) or 1
    pieces = [turn.text[at : at + size] for at in range(0, len(turn.text), size)]
    spaced = [item for piece in pieces for item in (piece, turn.gap)] if turn.gap else pieces
    return (*((Thinking(turn.thinking),) if turn.thinking else ()), *spaced)


def stop(turn: Turn) -> StopReason | None:
    return turn.stop if turn.stop in ("end", "max_tokens", "content_filter") else None


def call(number: int, item: Call) -> Part:
    if not isinstance(item.arguments, str):
        return ToolCall(f"call_{number}", item.name, json_freeze_object({**item.arguments}))
    with contextlib.suppress(ValueError):
        value = json_load(item.arguments or "{}")
        if isinstance(value, JsonObject):
            return ToolCall(f"call_{number}", item.name, value)
    return ToolCall(f"call_{number}", item.name, EMPTY, malformed=item.arguments)


class TestScriptedModel(ModelSuite):
    @pytest.fixture
    def make_model(self) -> MakeModel:
        @contextlib.asynccontextmanager
        async def made(script):
            yield ScriptedModel(*map(line, script))

        return made


# Models that break a promise are found out.


async def no_reply(stream):
    async for item in stream:
        if not isinstance(item, Reply):
            yield item


async def two_replies(stream):
    async for item in stream:
        yield item
        if isinstance(item, Reply):
            yield item


async def lost_delta(stream):
    lost = False
    async for item in stream:
        if lost or not isinstance(item, TextPart):
            yield item
        lost = lost or isinstance(item, TextPart)


async def double_bill(stream):
    async for item in stream:
        yield replace(item, charges=item.charges * 2) if isinstance(item, Reply) else item


async def mended_arguments(stream):
    async for item in stream:
        if isinstance(item, Reply):
            parts = (replace(part, malformed=None) for part in item.message.parts)
            item = replace(item, message=replace(item.message, parts=tuple(parts)))
        yield item


async def other_errors(stream):
    try:
        async for item in stream:
            yield item
    except ModelError as caught:
        raise RuntimeError("not a ModelError") from caught


async def errors_swallowed(stream):
    with contextlib.suppress(ModelError):
        async for item in stream:
            yield item


async def nameless_errors(stream):
    try:
        async for item in stream:
            yield item
    except ModelError as caught:
        raise ModelError(caught.kind, "oops", provider="") from caught


async def own_digest(stream):
    async for item in stream:
        yield replace(item, digest=replace(item.digest, sha256=str(id(stream)))) if isinstance(item, Reply) else item


def spoiled(spoil) -> MakeModel:
    class Spoiled(ScriptedModel):
        def stream(self, request):
            return spoil(super().stream(request))

    @contextlib.asynccontextmanager
    async def made(script):
        yield Spoiled(*map(line, script))

    return made


@pytest.mark.parametrize(
    ("spoil", "promise", "arguments"),
    [
        (no_reply, "deltas_come_first_and_say_what_the_reply_says", [0]),
        (two_replies, "deltas_come_first_and_say_what_the_reply_says", [0]),
        (lost_delta, "deltas_come_first_and_say_what_the_reply_says", [0]),
        (double_bill, "usage_is_in_disjoint_buckets_and_the_charges_sum_to_it", []),
        (mended_arguments, "arguments_that_are_no_object_are_kept_as_they_came", ["[1]"]),
        (other_errors, "an_error_status_is_a_model_error_of_its_kind", [Fail(401), "auth"]),
        (nameless_errors, "an_error_status_is_a_model_error_of_its_kind", [Fail(401), "auth"]),
        (errors_swallowed, "an_error_inside_a_stream_is_one_of_its_kind", []),
        (errors_swallowed, "a_stream_without_its_end_is_an_error", ["close", 6]),
        (own_digest, "the_digest_is_of_the_bytes_sent", []),
    ],
)
async def test_suite_finds_broken_model_promise(spoil, promise, arguments):
    with pytest.raises((AssertionError, RuntimeError)):
        await getattr(ModelSuite(), f"test_{promise}")(spoiled(spoil), *arguments)


async def test_suite_finds_weight_that_is_no_bound():
    class Light(ScriptedModel):
        def max_input_tokens(self, request):
            return super().max_input_tokens(request) // 5

    @contextlib.asynccontextmanager
    async def made(script):
        yield Light(*map(line, script))

    with pytest.raises(AssertionError):
        await ModelSuite().test_weigh_is_a_bound_and_grows_with_the_history(made)


@pytest.mark.parametrize(
    ("second", "same"),
    [
        ({"messages": [{"role": "user", "content": [{"text": "a"}]}, 2], "model": "other"}, True),
        ({"messages": [{"role": "user", "content": [{"text": "b"}]}, 2]}, False),
        ({"messages": [{"content": [{"text": "a"}], "role": "user"}, 2]}, False),
        ({"messages": []}, False),
    ],
)
async def test_only_cache_marks_may_move(second, same):
    marked = {"text": "a", "cache_control": {"type": "ephemeral"}}
    first = {"messages": [{"role": "user", "content": [marked]}], "model": "m"}

    class Recorded(ModelSuite):
        def bodies(self):
            return [json.dumps(body, separators=(",", ":")).encode() for body in (first, second)]

    with contextlib.nullcontext() if same else pytest.raises(AssertionError):
        await Recorded().test_a_request_begins_with_the_one_before(spoiled(lambda stream: stream))
