"""The question about a tool of an MCP server whose definition differs from the approved one.

A server can change a tool's description after a person has allowed it, and a model follows descriptions.
"""

from collections.abc import Callable, Mapping, Sequence

from sagent.lib.text import printable
from sagent.messages import ToolCall
from sagent.peer import Action
from sagent.plugins.mcp.tool import McpTool
from sagent.policy import Allow, Ask, Policy, Turn, Verdict
from sagent.tool import Effect, Workspace


class PinPolicy(Policy):
    """A policy that first asks about a tool whose definition has changed since its approval, whatever rule allows it.
    `free` is True if nothing is to be asked."""

    def __init__(self, inner: Policy, tools: Callable[[], Mapping[str, McpTool]], free: Callable[[], bool]) -> None:
        self._inner, self._tools, self._free = inner, tools, free

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Apply the inner policy if the tool is as it was approved."""
        verdict = await self._inner.before_tool(call, effect, workspace)
        tool = self._tools().get(call.name)
        if tool is None or self._free():
            return verdict
        match verdict:
            case Ask() | Allow(None):
                tool.note_judged(call.id)
                if not tool.changed:
                    return verdict
                assert tool.now is not None
                reason = (
                    f"The MCP server {tool.server} has changed its definition of {printable(tool.own)} since it was "
                    f"approved. It is now: {tool.now.shown}"
                )
                return Ask(reason, f"To approve it: sagent mcp approve {tool.server}")
            case _:
                return verdict

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        return await self._inner.after_turn(turn)
