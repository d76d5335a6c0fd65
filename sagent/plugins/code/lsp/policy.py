"""A policy around another: it reports the errors that changes of code bring, and plans a rename before it is judged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sagent.lib.json import JsonObject
from sagent.messages import ToolCall, user
from sagent.peer import Action, Inject
from sagent.plugins.code.lsp.access import CodeAccess
from sagent.policy import Allow, Policy, Turn, Verdict
from sagent.tool import Effect, Workspace

if TYPE_CHECKING:
    from sagent.plugins.code.lsp.tool import Code

SENDER = "code"
"""The sender of messages about errors."""


class CodePolicy(Policy):
    """A policy with checks, and the tool whose renames it judges, if there is one."""

    def __init__(self, inner: Policy, access: CodeAccess | None, code: "Code | None") -> None:
        """With `access` errors are reported."""
        self._inner, self._access, self._code = inner, access, code

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Apply the inner policy; to a rename once its changes are known."""
        code = self._code
        if code is not None and call.name == code.name and code.is_unplanned(call.arguments, workspace):
            changes = await code.plan(call.arguments, workspace)
            return Allow(JsonObject({**call.arguments, "changes": changes}))
        return await self._inner.before_tool(call, effect, workspace)

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Apply the inner policy, and report errors that were found since; at the turn's end they are waited for."""
        actions = await self._inner.after_turn(turn)
        if self._access is None or (checks := self._access.started) is None:
            return actions
        if not turn.reply.calls:
            if turn.reply.stop != "end":  # a turn that ends for another reason is not gone on with for this
                return actions
            await checks.finish(turn.agent)
        news = await checks.news(turn.agent)
        return [*actions, Inject(user(news, sender=SENDER))] if news else actions
