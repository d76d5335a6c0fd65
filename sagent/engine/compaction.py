"""Makes a context smaller, as `context/compaction.py` decides: when it is nearly full, when a request did not fit, or
on request. It calls the summarizing model, and logs the changes."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from sagent.context.compaction import (
    MAX_SUMMARY_TOKENS,
    MIN_SUMMARY_TOKENS,
    STUBBED_SHARE,
    Change,
    RemovableParts,
    drop,
    forget_files,
    instruction,
    is_summary,
    keep_transcript,
    last_request,
)
from sagent.cost.budget import Meter
from sagent.engine.request import make_side_call
from sagent.engine.state import AgentState
from sagent.errors import BudgetExceeded, ModelError, SagentError
from sagent.lib.json import EMPTY
from sagent.messages import Message, user
from sagent.model import Model, input_budget
from sagent.peer import Compact
from sagent.session.contents import COMPACTOR, Compacted

CLEARED = "The conversation was cleared, as asked; only the last request is left of it. Go on from there."


def fill(state: AgentState) -> float:
    """Return the filled share of the usable window, 0 to 1; 0 if the window is unknown."""
    usable = input_budget(state.model_limits)
    return state.context.tokens() / usable if usable else 0.0


async def keep_room(state: AgentState) -> None:
    """Before a model call, make the compaction that was requested or is due. After one that did not help, wait until
    the conversation has grown."""
    wanted, state.requested.compact = state.requested.compact, None
    if wanted is not None:
        await make_room(state, "asked for", wanted.hints, summarise=True)
    elif 0 < state.limits.compact_at <= fill(state) and len(state.context.history) != state.context.compacted_length:
        await make_room(state, "full")
        state.context.compacted_length = len(state.context.history)


async def make_room(state: AgentState, reason: str, hints: str = "", *, summarise: bool = False) -> None:
    """Make the context smaller: replace old results by stubs or, if that is not enough or with `summarise`, summarize
    all but the last turns. Requests and last turns stay, whatever fails."""
    before = state.context.tokens()
    hints = await state.neighbours.before_compaction(reason, hints)
    target = int((input_budget(state.model_limits) or before) * state.limits.compact_at * STUBBED_SHARE)
    outlook = removable_parts(state)
    if outlook.cut is None or not (summarise or outlook.needs_summary(target)):
        if stubbed := stub(state, before, 0 if summarise else target, reason):
            _notify(state, before, f"{stubbed} tool results and attachments were replaced by stubs")
    else:
        _, paid = state.ledger.billed(COMPACTOR)
        how = f"{len(outlook.gone)} messages were summarized"
        written = await _summary(state, hints)
        _sum_up(state, outlook, written, before, reason)
        _, now = state.ledger.billed(COMPACTOR)
        usd = "an unknown price" if paid is None or now is None else f"${now - paid:.6f}"
        how += "" if written else " by code, as no model gave a usable summary"
        _notify(state, before, f"{how}, for {usd}")
    if fill(state) >= 1 and (cut_short(state, reason) is False or fill(state) >= 1):
        stub(state, state.context.tokens(), target, reason)


def cut_short(state: AgentState, reason: str) -> bool:
    """Summarize at once without a model, because a request does not fit. Return False if nothing can be left out."""
    before, outlook = state.context.tokens(), removable_parts(state)
    if outlook.cut is None:
        return False
    _sum_up(state, outlook, None, before, reason)
    _notify(state, before, "the conversation before the last turns was summarized by code")
    return True


def compact_as_asked(state: AgentState, request: Compact) -> None:
    """Drop results, or clear the conversation, and report its size. After an OSError nothing has changed."""
    context, before, where = state.context, state.context.tokens(), ""
    kept = last_request(context.history, state.above)
    if request.clear:
        where = _keep(state, context.history) if kept else ""
        _replace(state, "asked for", before, Change(kept=kept))
        forget_files(context.history, state.workspace)
    else:
        names = {name.lower() for name in request.drop}
        names = {name for name in tools_known(state) if name.lower() in names} | (names & {"*"})
        _replace(state, "asked for", before, Change(drop(context.history, names, state.log.blobs)))
    after = context.tokens()
    if request.clear and kept:
        state.add(user(f"{CLEARED} What went is kept in {where}." if where else CLEARED, sender="sagent"))
        if context.extension is not None:
            context.extension.plan(request)()
    state.journal.notify("info", f"The context went from about {before:,} tokens to {after:,}.")


def tools_known(state: AgentState) -> set[str]:
    """Return the agent's tools, and those whose results are in the history."""
    return {*state.tools, *(call.name for message in state.context.history for call in message.calls)}


def removable_parts(state: AgentState) -> RemovableParts:
    """Return what of the agent's conversation can go."""
    context, usable = state.context, input_budget(state.model_limits)
    return RemovableParts(context.history, state.above, context.tokens(), context.max_input_tokens(), usable)


def stub(state: AgentState, before: int, target: int, reason: str) -> int:
    """Replace old results and attachments by stubs; returns how many."""
    try:
        stubs = removable_parts(state).stubs(before, target, state.log.blobs)
    except OSError as error:
        state.journal.notify("warning", f"The context cannot be made smaller: {error}")
        return 0
    if stubs:
        _replace(state, reason, before, Change(stubs))
    return len(stubs)


async def _summary(state: AgentState, hints: str) -> str | None:
    """Return a model's summary of the conversation; None if there is no usable one after two tries.

    The request is the next one with one more message, so nearly all of it is read from the cache.
    """
    reader = _reader(state)
    if reader is None:
        state.journal.notify("warning", "No summary: no available model has room for the conversation.")
        return None
    model, meter, most = reader
    own = state.context.request()
    request = replace(
        own,
        conversation=f"{own.conversation}:{COMPACTOR}",
        messages=(*own.messages, user(instruction(hints), sender="sagent")),
        max_output=most,
        output_schema=None,
        options=own.options if model.provider == state.model.provider else EMPTY,
    )
    for last in (False, True):
        try:
            reply, _ = await make_side_call(state, model, request, COMPACTOR, lambda _: None, meter)
        except (ModelError, BudgetExceeded) as error:
            if error.kind == "cut" and not last:
                continue
            state.journal.notify("warning", f"No summary from {model.provider}/{model.id}: {error}")
            return None
        if reply.message.stop == "end" and is_summary(reply.message.content):
            return reply.message.content
    return None


def _reader(state: AgentState) -> tuple[Model, Meter | None, int] | None:
    """Return the first model that can read all of it, its meter, and the number of tokens it may write."""
    size = state.context.tokens()
    for model, meter in _readers(state):
        limits = state.model_limits if model is state.model else state.neighbours.sizes(model)
        room = MAX_SUMMARY_TOKENS if limits.window is None else limits.window - size - size // 8
        if room >= MIN_SUMMARY_TOKENS:
            return model, meter, min(MAX_SUMMARY_TOKENS, limits.max_output or MAX_SUMMARY_TOKENS, room)
    return None


def _readers(state: AgentState) -> Iterator[tuple[Model, Meter | None]]:
    """Yield the models that may summarize: the compactor, the current one, the earlier ones."""
    context = state.context
    if state.compactor is not None:
        yield state.compactor, None
    yield context.model, context.meter
    if context.proven is not None:
        yield context.proven
    for name in dict.fromkeys(message.model for message in reversed(context.history) if message.model):
        with suppress(SagentError):
            yield state.neighbours.resolve(name), None


def _sum_up(state: AgentState, outlook: RemovableParts, summary: str | None, before: int, reason: str) -> None:
    """Replace the cut part by a summary, built by code if there is no other."""
    where = _keep(state, outlook.gone)
    _replace(state, reason, before, outlook.summed_up(summary, where, state.workspace.cwd))


def _keep(state: AgentState, messages: Sequence[Message]) -> str:
    """Save the cut part to a file that the model can read; return its path, "" if that failed."""
    try:
        return keep_transcript(messages, state.log.blobs)
    except OSError as error:
        state.journal.notify("warning", f"What was cut could not be saved to a file: {error}")
        return ""


def _replace(state: AgentState, reason: str, before: int, change: Change) -> None:
    """Make the history smaller, in memory and in the log."""
    context = state.context
    max_input = context.max_input_tokens()
    entry = Compacted(tuple(change.stubs), before, before, reason, change.kept, change.summary, change.notes)
    context.replace(entry)
    after = before * context.max_input_tokens() // max(max_input, 1)
    state.journal.record(replace(entry, after=after))


def _notify(state: AgentState, before: int, how: str) -> None:
    where = "; the log has all of it" if state.log.path else ""
    text = f"The context went from about {before:,} tokens to {state.context.tokens():,}: {how}{where}."
    state.journal.notify("info", text)
