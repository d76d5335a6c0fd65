"""Calls that were open when their node stopped."""

from collections.abc import Callable

from sagent.agent import Agent
from sagent.engine.dispatch import close_calls, run_calls
from sagent.engine.state import AgentState
from sagent.errors import ToolError
from sagent.messages import Message, ToolCall, ToolResult
from sagent.tool import foresee

UNKNOWN = (
    "The outcome is unknown: this call was running on {node} when that stopped. It may have been carried out, in part "
    "or not at all. Look before you repeat it."
)
_SAFE = ("WebSearch", "NodeAgent", "AskUser", "ExitPlan")
"""Searches have no effect; a remote agent exists and is not begun twice; a person is asked again."""


def is_unfinished(agent: Agent) -> bool:
    """Return True if an agent was in a turn when its node stopped, by its log."""
    last = next(agent.state.log.contents().latest("message", "result", "failed"), None)
    history = agent.state.context.history
    is_open = bool(history) and (history[-1].role == "user" or bool(history[-1].calls))
    return is_open and last is not None and last.kind != "failed"


async def answer_open_calls(agent: Agent, node: str, may_have_run: Callable[[str, str], bool]) -> None:
    """Give every call of the last reply a result: calls that only read or had not begun, for instance during an
    approval, are repeated; for others the result says that the outcome is unknown. `node` is where they ran."""
    state, history = agent.state, agent.state.context.history
    known = {part.call_id: part for part in history[-1].parts if isinstance(part, ToolResult)} if history else {}
    reply = history[-2] if known and len(history) > 1 else history[-1] if history else Message("user", ())
    left = [call for call in reply.calls if call.id not in known]
    if not left:
        return
    if known:
        history.pop()
    again = tuple(call for call in left if _is_harmless(state, call) or not may_have_run(agent.path, call.id))
    rest = tuple(call for call in left if call not in again)
    if rest:
        known |= _taken(state, close_calls(state, Message("assistant", rest), UNKNOWN.format(node=node or "a node")))
    if again:
        known |= _taken(state, await run_calls(state, Message("assistant", again)))
    history.append(Message("user", tuple(known[call.id] for call in reply.calls)))


def _taken(state: AgentState, message: Message) -> dict[str, ToolResult]:
    """Remove the results of the history's last message and return them, because they become part of another message."""
    state.context.history.pop()
    return {part.call_id: part for part in message.parts if isinstance(part, ToolResult)}


def _is_harmless(state: AgentState, call: ToolCall) -> bool:
    tool = state.tools.get(call.name)
    if not call.whole:
        return True  # it is answered and never made
    if tool is None or call.malformed is not None:
        return False
    try:
        return foresee(tool, call.arguments, state.workspace).kind == "read" or call.name in _SAFE
    except (ToolError, ValueError, TypeError, KeyError):
        return False
