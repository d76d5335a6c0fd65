"""Room in a context before it is full: stubs first, which cost nothing, then a summary."""

from dataclasses import replace
from pathlib import Path

from sagent.context.compaction import (
    Cut,
    advice_in,
    compose,
    edited,
    find_cut,
    instruction,
    is_summary,
    size_of,
    sum_up,
)
from sagent.context.stubs import shrink
from sagent.engine.side_call import make_side_call
from sagent.engine.state import AgentState
from sagent.errors import BudgetExceeded, ModelError
from sagent.events import Notice
from sagent.lib.money import ZERO
from sagent.messages import user
from sagent.model import Model, input_budget
from sagent.session.contents import Compacted
from sagent.session.folds import compact
from sagent.usage import Saving, Usage

ROLE = "compactor"
ENOUGH = 0.6  # of what is allowed: stubs that come so far are enough
RECENT = 0.15  # of the usable window: the last turns, that stay whole
SHARE = 0.3  # of a conversation that these are at most
SUMMARY = 8_192  # tokens that a summary may have
FILES, FILE_BYTES = 3, 8_000  # that are being edited and are shown again, and how much of each
BYTES = 3  # of a conversation to a token, about


def fill(state: AgentState) -> float:
    """How full the usable window is, 0 to 1; 0 where nobody knows the window."""
    usable = input_budget(state.model_limits)
    return state.meter.estimate(state.model.max_input_tokens(state.request())) / usable if usable else 0.0


async def keep_room(state: AgentState) -> None:
    """Before a model call: the compaction that was asked for, or one that is due. One that did not help is not tried
    again before the conversation has grown."""
    wanted, state.compact_wanted = state.compact_wanted, None
    if wanted is not None:
        await make_room(state, "asked for", wanted.hints, summarise=True)
    elif 0 < state.limits.compact_at <= fill(state) and len(state.history) != state.cramped:
        await make_room(state, "full")
        state.cramped = len(state.history)


async def make_room(state: AgentState, reason: str, hints: str = "", *, summarise: bool = False) -> None:
    """Make the context smaller: stubs for old results, and where these do not suffice, or with `summarise`, a summary
    of all but the last turns. Whatever fails, the requests and the last turns stay."""
    before = state.meter.estimate(state.model.max_input_tokens(state.request()))
    usable = input_budget(state.model_limits) or before
    spent = state.ledger.cost().by_role.get(ROLE, ZERO)
    stubbed = 0
    if not summarise:
        stubbed = _stub(state, before, int(usable * ENOUGH * state.limits.compact_at), reason)
        after = state.meter.estimate(state.model.max_input_tokens(state.request()))
        if stubbed and after <= usable * state.limits.compact_at * ENOUGH * 1.1:
            _tell(state, before, after, f"{stubbed} tool results gave way to stubs")
            return
    cut = find_cut(state.history, _recent(state), state.path.rpartition("/")[0])
    if cut is None:
        stubbed = stubbed or _stub(state, before, 0, reason)
        if stubbed:
            _tell(
                state, before, state.meter.estimate(state.model.max_input_tokens(state.request())), f"{stubbed} stubs"
            )
        return
    written = await _summary(state, cut, hints)
    _replace(state, cut, written or sum_up(state.history[: cut.place]), before, reason)
    after = state.meter.estimate(state.model.max_input_tokens(state.request()))
    cost = state.ledger.cost().by_role.get(ROLE, ZERO) - spent
    how = f"{cut.place - len(cut.requests)} messages were summed up"
    if written is None:
        how += " by code, for no model gave a usable summary"
    _tell(state, before, after, f"{how}, for {cost:.6f} USD")


def cut_short(state: AgentState, reason: str) -> bool:
    """The same at once and without a model, where a request does not fit. False where nothing can go."""
    before = state.meter.estimate(state.model.max_input_tokens(state.request()))
    cut = find_cut(state.history, _recent(state), state.path.rpartition("/")[0])
    if cut is None:
        return False
    _replace(state, cut, sum_up(state.history[: cut.place]), before, reason)
    after = state.meter.estimate(state.model.max_input_tokens(state.request()))
    _tell(state, before, after, f"{cut.place - len(cut.requests)} messages were summed up by code")
    return True


def saving(state: AgentState) -> Saving:
    """What compactions have saved so far."""
    if not state.compactions:
        return Saving()
    read = state.ledger.prices.price(state.model.provider, state.model.id, Usage(cache_read=state.saved))
    _, paid = state.ledger.billed(ROLE)
    return Saving(state.compactions, state.saved, None if read is None or paid is None else read - paid)


def can_cut(state: AgentState) -> bool:
    """Whether something of the conversation can be summed up."""
    return find_cut(state.history, _recent(state), state.path.rpartition("/")[0]) is not None


def _recent(state: AgentState) -> int:
    """Bytes of the last turns that stay."""
    own, usable = sum(map(size_of, state.history)), input_budget(state.model_limits)
    most = int(own * SHARE)
    return most if usable is None else min(most, int(usable * RECENT * BYTES))


def _stub(state: AgentState, before: int, target: int, reason: str) -> int:
    """Put stubs in the place of old results, all in one go so that the prefix changes once; how many."""
    weight = state.model.max_input_tokens(state.request())
    try:
        stubs = shrink(state.history, weight * (before - target) // max(before, 1), state.log.blobs)
    except OSError as error:
        state.emit(Notice(state.path, "warning", f"The context cannot be made smaller by stubs: {error}"))
        return 0
    if stubs:
        stubs = tuple(stubs)
        compact(state.history, Compacted(stubs, before, before, reason))
        state.meter.shrunk = True
        after = before * state.model.max_input_tokens(state.request()) // max(weight, 1)
        state.removed += before - after
        state.record(Compacted(stubs, before, after, reason))
    return len(stubs)


async def _summary(state: AgentState, cut: Cut, hints: str) -> str | None:
    """What a model makes of the conversation up to the cut; None where none gives what was asked for in two tries."""
    own = replace(state.request(), messages=state.history[: cut.place])
    model = _who(state)
    request = replace(
        own,
        conversation=f"{own.conversation}:{ROLE}",
        messages=(*own.messages, user(instruction(hints), sender="sagent")),
        max_output=SUMMARY,
        output_schema=None,
    )
    for _ in range(2):
        try:
            reply, _ = await make_side_call(state, model, request, ROLE, lambda _: None)
        except (ModelError, BudgetExceeded) as error:
            state.emit(Notice(state.path, "warning", f"No summary from {model.provider}/{model.id}: {error}"))
            return None
        if reply.message.stop == "end" and is_summary(reply.message.content):
            return reply.message.content
    return None


def _who(state: AgentState) -> Model:
    """Who sums up: who is set for that; the model before a switch, where its successor cannot read so much."""
    if state.compactor is not None:
        return state.compactor
    return state.proven[0] if state.proven is not None and fill(state) >= 1 else state.model


def _replace(state: AgentState, cut: Cut, summary: str, before: int, reason: str) -> None:
    """Put the summary in the place of what was cut, in memory and in the log."""
    gone = state.history[: cut.place]
    contents = [(path, text) for path in edited(state.history, FILES) if (text := _content(state, path)) is not None]
    text = compose(summary, advice_in(gone), contents)
    kept = cut.kept(state.history)
    weight = state.model.max_input_tokens(state.request())
    entry = Compacted((), before, before, reason, tuple(kept), (len(cut.requests), text))
    compact(state.history, entry)
    state.meter.shrunk = True
    after = before * state.model.max_input_tokens(state.request()) // max(weight, 1)
    state.removed += max(0, before - after)
    state.record(replace(entry, after=after))


def _content(state: AgentState, path: str) -> str | None:
    """A file as it is, where it is text and not long."""
    try:
        place = Path(state.workspace.cwd, path)
        data = place.read_bytes()
        return data.decode() if len(data) <= FILE_BYTES else None
    except (OSError, ValueError):
        return None


def _tell(state: AgentState, before: int, after: int, how: str) -> None:
    state.compactions += 1
    where = "; the log has all of it" if state.log.path else ""
    text = f"The context was made smaller, from about {before:,} tokens to {after:,}: {how}{where}."
    state.emit(Notice(state.path, "info", text))
