"""An agent's conversation, taken over from its log or gone back in."""

from collections.abc import Sequence

from sagent.engine.context import Meter
from sagent.engine.state import AgentState
from sagent.errors import UsageError
from sagent.messages import Message
from sagent.session.contents import AdviceOutcome, AdviceRated, ConsultationEntry
from sagent.session.folds import branch_contents, history


def take_over(state: AgentState, messages: Sequence[Message]) -> None:
    """Go on from an earlier conversation."""
    context = state.context
    context.history = list(messages)
    if context.extension is not None and messages:
        context.extension.resume(branch_contents(state.log.contents(), ConsultationEntry, AdviceOutcome, AdviceRated))


def go_back(state: AgentState, entry: str) -> None:
    """Go on from an earlier entry of the log, of which nothing is known yet. Raises UsageError where there is none."""
    try:
        state.log.fork(entry)
    except ValueError as error:
        raise UsageError(str(error)) from error
    context = state.context
    context.history = list(history(state.log.contents(), state.log.blobs.get))
    context.meter, context.proven, context.cramped, state.prompt_id = Meter(), None, -1, ""
    if context.extension is not None:
        context.extension.resume(())
