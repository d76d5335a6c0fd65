"""The loop: drain the inbox, call the model, run its tools, again until neither has more to say.

The program counter is the state. Nothing else lives here.
"""

from sagent.context.calls import end_of_cut
from sagent.engine.actions import apply, apply_pending
from sagent.engine.call import call_model
from sagent.engine.context import is_reached
from sagent.engine.dispatch import close_calls, run_calls
from sagent.engine.state import AgentState
from sagent.messages import user
from sagent.policy import Turn


async def take_turn(state: AgentState) -> str:
    """Work until there is nothing left to do; returns why it ended. A cancelled turn leaves a valid history."""
    while True:
        apply_pending(state)
        state.admit()
        if state.run.stop:
            return state.run.stop
        if is_reached(state.limits.max_turns, state.run.turns):
            return "max_turns"

        reply = await call_model(state)
        state.run.turns += 1

        results = None
        if reply.calls:
            if is_reached(state.limits.max_tool_call_rounds, state.run.rounds):
                close_calls(state, reply, f"not run: the limit of {state.run.rounds} tool call rounds is reached")
                return "max_tool_call_rounds"
            results = await run_calls(state, reply)
            state.run.rounds += 1
            state.run.cut_replies = 0 if any(call.whole for call in reply.calls) else state.run.cut_replies + 1

        for action in await state.policy.after_turn(Turn(state.path, reply, results)) or ():
            apply(state, action)

        if results and (ended := end_of_cut(reply, state.run.cut_replies)):
            return ended
        if results is None and reply.stop != "pause" and not await _has_more_to_read(state):
            return state.run.stop or reply.stop or "end"


async def _has_more_to_read(state: AgentState) -> bool:
    """Answer those who asked; return True if there is something to read when the turn would end. A run that waits for
    its jobs goes on until there are none."""
    said = state.context.history[-1].content
    state.answer_askers(user(f"{state.path} has answered:\n{said}", sender=state.path))
    while True:
        apply_pending(state)
        if state.run.stop:
            return False
        if state.admit(idle=True):
            return True
        if not (state.limits.wait_for_jobs and (state.jobs.running() or state.neighbours.busy)):
            return False
        await state.inbox.arrival()
