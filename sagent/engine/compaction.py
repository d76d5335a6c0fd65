"""A context made smaller: stubs first, which cost nothing, then a summary; or what was asked for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sagent.context.compaction import (
    Cut,
    advice_in,
    compose,
    edited_files,
    find_cut,
    instruction,
    is_summary,
    last_request,
    size_of,
    sum_up,
)
from sagent.context.stubs import Stub, drop, shrink
from sagent.engine.request import BYTES, make_side_call
from sagent.engine.state import AgentState
from sagent.errors import BudgetExceeded, ModelError
from sagent.lib.money import ZERO
from sagent.messages import user
from sagent.model import input_budget
from sagent.peer import Compact
from sagent.session.contents import Compacted

ROLE = "compactor"
ENOUGH = 0.6  # of what is allowed: stubs that come so far are enough
RECENT = 0.15  # of the usable window: the last turns, that stay whole
SHARE = 0.3  # of a conversation that these are at most
SUMMARY = 8_192  # tokens that a summary may have
CLEARED = "The conversation was cleared, as asked; only the last request is left of it. Go on from there."


def fill(state: AgentState) -> float:
    """How full the usable window is, 0 to 1; 0 where nobody knows the window."""
    usable = input_budget(state.model_limits)
    return state.context.tokens() / usable if usable else 0.0


async def keep_room(state: AgentState) -> None:
    """Before a model call: the compaction that was asked for, or one that is due. One that did not help is not tried
    again before the conversation has grown."""
    wanted, state.wishes.compact = state.wishes.compact, None
    if wanted is not None:
        await make_room(state, "asked for", wanted.hints, summarise=True)
    elif 0 < state.limits.compact_at <= fill(state) and len(state.context.history) != state.context.cramped:
        await make_room(state, "full")
        state.context.cramped = len(state.context.history)


async def make_room(state: AgentState, reason: str, hints: str = "", *, summarise: bool = False) -> None:
    """Make the context smaller: stubs for old results, and where these do not suffice, or with `summarise`, a summary
    of all but the last turns. Whatever fails, the requests and the last turns stay."""
    before = state.context.tokens()
    usable = input_budget(state.model_limits) or before
    spent = state.ledger.cost().by_role.get(ROLE, ZERO)
    stubbed = None
    if not summarise:
        stubbed = stub(state, before, int(usable * ENOUGH * state.limits.compact_at), reason)
        after = state.context.tokens()
        if stubbed and after <= usable * state.limits.compact_at * ENOUGH * 1.1:
            _notify(state, before, f"{stubbed.results} tool results gave way to stubs")
            return
    cut = possible_cut(state)
    if cut is None:
        stubbed = stubbed or stub(state, before, 0, reason)
        if stubbed:
            _notify(state, before, f"{stubbed.results} stubs")
        return
    written = await _summary(state, cut, hints)
    _sum_up(state, cut, written, before, reason)
    cost = state.ledger.cost().by_role.get(ROLE, ZERO) - spent
    how = f"{cut.place - len(cut.requests)} messages were summed up"
    if written is None:
        how += " by code, for no model gave a usable summary"
    _notify(state, before, f"{how}, for {cost:.6f} USD")


def cut_short(state: AgentState, reason: str) -> bool:
    """The same at once and without a model, where a request does not fit. False where nothing can go."""
    before = state.context.tokens()
    cut = possible_cut(state)
    if cut is None:
        return False
    _sum_up(state, cut, None, before, reason)
    _notify(state, before, f"{cut.place - len(cut.requests)} messages were summed up by code")
    return True


def compact_as_asked(state: AgentState, wanted: Compact) -> None:
    """Drop results, or clear the conversation, and say how much smaller it is. Raises OSError: then nothing has
    changed."""
    context, before = state.context, state.context.tokens()
    kept = last_request(context.history, state.above)
    if wanted.clear:
        _replace(state, "asked for", before, kept=kept)
    else:
        names = {name.lower() for name in wanted.drop}
        names = {name for name in tools_known(state) if name.lower() in names} | (names & {"*"})
        _replace(state, "asked for", before, stubs=drop(context.history, names, state.log.blobs))
    after = context.tokens()
    if wanted.clear and kept:
        state.add(user(CLEARED, sender="sagent"))
        if context.extension is not None:
            context.extension.plan(wanted)()
    state.journal.notify("info", f"The context was made smaller, from about {before:,} tokens to {after:,}.")


def tools_known(state: AgentState) -> set[str]:
    """Those it has, and those whose results are in the history."""
    return {*state.tools, *(call.name for message in state.context.history for call in message.calls)}


def possible_cut(state: AgentState) -> Cut | None:
    """Up to where the conversation can be summed up, so that the last turns stay; None where nothing can go."""
    history, usable = state.context.history, input_budget(state.model_limits)
    recent = int(sum(map(size_of, history)) * SHARE)
    return find_cut(history, recent if usable is None else min(recent, int(usable * RECENT * BYTES)), state.above)


class Stubbed(NamedTuple):
    """How many results gave way to stubs, and the tokens that are left, about."""

    results: int
    after: int


def stub(state: AgentState, before: int, target: int, reason: str) -> Stubbed | None:
    """Put stubs in the place of old results, all in one go so that the prefix changes once; None where nothing went."""
    context = state.context
    try:
        need = context.max_input_tokens() * (before - target) // max(before, 1)
        stubs = shrink(context.history, need, state.log.blobs)
    except OSError as error:
        state.journal.notify("warning", f"The context cannot be made smaller: {error}")
        return None
    if not stubs:
        return None
    after = _replace(state, reason, before, stubs=stubs)
    context.removed += max(0, before - after)
    return Stubbed(len(stubs), after)


async def _summary(state: AgentState, cut: Cut, hints: str) -> str | None:
    """What a model makes of the conversation up to the cut; None where none gives what was asked for in two tries."""
    own = replace(state.context.request(), messages=state.context.history[: cut.place])
    model, proven = state.compactor or state.model, state.context.proven
    if state.compactor is None and proven is not None and fill(state) >= 1:
        model = proven[0]  # from before a switch, whose successor cannot read so much
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
            state.journal.notify("warning", f"No summary from {model.provider}/{model.id}: {error}")
            return None
        if reply.message.stop == "end" and is_summary(reply.message.content):
            return reply.message.content
    return None


def _sum_up(state: AgentState, cut: Cut, summary: str | None, before: int, reason: str) -> None:
    """Put a summary, by code where there is no other, in the place of what was cut."""
    history = state.context.history
    gone = history[: cut.place]
    contents = edited_files(history, state.workspace.cwd)
    text = compose(summary or sum_up(gone), advice_in(gone), contents)
    after = _replace(state, reason, before, kept=cut.kept(history), summary=(len(cut.requests), text))
    state.context.removed += max(0, before - after)


def _replace(
    state: AgentState,
    reason: str,
    before: int,
    *,
    stubs: Sequence[Stub] = (),
    kept: Sequence[int] | None = None,
    summary: tuple[int, str] | None = None,
) -> int:
    """Have something smaller in the history, in memory and in the log; the tokens that are left, about."""
    context = state.context
    max_input = context.max_input_tokens()
    entry = Compacted(tuple(stubs), before, before, reason, None if kept is None else tuple(kept), summary)
    context.replace(entry)
    after = before * context.max_input_tokens() // max(max_input, 1)
    state.journal.record(replace(entry, after=after))
    return after


def _notify(state: AgentState, before: int, how: str) -> None:
    state.context.compactions += 1
    where = "; the log has all of it" if state.log.path else ""
    after = state.context.tokens()
    text = f"The context was made smaller, from about {before:,} tokens to {after:,}: {how}{where}."
    state.journal.notify("info", text)
