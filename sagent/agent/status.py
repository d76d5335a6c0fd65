"""How an agent stands, at a glance."""

from typing import Literal

from sagent.context.breakdown import break_down
from sagent.engine.extension import Report
from sagent.engine.limits import limits_of
from sagent.engine.state import AgentState
from sagent.peer import Status


def status_of(state: AgentState, doing: Literal["idle", "working", "ended"]) -> Status:
    """An agent's status, by its engine's state and what it is doing."""
    context = state.context
    tokens = context.tokens()
    report = Report() if context.extension is None else context.extension.report()
    return Status(
        state.path,
        doing,
        f"{state.model.provider}/{state.model.id}",
        state.run.turns,
        tokens,
        context.effort or "",
        state.model_limits.window,
        state.ledger.spent(state.path),
        state.ledger.spent_below(state.path),
        tuple(job.status() for job in state.jobs.running()),
        break_down(context.system, context.specs, context.history, tokens),
        limits_of(state.limits),
        report.advisors,
    )
