"""The loop: drain the inbox, call the model, run its tools, again until neither has more to say.

The program counter is the state. Nothing else lives here.
"""

from sagent.engine.actions import apply, apply_pending
from sagent.engine.call import call_model
from sagent.engine.dispatch import decline_calls, run_calls
from sagent.engine.inbox import Arrived
from sagent.engine.state import AgentState
from sagent.messages import user
from sagent.policy import Turn


async def take_turn(state: AgentState) -> str:
    """Work until there is nothing left to do; returns why it ended. A cancelled turn leaves a valid history."""
    while True:
        apply_pending(state)
        for arrived in state.inbox.take():
            _admit(state, arrived)
        if state.run.stop:
            return state.run.stop
        if state.run.turns == state.limits.max_turns:
            return "max_turns"

        reply = await call_model(state)
        state.run.turns += 1

        results = None
        if reply.calls:
            if state.run.rounds == state.limits.max_tool_call_rounds:
                decline_calls(state, reply, f"not run: the limit of {state.run.rounds} tool call rounds is reached")
                return "max_tool_call_rounds"
            results = await run_calls(state, reply)
            state.run.rounds += 1

        for action in await state.policy.after_turn(Turn(state.path, reply, results)):
            apply(state, action)

        if results is None and reply.stop != "pause":
            late = await _rest(state)
            if not late:
                return state.run.stop or reply.stop or "end"
            for arrived in late:
                _admit(state, arrived)


def _admit(state: AgentState, arrived: Arrived) -> None:
    """Let a message from the inbox enter the history. The agent above learns of the turn in any case."""
    sender = arrived.message.sender
    if arrived.answer and sender not in state.run.askers and sender != state.above:
        state.run.askers.append(sender)
    state.add(arrived.message, arrived.entry)


async def _rest(state: AgentState) -> list[Arrived]:
    """What is to be read when the turn would end. A run that waits for its jobs ends when there are none.

    Whoever asked something has the answer now.
    """
    if state.run.askers:
        said = state.context.history[-1].content
        state.answer_askers(user(f"{state.path} has answered:\n{said}", sender=state.path))
    while True:
        apply_pending(state)
        late = [] if state.run.stop else state.inbox.take(idle=True)
        awaited = state.limits.wait_for_jobs and (state.jobs.running() or state.neighbours.busy)
        if late or state.run.stop or not awaited:
            return late
        await state.inbox.arrival()
