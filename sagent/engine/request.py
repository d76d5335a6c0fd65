"""One request to a model, reserved, streamed and billed: the conversation's own, an advisor's, a compactor's."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TypeAlias, assert_never

from sagent.context.calls import Forms, valid_stream
from sagent.cost.budget import InputBound, Meter, is_stated
from sagent.cost.ledger import Reservation
from sagent.engine.context import RunLimits
from sagent.engine.state import AgentState
from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.money import ZERO
from sagent.model import Billed, Counting, Model, Reply, Request, TextPart, ThinkingPart, full_name
from sagent.session.contents import COMPACTOR, ChargeEntry, Released, RequestSent, Reserved
from sagent.usage import Charge, Sum

MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.5, 30.0
MIN_OUTPUT_TOKENS = 256  # that must be affordable to make a call
MAX_SIDE_RETRIES, SIDE_TIMEOUT_SECONDS = 2, 15.0  # a slower side call is skipped

OnDelta: TypeAlias = Callable[[TextPart | ThinkingPart], None]
"""Called with each piece of a model's output."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call to make. Its input has at most `bound` tokens, about `likely`; other models that the provider runs inside
    it may cost `extra_usd`. `reserved_output` is reserved if the request itself sets no limit."""

    model: Model
    request: Request
    role: str  # who it is billed as
    bound: InputBound
    likely: int
    extra_usd: Decimal = ZERO
    reserved_output: int | None = None


@dataclass(slots=True)
class Attempt:
    """The state of one attempt."""

    pieces: list[str] = field(default_factory=list[str])
    thought: int = 0  # bytes received of reasoning, and of unshown output
    charges: tuple[Charge, ...] = ()
    asked: int | None = None  # requested tokens of output
    forms: Forms | None = None  # of calls in text; none are recognized if None

    @property
    def heard(self) -> bool:
        """True once any part of a reply, or of its bill, has arrived."""
        return bool(self.pieces or self.thought or self.charges)

    @property
    def text(self) -> str:
        """The visible text received."""
        return "".join(self.pieces)

    @property
    def received(self) -> int:
        """Bytes of text and reasoning."""
        return len(self.text.encode("utf-8", "replace")) + self.thought

    def bill(self, reservation: Reservation, error: BaseException, *, stopped: bool) -> tuple[Charge, ...]:
        """Return the cost of a failed call: nothing if the provider was not reached or refused it."""
        if isinstance(error, ModelError) and not (error.sent or self.heard):
            return ()
        from sagent.cost.unfinished import interrupted, lost  # for few calls

        end = interrupted if stopped and isinstance(error, asyncio.CancelledError) else lost
        return end(reservation, self.charges, self.received)

    async def stream(self, model: Model, request: Request, on_delta: OnDelta, reservation: Reservation) -> Reply:
        """Make the call. Raises ModelError."""
        async with aclosing(valid_stream(model, request, self.forms)) as deltas:
            async for delta in deltas:
                reservation.note_activity()
                match delta:
                    case TextPart(text):
                        self.pieces.append(text)
                        on_delta(delta)
                    case ThinkingPart(text):
                        self.thought += len(text.encode("utf-8", "replace"))
                        on_delta(delta)
                    case Billed(charges, unshown):
                        self.charges, self.thought = charges, self.thought + unshown
                        reservation.take_note(charges)
                    case Reply(message, _, charges):
                        received = self.received or len(message.parts)
                        if is_stated(charges, received, reservation.ask, request):
                            return delta
                        from sagent.cost.unfinished import estimated  # for few calls

                        return estimated(delta, reservation, received)
                    case _:
                        assert_never(delta)
        raise ModelError("cut", "the stream ended without a reply", provider=model.provider, model=model.id)


@asynccontextmanager
async def sending(
    state: AgentState, outgoing: PlannedCall, attempt: Attempt, on_delta: OnDelta
) -> AsyncGenerator[tuple[Reply, Reservation]]:
    """Reserve, stream, and bill a call that did not end well; a reply is billed with `settle`, inside the block. Raises
    ModelError and BudgetExceeded."""
    model, request = outgoing.model, outgoing.request
    wanted, least = request.max_output or outgoing.reserved_output, model.limits.least_output
    reservation = await state.ledger.reserve(
        state.path,
        outgoing.role,
        model.provider,
        model.id,
        input_bound=outgoing.bound,
        max_output=None if wanted is None else max(wanted, least),
        least_output=max(MIN_OUTPUT_TOKENS, least),
        extra_usd=outgoing.extra_usd,
        likely=outgoing.likely,
        options=request.options,
        count=partial(model.count_tokens, request) if isinstance(model, Counting) else None,
        on_waiting=partial(state.journal.notify, "warning"),
    )
    with reservation:
        if reservation.held:
            reservation.enter(state.journal.record(Reserved(reservation.worst)))
        attempt.asked = reservation.max_output
        limits = [limit for limit in (request.max_output, reservation.max_output) if limit is not None]
        try:
            asked = replace(request, max_output=min(limits, default=None), capped=bool(reservation.held))
            reply = await within(attempt.stream(model, asked, on_delta, reservation), model, reservation)
        except BaseException as error:
            settle(state, reservation, attempt.bill(reservation, error, stopped=state.run.interrupted))
            raise
        yield reply, reservation


async def within(reply: Awaitable[Reply], model: Model, call: Reservation) -> Reply:
    """Wait for a reply. If others wait for the money of a silent call, it is given up with a ModelError. A model may
    end silent calls itself, after its `max_silence` in seconds; pings of its provider may keep them alive."""
    own_limit = getattr(model, "max_silence", None)  # no isinstance: a wrapper may delegate it
    if isinstance(own_limit, int | float):
        call.own_limit, call.max_silence = own_limit, max(own_limit, call.max_silence)
    limit = asyncio.timeout(None)
    try:
        async with limit:
            call.give_up = lambda: limit.reschedule(0.0)
            return await reply
    except TimeoutError as error:
        if not limit.expired():
            raise
        words = f"given up after {call.silent:.0f} s of silence, because others wait for the money that it reserves"
        raise ModelError("stalled", words, provider=model.provider, model=model.id) from error
    finally:
        call.give_up = None


def settle(state: AgentState, reservation: Reservation, charges: tuple[Charge, ...]) -> Decimal | None:
    """Bill a finished call in the ledger and the log; return its price in USD, or None if it is unknown."""
    if reservation.ask.role == state.role:  # a call of the conversation itself
        for charge in charges:
            if not charge.role:
                state.run.usage += charge.usage
    found, settled = Sum(), reservation.settle(charges)
    for charge in settled:
        state.journal.record(ChargeEntry(charge, reservation.entry if charge is settled[-1] else ""))
        found.add(charge)
    if reservation.entry and not settled:
        state.journal.record(Released(reservation.entry))
    return found.price


def wait_before_retry(limits: RunLimits, error: ModelError, attempt: int, alike: int = 0) -> float | None:
    """Return the seconds before the same request is repeated, or None if it should not be.

    The provider's own figure is used up to `longest_wait`; otherwise exponential backoff with full jitter. A provider
    that named too short a wait twice is ignored: all tries would be over at once. `alike` is the number of earlier
    tries, of `attempt`, with this kind of error.
    """
    if not error.retryable or attempt >= limits.max_retries or alike >= error.max_retries:
        return None
    if error.retry_after is not None and error.retry_after > limits.longest_wait:
        until = datetime.now().astimezone() + timedelta(seconds=min(error.retry_after, 1e9))
        error.advise(f"It can be asked again at {until:%Y-%m-%d %H:%M %Z}; so long a wait is left to you.")
        return None
    if error.retry_after is not None and attempt < 2:
        return error.retry_after
    import random

    backoff = random.uniform(MIN_WAIT_SECONDS / 2, min(MAX_WAIT_SECONDS, MIN_WAIT_SECONDS * 2**attempt))  # noqa: S311 -- not a secret
    return max(backoff, error.retry_after or 0.0)


async def make_side_call(
    state: AgentState, model: Model, request: Request, role: str, on_delta: OnDelta, meter: Meter | None = None
) -> tuple[Reply, Decimal | None]:
    """Call a model with a separate request, billed to a role; returns its reply and the price, None if that is not
    known.

    The conversation, its meter and usage are untouched; a request that begins with the conversation's last one is
    bounded by its `meter`. Raises ModelError and BudgetExceeded. A cancelled call is billed for what it has cost so
    far; one that failed after it had begun to answer is not repeated.
    """
    limits = replace(
        state.limits,
        max_retries=min(state.limits.max_retries, MAX_SIDE_RETRIES),
        longest_wait=min(state.limits.longest_wait, SIDE_TIMEOUT_SECONDS),
    )
    tries = 0
    while True:
        attempt, known, max_input = Attempt(), meter or Meter(), model.max_input_tokens(request)
        outgoing = PlannedCall(model, request, role, known.bound(request, max_input), known.estimate(max_input))
        try:
            async with sending(state, outgoing, attempt, on_delta) as (reply, reservation):
                state.journal.record(RequestSent.of(reply.digest, role))
                return reply, settle(state, reservation, reply.charges)
        except ModelError as error:
            most = error.max_output
            if most is not None and MIN_OUTPUT_TOKENS <= most < (request.max_output or most + 1) and not attempt.heard:
                request = replace(request, max_output=most)  # the data were wrong
                continue
            wait = wait_before_retry(limits, error, tries, tries)
            if wait is None or attempt.heard or (error.kind == "cut" and role == COMPACTOR):  # it is repeated once
                raise
            tries += 1
            state.journal.notify("info", f"{role}, {full_name(model)}: {error}; trying again in {wait:.1f} s")
            await asyncio.sleep(wait)
