"""Actions on a running agent: checked when requested, applied between two model calls."""

from sagent.context.compaction import find_cut
from sagent.cost.budget import Meter
from sagent.engine.compaction import compact_as_asked, tools_known
from sagent.engine.context import limits_of, with_limits
from sagent.engine.neighbours import Extension
from sagent.engine.state import AgentState, parse_effort
from sagent.errors import ModelError, SagentError, UsageError
from sagent.events import Switched
from sagent.messages import user
from sagent.model import Model, full_name
from sagent.peer import Action, Background, Cancel, Compact, Consult, Inject, Stop, Switch
from sagent.session.contents import SwitchedEntry


def check(state: AgentState, action: Action) -> None:
    """Raise UsageError for an impossible change."""
    match action:
        case Switch(model, effort, limits, advisor):
            if advisor is not None:
                _extension_to_change(state, advisor).plan(action)
            if effort is not None:
                parse_effort(effort)
            if limits is not None:
                with_limits(state.limits, limits)
            if model is not None:
                _check_model(state, state.neighbours.resolve(model))
        case Compact(drop=names) if names and "*" not in names:
            known = {name.lower() for name in tools_known(state)}
            if strangers := [name for name in names if name.lower() not in known]:
                raise UsageError(f"{state.path} has no tool {strangers[0]!r}; it has {', '.join(state.tools)}")
        case Consult() if state.context.extension is None:
            raise UsageError(f"{state.path} has no advisor: name one with --advisor, or switch to one")
        case _:
            pass


def apply(state: AgentState, action: Action) -> None:
    """Apply an Action to this agent; called between two model calls only."""
    match action:
        case Inject(message, moment):
            state.receive(message, moment)
        case Background(call_id):
            state.requested.background.add(call_id)
            state.inbox.nudge("now")
        case Switch():
            _switch(state, action)
        case Stop(reason):
            state.run.stop = reason or "stopped"
        case Compact(drop=(), clear=False):
            state.requested.compact = action  # it takes a model call
        case Compact():
            compact_as_asked(state, action)
        case Consult():
            _extend(state, action)
        case Cancel(call_id):
            state.requested.cancelled.add(call_id)
            state.inbox.nudge("now")
            _extend(state, action)


def apply_pending(state: AgentState) -> None:
    """Make the changes that were requested while a call was in flight."""
    pending, state.requested.actions = state.requested.actions, []
    for action in pending:
        try:
            apply(state, action)
        except (SagentError, OSError) as error:  # it was checked when requested, which may be long ago
            state.journal.notify("warning", f"The change was not made: {error}")


def change(state: AgentState, model: Model | None, reason: str = "") -> None:
    """Let another model, or the same with another effort, answer from the next call on; `reason` is logged."""
    context = state.context
    if model is not None:
        context.proven = context.proven or (context.model, context.meter)
        context.model, context.meter = model, Meter()
    log_switch(state, reason)
    words = "".join(f", {name} {value}" for name, value in limits_of(state.limits).items())
    state.journal.emit(
        Switched(state.path, f"model {full_name(state.model)}, effort {context.effort or 'default'}{words}")
    )


def log_switch(state: AgentState, reason: str = "") -> None:
    """Record which model answers from here on, with which effort and limits."""
    effort, limits = state.context.effort or "", limits_of(state.limits)
    state.journal.record(SwitchedEntry(full_name(state.model), effort, limits, reason=reason))


def change_back(state: AgentState, error: ModelError) -> bool:
    """Return to the model before the last switch, if its successor has not answered yet."""
    context = state.context
    if context.proven is None:
        return False
    context.model, context.meter = context.proven
    context.proven = None
    text = f"the switch was undone: {error}"
    state.journal.notify("warning", text)
    change(state, None, text)
    state.add(user(text, sender="sagent"))
    return True


def _switch(state: AgentState, switch: Switch) -> None:
    model = state.neighbours.resolve(switch.model) if switch.model is not None else None
    if switch.effort is not None:
        state.context.effort = parse_effort(switch.effort)
    if switch.limits is not None:
        state.context.limits = with_limits(state.limits, switch.limits)
    if switch.advisor is not None:
        _extension_to_change(state, switch.advisor).plan(switch)()
    if switch.model is not None or switch.effort is not None or switch.limits is not None:
        change(state, model)


def _check_model(state: AgentState, model: Model) -> None:
    """Check that a model could take over this conversation."""
    window = state.neighbours.sizes(model).window
    size = state.context.meter.estimate(model.max_input_tokens(state.context.request()))
    cut = find_cut(state.context.history, (window or 0) // 2, state.above)
    if window is not None and size >= window and cut is None:
        raise UsageError(
            f"{model.provider}/{model.id} cannot take over: the conversation holds about {size:,} tokens, "
            f"its window {window:,}. Make the context smaller first."
        )
    if state.ledger.cap_of(state.path) is not None and state.ledger.prices.ceiling(model.provider, model.id) is None:
        raise UsageError(f"{model.provider}/{model.id} has no known price, so the budget could not be kept")


def _extend(state: AgentState, action: Action) -> None:
    """Apply the extension's part of an action, if there is an extension."""
    if state.context.extension is not None:
        state.context.extension.plan(action)()


def _extension_to_change(state: AgentState, change: str) -> Extension:
    """Return the agent's advisors; if it has none yet, new ones, which it gets with the change."""
    extension = state.context.extension or state.neighbours.extension()
    if extension is None:
        raise UsageError(f"{state.path} cannot have advisors ({change!r}): it was made without Resources.advisory")
    return extension
