"""The loop: drain the inbox, call the model, run its tools, again until neither has more to say.

The program counter is the state. Nothing else lives here.
"""

from sagent.engine.actions import apply
from sagent.engine.call import call_model
from sagent.engine.dispatch import decline_calls, run_calls
from sagent.engine.pause import admit, arrivals, rest
from sagent.engine.state import AgentState
from sagent.policy import Turn


async def take_turn(state: AgentState) -> str:
    """Work until there is nothing left to do; returns why it ended. A cancelled turn leaves a valid history."""
    while True:
        for arrived in arrivals(state):
            admit(state, arrived)
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
            late = await rest(state)
            if not late:
                return state.run.stop or reply.stop or "end"
            for arrived in late:
                admit(state, arrived)
