"""One model call: an onion of small layers. Retry, around afford, around stream.

Money is reserved for every attempt, not once around all of them: a stream that was cut may have been billed.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import assert_never

from sagent.agent.state import State
from sagent.cost.ledger import Reservation
from sagent.errors import ModelError
from sagent.events import Notice, ReplyFinished, Retrying, TextDelta, ThinkingDelta
from sagent.messages import Message, Part, Text, ToolCall
from sagent.model import Billed, Delta, Reply, Request, TextPart, ThinkingPart
from sagent.usage import Charge, Usage

USUAL_OUTPUT = 16_000  # tokens reserved for a reply when neither the user nor the model's data sets a limit
LEAST_WAIT, MOST_WAIT = 0.5, 30.0  # seconds


async def call_model(state: State) -> Message:
    """Call the model with the history as it stands; its reply is in the history, the log and the ledger.

    Raises ModelError and BudgetExceeded. When cancelled, what had been said is kept as an interrupted reply.
    """
    state.record_prompt()
    attempt = 0
    while True:
        partial = Attempt()
        try:
            return await _afford(state, partial)
        except ModelError as error:
            wait = _wait_before_retry(state, error, attempt)
            if wait is None:
                _keep_partial(state, partial)
                raise
            attempt += 1
            state.emit(Retrying(state.path, str(error), error.kind, attempt, round(wait, 2), partial.text))
            await asyncio.sleep(wait)
        except asyncio.CancelledError:
            _keep_partial(state, partial)
            raise


@dataclass(slots=True)
class Attempt:
    """How far one attempt came."""

    pieces: list[str] = field(default_factory=list[str])
    thought: int = 0  # bytes of reasoning received
    charges: tuple[Charge, ...] = ()

    @property
    def text(self) -> str:
        """The visible text received."""
        return "".join(self.pieces)


async def _afford(state: State, partial: Attempt) -> Message:
    request = state.request()
    weight = state.model.weigh(request)
    _check_size(state, weight)
    reservation = await _reserve(state, request, weight)
    with reservation:
        request = replace(request, max_output=reservation.max_output)
        try:
            reply = await _stream(state, request, partial)
        except (ModelError, asyncio.CancelledError) as error:
            charges = _charges_of(state, partial, weight, error)
            if charges:
                state.settle(reservation, charges)
            raise
        return await _accept(state, reply, reservation, weight)


async def _reserve(state: State, request: Request, weight: int) -> Reservation:
    max_output = request.max_output
    if state.ledger.cap is not None and max_output is None:
        max_output = min(state.model.limits.max_output or USUAL_OUTPUT, 2 * USUAL_OUTPUT)
    return await state.ledger.reserve(
        state.path,
        "executor",
        state.model.provider,
        state.model.id,
        input_bound=state.meter.bound(weight),
        max_output=max_output,
    )


async def _stream(state: State, request: Request, partial: Attempt) -> Reply:
    deltas = state.model.stream(request)
    try:
        return await _consume(state, deltas, partial)
    finally:
        if hasattr(deltas, "aclose"):
            await deltas.aclose()  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType] -- a generator


async def _consume(state: State, deltas: AsyncIterator[Delta | Reply], partial: Attempt) -> Reply:
    async for delta in deltas:
        match delta:
            case TextPart(text):
                partial.pieces.append(text)
                state.emit(TextDelta(state.path, text))
            case ThinkingPart(text):
                partial.thought += len(text.encode("utf-8", "replace"))
                state.emit(ThinkingDelta(state.path, text))
            case Billed(charges):
                partial.charges = charges
            case Reply():
                return delta
            case _:
                assert_never(delta)
    raise ModelError("cut", "the stream ended without a reply", provider=state.model.provider, model=state.model.id)


async def _accept(state: State, reply: Reply, reservation: Reservation, weight: int) -> Message:
    """Take a whole reply into history, log and ledger."""
    witness = reply.witness
    state.record(
        "request",
        {"sha256": witness.sha256, "size": witness.size, "model": witness.model, "parameters": witness.parameters},
    )
    message = _distinct_calls(reply.message)
    state.add(message)
    usd = state.settle(reservation, reply.charges)
    state.meter.learn(weight, reply.usage.total_input)
    for note in reply.notes:
        state.emit(Notice(state.path, "info", note))
    state.emit(ReplyFinished(state.path, message, reply.usage, usd))
    return message


def _charges_of(state: State, partial: Attempt, weight: int, error: BaseException) -> tuple[Charge, ...]:
    """The bill of a call that did not end well.

    A provider that answers with an error, or cannot be reached, bills nothing. One that had begun bills its input and
    what it wrote. What it did not tell is estimated, and then the charge says so: the ledger counts the whole
    reservation towards the cap, for the true bill may be anything below it.
    """
    received = len(partial.text.encode("utf-8", "replace")) + partial.thought
    refused = isinstance(error, ModelError) and error.kind not in ("cut", "stalled")
    if refused and not partial.charges and not received:
        return ()
    told = sum((charge.usage for charge in partial.charges), Usage())
    guess = Usage(
        input=0 if told.total_input else state.meter.estimate(weight),
        output=max(0, received // 4 - told.output),
    )
    charges = (*partial.charges, Charge(state.model.id, guess)) if guess != Usage() else partial.charges
    return tuple(replace(charge, estimated=True) for charge in charges)


def _keep_partial(state: State, partial: Attempt) -> None:
    """Keep what an unfinished reply had said; the history stays valid for the next call."""
    if partial.text:
        who = f"{state.model.provider}/{state.model.id}"
        state.add(Message("assistant", (Text(partial.text),), model=who, stop="interrupted"))


def _check_size(state: State, weight: int) -> None:
    most, size = state.bounds.max_request_tokens, state.meter.estimate(weight)
    if most is not None and size > most:
        raise ModelError(
            "context_overflow",
            f"the next request would hold about {size} tokens, more than --max-request-tokens {most}",
            provider=state.model.provider,
            model=state.model.id,
        )


def _wait_before_retry(state: State, error: ModelError, attempt: int) -> float | None:
    """Seconds to wait before the same request goes out again, or None when it should not.

    What the provider asks for is honoured up to `longest_wait`; otherwise exponential backoff with full jitter.
    """
    if not error.retryable or attempt >= state.bounds.max_retries:
        return None
    if error.retry_after is not None and error.retry_after > state.bounds.longest_wait:
        until = datetime.now().astimezone() + timedelta(seconds=error.retry_after)
        text = f"{error.provider} asks to wait until {until:%Y-%m-%d %H:%M %Z}; that is not waited for."
        state.emit(Notice(state.path, "warning", text))
        return None
    if error.retry_after is not None:
        return error.retry_after
    import random

    return random.uniform(LEAST_WAIT / 2, min(MOST_WAIT, LEAST_WAIT * 2**attempt))  # noqa: S311 -- not a secret


def _distinct_calls(message: Message) -> Message:
    """Give every call of a reply an id of its own: servers send empty and repeated ones, and results are told apart
    by them."""
    seen: set[str] = set()
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            new = part.id if part.id and part.id not in seen else f"{part.id or 'call'}_{len(parts)}"
            seen.add(new)
            parts.append(part if new == part.id else replace(part, id=new))
        else:
            parts.append(part)
    return replace(message, parts=tuple(parts))
