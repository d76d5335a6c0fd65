"""What may be done to an agent while it runs: checked where it is asked for, made between two model calls."""

from collections.abc import Sequence
from dataclasses import replace

from sagent.context.compaction import find_cut
from sagent.context.stubs import drop
from sagent.engine.limits import limits_of, with_limits
from sagent.engine.meter import Meter
from sagent.engine.state import AgentState, parse_effort
from sagent.errors import ModelError, UsageError
from sagent.events import Notice, Switched
from sagent.messages import Message, user
from sagent.model import Model
from sagent.peer import Action, Background, Cancel, Compact, Consult, Inject, Stop, Switch
from sagent.policy.advisory import Advisory
from sagent.session.contents import Compacted, SwitchedEntry
from sagent.session.folds import compact

CLEARED = "The conversation was cleared, as asked; only the last request is left of it. Go on from there."


def apply(state: AgentState, action: Action) -> None:
    """Do to this agent what an Action says; called between two model calls only."""
    match action:
        case Inject(message, moment):
            state.receive(message, moment)
        case Background(call_id):
            state.background.add(call_id)
            state.inbox.nudge("now")
        case Switch():
            _switch(state, action)
        case Stop(reason):
            state.run.stop = reason or "stopped"
        case Compact(drop=(), clear=False):
            state.compact_wanted = action  # it takes a model call
        case Compact():
            _compact(state, action)
        case Consult(question, advisor):
            state.consult(question, advisor)
        case Cancel(call_id):
            state.cancelled.add(call_id)
            state.inbox.nudge("now")
            if state.advisory is not None and not call_id:
                state.advisory.cancel()


def check(state: AgentState, action: Action) -> None:
    """Raise UsageError for a change that cannot be made."""
    match action:
        case Switch(model, effort, limits, advisor):
            if advisor is not None:
                _advisory_to_change(state, advisor).check(advisor)
            if effort is not None:
                parse_effort(effort)
            if limits is not None:
                with_limits(state.limits, limits)
            if model is not None:
                _check_model(state, _resolved(state, model))
        case Compact(drop=names) if names and "*" not in names:
            known = {name.lower() for name in _tools_known(state)}
            if strangers := [name for name in names if name.lower() not in known]:
                raise UsageError(f"{state.path} has no tool {strangers[0]!r}; it has {', '.join(state.tools)}")
        case Consult() if state.advisory is None:
            raise UsageError(f"{state.path} has no advisor: name one with --advisor, or switch to one")
        case _:
            pass


def change(state: AgentState, model: Model | None, reason: str = "") -> None:
    """Let another model, or the same with another effort, answer from the next call on; `reason` is logged."""
    if model is not None:
        state.proven = state.proven or (state.model, state.meter)
        state.model, state.meter = model, Meter()
    name = f"{state.model.provider}/{state.model.id}"
    limits = limits_of(state.limits)
    state.record(SwitchedEntry(name, state.effort or "", limits, reason=reason))
    told = "".join(f", {name} {value}" for name, value in limits.items())
    state.emit(Switched(state.path, f"model {name}, effort {state.effort or 'default'}{told}"))


def change_back(state: AgentState, error: ModelError) -> bool:
    """Let the model answer again that did before the last switch, where its successor has not answered yet."""
    if state.proven is None:
        return False
    state.model, state.meter = state.proven
    state.proven = None
    text = f"the switch was taken back: {error}"
    state.emit(Notice(state.path, "warning", text))
    change(state, None, text)
    state.add(user(text, sender="sagent"))
    return True


def rewound(state: AgentState) -> None:
    """Forget what was known of a history that is no longer this agent's."""
    state.meter, state.proven, state.prompt_id, state.cramped = Meter(), None, "", -1
    state.handoffs.clear()
    if state.advisory is not None:
        state.advisory.forget()


def _switch(state: AgentState, switch: Switch) -> None:
    model = _resolved(state, switch.model) if switch.model is not None else None
    if switch.effort is not None:
        state.effort = parse_effort(switch.effort)
    if switch.limits is not None:
        state.limits = with_limits(state.limits, switch.limits)
    if switch.advisor is not None:
        advisory = _advisory_to_change(state, switch.advisor)
        what = advisory.switch(switch.advisor)
        state.advised_by(advisory)
        state.record(SwitchedEntry(advisor=what))
        state.emit(Switched(state.path, what))
    if switch.model is not None or switch.effort is not None or switch.limits is not None:
        change(state, model)


def _compact(state: AgentState, order: Compact) -> None:
    """Make the context smaller as ordered, and say by how much. Raises OSError: then nothing has changed."""
    before = state.meter.estimate(state.model.max_input_tokens(state.request()))
    kept = _last_request(state.history, state.path.rpartition("/")[0])
    if order.clear:
        entry = Compacted((), before, before, "asked for", tuple(kept))
    else:
        wanted = {name.lower() for name in order.drop}
        names = {name for name in _tools_known(state) if name.lower() in wanted} | (wanted & {"*"})
        entry = Compacted(tuple(drop(state.history, names, state.log.blobs)), before, before, "asked for")
    compact(state.history, entry)
    state.meter.shrunk = True
    after = state.meter.estimate(state.model.max_input_tokens(state.request()))
    state.record(replace(entry, after=after))
    if order.clear and kept:
        state.add(user(CLEARED, sender="sagent"))
        for advice in state.advisory.in_force() if state.advisory is not None else ():
            state.add(advice)
    state.emit(Notice(state.path, "info", f"The context was made smaller, from about {before:,} tokens to {after:,}."))


def _check_model(state: AgentState, model: Model) -> None:
    """That a model could take over this conversation."""
    window = (state.listed(model) if state.listed else model.limits).window
    size = state.meter.estimate(model.max_input_tokens(state.request()))
    cut = find_cut(state.history, (window or 0) // 2, state.path.rpartition("/")[0])
    if window is not None and size >= window and cut is None:
        raise UsageError(
            f"{model.provider}/{model.id} cannot take over: the conversation holds about {size:,} tokens, "
            f"its window {window:,}. Make the context smaller first."
        )
    if state.ledger.cap_of(state.path) is not None and state.ledger.prices.ceiling(model.provider, model.id) is None:
        raise UsageError(f"{model.provider}/{model.id} has no known price, so the cap on spending could not be kept")


def _advisory_to_change(state: AgentState, change: str) -> Advisory:
    """Its advisors; where it has none yet, new ones, which are its own when the change is made."""
    if state.advisory is not None:
        return state.advisory
    if state.advise is None:
        raise UsageError(f"{state.path} cannot have advisors ({change!r}): it was made without Resources.advisory")
    state.unused = state.unused or state.advise()
    return state.unused


def _resolved(state: AgentState, name: str) -> Model:
    if state.resolve is None:
        raise UsageError(f"{name} cannot be used: this agent has only {state.model.provider}/{state.model.id}")
    return state.resolve(name)


def _tools_known(state: AgentState) -> set[str]:
    """Those it has, and those whose results are in the history."""
    return {*state.tools, *(call.name for message in state.history for call in message.calls)}


def _last_request(history: Sequence[Message], above: str) -> tuple[int, ...]:
    """The places that stay when a conversation is cleared: the last request of a person or of the agent above, with
    what sagent added to it, and the calls that are still open. A request that was answered need not stay."""
    last = history[-1] if history else None
    if last is None or (last.role == "assistant" and not last.calls and last.stop != "interrupted"):
        return ()
    asked = [place for place, message in enumerate(history) if message.role == "user" and not message.results]
    own = [place for place in asked if history[place].sender in ("", above)] or asked[-1:]
    added = [place for place in asked if place > own[-1] and history[place].sender == "sagent"] if own else []
    return (*own[-1:], *added, *([len(history) - 1] if last.calls else []))
