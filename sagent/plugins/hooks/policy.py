"""Applies hooks to calls and to the end of a turn, around a policy. They never allow what the policy denies."""

from collections.abc import Sequence

from sagent.app.builder import HookAnswer
from sagent.lib.json import json_dump
from sagent.messages import ToolCall, user
from sagent.peer import Action, Inject, Stop
from sagent.plugins.hooks.answer import combine
from sagent.plugins.hooks.hook import names_of
from sagent.plugins.hooks.session import SENDER, SessionHooks, call_fields
from sagent.policy import Allow, Ask, Deny, Policy, Turn, Verdict
from sagent.tool import Effect, Workspace

MAX_RETURNS = 5
"""Consecutive times that a hook may send an agent back to work at the end of its turn."""


class HookPolicy(Policy):
    """A policy with a session's hooks put around it."""

    def __init__(self, hooks: SessionHooks, inner: Policy) -> None:
        self._hooks, self._inner = hooks, inner
        self._additions: dict[str, list[str]] = {}  # by agent: text to read after the turn
        self._returns: dict[str, int] = {}  # by agent: times in a row that it was sent back to work

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Run the hooks, then, unless one refuses or changes the call, the inner policy; combine their verdicts."""
        agent = self._hooks.agent_in(workspace)
        answers = self._hooks.answers.setdefault(agent, {})
        judged, answer = answers.get(call.id) or (None, HookAnswer())
        if call.arguments not in (judged, answer.arguments):  # new, or changed by the person since
            answer = await self._ask(agent, call)
            answers[call.id] = call.arguments, answer
            self._note(agent, call, answer)
            if _is_changed(call, answer):
                return Allow(answer.arguments)
        if answer.decision == "deny" or answer.stop is not None:
            return Deny(answer.reason or answer.stop or "")
        verdict = await self._inner.before_tool(call, effect, workspace)
        match answer.decision, verdict:
            case "allow", Ask():
                return Allow()
            case "ask", Allow():
                return Ask(answer.reason or f"A hook asks whether {call.name} may be called.")
            case _:
                return verdict

    async def _ask(self, agent: str, call: ToolCall) -> HookAnswer:
        """Run the hooks for a call, the person's again if those of a project or a plugin may have changed it."""
        names = names_of(call.name)
        answer = await self._hooks.ask("PreToolUse", agent, names, call_fields(call.name, call.arguments, call.id))
        has_foreign = any(hook.source != "person" for hook in self._hooks.of("PreToolUse"))
        if answer.arguments is None or not has_foreign or not _is_changed(call, answer):
            return answer
        fields = call_fields(call.name, answer.arguments, call.id)
        return combine([answer, await self._hooks.ask("PreToolUse", agent, names, fields, own=True)])

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Return the inner policy's actions, what hooks have added, and more work if a hook rejects the end."""
        actions = list(await self._inner.after_turn(turn) or ())
        self._hooks.answers.pop(turn.agent, None)
        added = self._additions.pop(turn.agent, [])
        if turn.reply.calls:
            self._returns.pop(turn.agent, None)
        elif turn.reply.stop != "pause" and turn.agent not in self._hooks.stopped:
            await self._end(turn, added)
        if turn.agent in self._hooks.stopped:
            return [*actions, Stop("hook_stop")]
        if added:
            actions.append(Inject(user("A hook adds:\n" + "\n\n".join(added), sender=SENDER)))
        return actions

    async def _end(self, turn: Turn, added: list[str]) -> None:
        """Ask hooks whether an agent's turn may end; if not, add their reason."""
        is_child, times = "/" in turn.agent, self._returns.pop(turn.agent, 0)
        fields = {"stop_hook_active": times > 0, "last_assistant_message": turn.reply.content}
        name = turn.agent.rpartition("/")[2]
        if is_child:
            answer = await self._hooks.ask(
                "SubagentStop", turn.agent, (name,), {**fields, "agent_id": turn.agent, "agent_type": name}
            )
        else:
            answer = await self._hooks.ask("Stop", turn.agent, (), fields)
        state = self._hooks.state(turn.agent)
        may_return = answer.decision == "deny" and answer.stop is None
        if may_return and times < MAX_RETURNS and state is not None and not state.closing:
            self._returns[turn.agent] = times + 1
            added.append(f"Do not end yet: {answer.reason}")

    def _note(self, agent: str, call: ToolCall, answer: HookAnswer) -> None:
        """Record text for the agent to read."""
        if answer.context:
            self._additions.setdefault(agent, []).append(answer.context)
        if _is_changed(call, answer):
            text = f"{call.name} was called with other arguments than yours: {json_dump(answer.arguments)}"
            self._additions.setdefault(agent, []).append(text)


def _is_changed(call: ToolCall, answer: HookAnswer) -> bool:
    """Return True if the call's arguments were changed."""
    return answer.decision != "deny" and answer.arguments not in (None, call.arguments)
