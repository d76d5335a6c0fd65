"""One model call, in layers: retries contain recovery from overflow, which contains paying, which contains streaming.

Money is reserved for every attempt, not once for all of them: a stream that was cut may have been billed.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from sagent.context.calls import NOTHING, says_nothing, what_is_missing, with_distinct_ids
from sagent.cost.budget import counted_input
from sagent.cost.ledger import Reservation
from sagent.engine.actions import apply_pending, change, change_back
from sagent.engine.compaction import cut_short, keep_room, removable_parts, stub
from sagent.engine.neighbours import ExtraCost
from sagent.engine.request import MIN_OUTPUT_TOKENS, Attempt, PlannedCall, sending, settle, wait_before_retry
from sagent.engine.state import AgentState
from sagent.errors import RETRYABLE, ModelError, ModelErrorKind
from sagent.events import ReplyFinished, Retrying, TextDelta, ThinkingDelta
from sagent.lib.dataclass import dataclass
from sagent.lib.money import ZERO
from sagent.lib.pace import give_way
from sagent.messages import Message, assistant
from sagent.model import Reply, TextPart, ThinkingPart, full_name, input_budget, is_same_model
from sagent.peer import Switch
from sagent.session.contents import RequestSent

DEFAULT_OUTPUT = 16_000  # tokens reserved for a reply when neither the user nor the model's data sets a limit
MIN_REPLY_TOKENS = 1_024  # to request however full the window seems: our figures may be wrong
MARGIN_TOKENS = 256  # difference between our counts and a provider's
UNFIT: tuple[ModelErrorKind, ...] = ("not_found", "auth", "permission", "payment", "invalid_request")
"""Errors that show that a new model cannot be used: the previous one continues."""
MAX_RECOVERIES = 3  # from a full window, in one call
TOO_FULL = (
    "Nothing more can be left out of the conversation: start a new session, use a model with a larger window, or "
    "send less at once."
)


async def call_model(state: AgentState) -> Message:
    """Call the model with the current history; its reply is added to the history, the log and the ledger.

    Raises ModelError and BudgetExceeded. When cancelled, the text so far is kept as an interrupted reply.
    """
    await give_way()
    state.record_prompt()
    await keep_room(state)
    failed: list[ModelErrorKind] = []
    while True:
        partial = Partial(forms=state.call_forms)
        try:
            return await _recover(state, partial)
        except ModelError as error:
            if _without_advisor(state, error, partial) or (error.kind in UNFIT and change_back(state, error)):
                continue
            wait = wait_before_retry(state.limits, error, len(failed), failed.count(error.kind))
            if (wait is None or len(failed) >= state.limits.fallback_after) and _fall_back(state, error, partial):
                failed.clear()
                continue
            if wait is None:
                _keep_partial(state, partial)
                raise
            failed.append(error.kind)
            if error.kind == "empty" and (missing := what_is_missing(state.context.history)):
                state.add(missing)
            state.journal.emit(Retrying(state.path, str(error), error.kind, len(failed), round(wait, 2), partial.text))
            if await _switched(state, wait):
                failed.clear()
        except asyncio.CancelledError:
            _keep_partial(state, partial)
            raise


async def _switched(state: AgentState, seconds: float) -> bool:
    """Wait before the next attempt. A switch of model that is requested meanwhile ends the wait and is applied."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not any(isinstance(action, Switch) and action.model for action in state.requested.actions):
                await state.inbox.nudged("next")
            apply_pending(state)
            return True
    return False


@dataclass(slots=True)
class Partial(Attempt):
    """An attempt at the next reply, and the known limit of its output."""

    max_output: int | None = None  # limit of output tokens stated by a provider
    recoveries: int = 0  # from a full window

    def discard(self, state: AgentState, error: ModelError) -> None:
        """Drop the received part, because the call is repeated."""
        if self.text:
            state.journal.emit(Retrying(state.path, str(error), error.kind, self.recoveries, 0.0, self.text))
        self.pieces, self.thought, self.charges = [], 0, ()


def _without_advisor(state: AgentState, error: ModelError, partial: Partial) -> bool:
    """Return True if a request was refused because of the provider's own advisor: it is then sent without."""
    refused = error.kind in ("invalid_request", "not_found", "permission")
    if not refused or state.context.extension is None or not state.context.extension.refused(error):
        return False
    partial.discard(state, error)
    text = f"{state.model.provider} does not ask this advisor for this model ({error}); from now on sagent asks it."
    state.journal.notify("warning", text)
    return True


async def _recover(state: AgentState, partial: Partial) -> Message:
    """Make a request that does not fit smaller, and repeat it. If that is impossible, raise the provider's error."""
    while True:
        try:
            return await _afford(state, partial)
        except ModelError as error:
            if _asked_for_too_much(state, error, partial):
                continue
            if error.kind != "context_overflow":
                raise
            if not (partial.recoveries < MAX_RECOVERIES and _make_fit(state, error, partial)):
                error.advise(TOO_FULL)
                raise
            partial.recoveries += 1
            partial.discard(state, error)


def _asked_for_too_much(state: AgentState, error: ModelError, partial: Partial) -> bool:
    """Request less output from now on if a request was refused for its output limit (wrong data, or not paid for).
    Return True if so."""
    meter, most = state.context.meter, error.max_output
    asked = [size for size in (meter.max_output, partial.asked) if size is not None]
    if most is None or not MIN_OUTPUT_TOKENS <= most < min(asked, default=most + 1):
        return False
    if partial.recoveries >= MAX_RECOVERIES:
        return False
    meter.max_output = most
    partial.recoveries += 1
    partial.discard(state, error)
    state.journal.notify("warning", f"From now on, replies are limited to {most:,} tokens: {error}")
    return True


async def _afford(state: AgentState, partial: Partial) -> Message:
    context, request = state.context, state.context.request()
    max_input = state.model.max_input_tokens(request)
    likely, most = context.meter.estimate(max_input), state.limits.max_request_tokens
    if most is not None and likely > most:
        words = f"the next request would hold about {likely} tokens, more than --max-request-tokens {most}"
        raise _error(state, "context_overflow", words)
    request = replace(request, max_output=_output_limit(state, max_input, partial))
    bound = context.meter.bound(request, max_input, state.model)
    extra = ExtraCost(ZERO, {}) if context.extension is None else context.extension.extra_cost(bound.tokens)
    known = state.model_limits.max_output or DEFAULT_OUTPUT
    usual = None if state.ledger.cap is None else min(known, 2 * DEFAULT_OUTPUT)
    outgoing = PlannedCall(state.model, request, state.role, bound, likely, extra.usd, usual)
    async with sending(state, outgoing, partial, lambda delta: _show(state, delta)) as (reply, reservation):
        overflowed = reply.message.stop == "context_overflow" and not any(call.whole for call in reply.message.calls)
        wrong: tuple[ModelErrorKind, str] | None = ("empty", NOTHING) if says_nothing(reply.message) else None
        if overflowed and partial.recoveries < MAX_RECOVERIES and removable_parts(state).can_give_way:
            wrong = ("context_overflow", "the window was full before the answer was")
        if wrong is not None:
            settle(state, reservation, reply.charges)
            raise _error(state, *wrong)
        max_input = state.model.max_input_tokens(request)  # parts that the provider rejects may have been left out
        context.meter.learn(request, max_input, counted_input(reply, reservation.ask, request), state.model)
        return _accept(state, reply, reservation, extra.roles)


def _show(state: AgentState, delta: TextPart | ThinkingPart) -> None:
    kind = TextDelta if isinstance(delta, TextPart) else ThinkingDelta
    state.journal.emit(kind(state.path, delta.text))


def _accept(state: AgentState, reply: Reply, reservation: Reservation, roles: Mapping[str, str]) -> Message:
    """Take a whole reply into history, log and ledger."""
    state.journal.record(RequestSent.of(reply.digest))
    context, message = state.context, with_distinct_ids(reply.message)
    context.proven = None
    state.add(message)
    charges = (replace(charge, role=roles.get(charge.role, charge.role)) for charge in reply.charges)
    usd = settle(state, reservation, tuple(charges))
    if context.extension is not None:
        context.extension.after_reply(reply)
    for note in reply.notes:
        if note not in state.noted:  # permanent notes are shown once
            state.journal.notify("warning", note)
    state.noted = reply.notes
    state.journal.emit(ReplyFinished(state.path, message, reply.usage, usd))
    return message


def _keep_partial(state: AgentState, partial: Partial) -> None:
    """Keep the text of an unfinished reply; the history stays valid for the next call."""
    if partial.text:
        state.add(assistant(partial.text, model=full_name(state.model), stop="interrupted"))


def _error(state: AgentState, kind: ModelErrorKind, words: str) -> ModelError:
    return ModelError(kind, words, provider=state.model.provider, model=state.model.id)


def _output_limit(state: AgentState, max_input: int, partial: Partial) -> int | None:
    """Return the output limit to request; None leaves it to the adapter.

    Input and output share the window, so with a long input the usual output is too much to request.
    """
    wanted, limits, meter = state.limits.max_response_tokens, state.model_limits, state.context.meter
    if meter.max_output is not None:
        wanted = min(meter.max_output, wanted or meter.max_output)
    if partial.max_output is not None:
        return min(partial.max_output, wanted or partial.max_output)
    known = limits.max_output or (2 * DEFAULT_OUTPUT if meter.window else 0)  # a server's own limit may be too high
    usual = wanted or min(known, 2 * DEFAULT_OUTPUT)
    if limits.window is None or not usual:
        return wanted
    room = max(MIN_REPLY_TOKENS, limits.window - _likely(state, max_input))
    return wanted if usual <= room else min(room, wanted or DEFAULT_OUTPUT)


def _likely(state: AgentState, max_input: int) -> int:
    """Return the input tokens of a request, with a margin for errors of the estimate."""
    tokens = state.context.meter.estimate(max_input)
    return tokens + tokens // 16 + MARGIN_TOKENS


def _make_fit(state: AgentState, error: ModelError, partial: Partial) -> bool:
    """Request less output if that is enough; otherwise shrink the history. False if neither helps."""
    if partial.recoveries < MAX_RECOVERIES - 1 and _ask_for_less(state, error, partial):
        return True
    partial.max_output = None
    return _shrink(state, error) or cut_short(state, "overflow")


def _ask_for_less(state: AgentState, error: ModelError, partial: Partial) -> bool:
    """Lower the output limit, if the provider says how large its window is and the input alone fits into it."""
    if error.window is None:
        return False
    state.context.meter.window = error.window
    used = error.tokens + MARGIN_TOKENS if error.tokens else _likely(state, state.context.max_input_tokens())
    room = error.window - used
    if error.tokens is None and partial.max_output is not None:  # our estimate was not enough
        room = min(room, partial.max_output // 2)
    if room < MIN_REPLY_TOKENS or (partial.asked is not None and room >= partial.asked):
        return False
    partial.max_output = room
    return True


def _shrink(state: AgentState, error: ModelError) -> bool:
    """Replace old results by stubs until the next request fills 70 % of the room for it."""
    before = error.tokens or state.context.tokens()
    rooms = (input_budget(state.model_limits), state.limits.max_request_tokens)
    target = min([before, *(room for room in rooms if room is not None)]) * 7 // 10
    if not (stubbed := stub(state, before, target, "overflow")):
        return False
    text = (
        f"The context was full, at about {before:,} tokens. Old tool results and attachments were replaced by stubs "
        f"({stubbed} of them), which leaves about {state.context.tokens():,}. The model can read them again."
    )
    state.journal.notify("info", text)
    return True


def _fall_back(state: AgentState, error: ModelError, partial: Partial) -> bool:
    """Let the next fallback replace an unreachable model. Return False if none can.

    Only for errors that may not occur elsewhere: a wrong key, an empty account or a refused request needs a person.
    """
    while error.kind in RETRYABLE and state.fallbacks:
        model, down = state.fallbacks.pop(0), full_name(state.model)
        name = full_name(model)
        if is_same_model(model, state.model):
            state.journal.notify("warning", f"{name} cannot take over: it is the model that is unavailable.")
            continue
        name = f"another {name}" if name == down else name
        if state.ledger.cap is not None and state.ledger.prices.ceiling(model.provider, model.id) is None:
            state.journal.notify("warning", f"{name} cannot take over: it has no known price, which the budget needs.")
            continue
        partial.discard(state, error)
        state.journal.notify("warning", f"{down} is unavailable; {name} takes over. {error}")
        change(state, model, str(error))
        return True
    return False
