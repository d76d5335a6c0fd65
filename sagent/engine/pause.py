"""Between two model calls: messages are read, changes are made, and whoever asked has the answer."""

from sagent.engine.actions import apply
from sagent.engine.inbox import Arrived
from sagent.engine.state import AgentState
from sagent.errors import SagentError
from sagent.events import Notice
from sagent.messages import Message, user


def arrivals(state: AgentState) -> list[Arrived]:
    """What is to be read before the next model call; changes that were asked for are made first."""
    apply_pending(state)
    return state.inbox.take()


def admit(state: AgentState, arrived: Arrived) -> None:
    """Let a message from the inbox enter the history. The agent above is told of the turn in any case."""
    sender = arrived.message.sender
    if arrived.answer and sender not in state.run.askers and sender != state.path.rpartition("/")[0]:
        state.run.askers.append(sender)
    state.add(arrived.message, arrived.entry)


async def rest(state: AgentState) -> list[Arrived]:
    """What is to be read when the turn would end. A run that waits for its jobs ends when there are none.

    Whoever asked something has the answer now.
    """
    if state.run.askers:
        answer_askers(state, user(f"{state.path} has answered:\n{state.history[-1].content}", sender=state.path))
    while True:
        apply_pending(state)
        late = [] if state.run.stop else state.inbox.take(idle=True)
        if late or state.run.stop or not state.limits.wait_for_jobs or not (state.jobs.running() or state.busy()):
            return late
        await state.inbox.arrival()


def apply_pending(state: AgentState) -> None:
    """Make the changes that were asked for while a call was in flight."""
    pending, state.pending = state.pending, []
    for action in pending:
        try:
            apply(state, action)
        except (SagentError, OSError) as error:  # it was checked when it was asked for; that may be long ago
            state.emit(Notice(state.path, "warning", f"What was asked for was not done: {error}"))


def answer_askers(state: AgentState, answer: Message) -> None:
    """Those whose messages were read get their answer."""
    askers, state.run.askers = state.run.askers, []
    for path in askers:
        state.tell(path, answer)
