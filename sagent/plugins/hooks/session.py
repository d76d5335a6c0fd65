"""The hooks of one session: when they run, their input, and the effects of their answers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sagent.app.builder import HookAnswer
from sagent.engine.neighbours import Asker
from sagent.engine.state import AgentState
from sagent.events import Failure
from sagent.lib.json import JsonObject, wire_bytes
from sagent.lib.text import printable
from sagent.messages import Message, ToolCall, user
from sagent.plugin import HookEvent
from sagent.plugins.hooks.answer import combine
from sagent.plugins.hooks.hook import Hook, names_of
from sagent.plugins.hooks.runner import HookRunner
from sagent.policy import Allow, Ask
from sagent.tool import Workspace

SENDER = "hook"
"""The sender of messages that hooks add to a conversation."""
_SESSION_END_TIMEOUT_SECONDS = 10.0  # seconds for a hook when the session ends
_MODES: Mapping[str, str] = {"plan": "plan", "ask": "default", "edit": "acceptEdits", "full": "bypassPermissions"}
"""Permission modes as programs call them that brought this protocol up."""


class SessionHooks:
    """Runs the hooks of a session, those of one event together. `events` are all events, by name; `mode` is the present
    permission mode."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        events: Mapping[str, HookEvent],
        runner: HookRunner,
        mode: Callable[[], str],
        notify: Callable[[str, str], None],
        transcript: str = "",
        session_id: str = "",
    ) -> None:
        self.hooks, self._events, self._runner = tuple(hooks), events, runner
        self._mode, self._notify, self._ended = mode, notify, False
        self._facts = {"session_id": session_id, "transcript_path": transcript}
        self._states: dict[str, AgentState] = {}  # of the agents that have run, by path
        self._root: AgentState | None = None
        self.stopped: set[str] = set()  # agents whose run a hook has ended
        # by agent and call of its turn, judged more than once: its arguments, and the answer
        self.answers: dict[str, dict[str, tuple[JsonObject, HookAnswer]]] = {}

    def of(self, event: str) -> Sequence[Hook]:
        """List the hooks of an event."""
        return [hook for hook in self.hooks if hook.event == event]

    def state(self, path: str) -> AgentState | None:
        """Return an agent that has run."""
        return self._states.get(path)

    def agent_in(self, workspace: Workspace) -> str:
        """Return the agent of a workspace."""
        return next((path for path, state in self._states.items() if state.workspace is workspace), "root")

    async def ask(
        self,
        event: str,
        agent: str,
        names: Sequence[str],
        fields: Mapping[str, object],
        timeout: float = 0.0,
        *,
        own: bool = False,
    ) -> HookAnswer:
        """Run the hooks that match one of these names, or only the person's `own`. Report failures to the person."""
        known = [hook for hook in self.of(event) if hook.source == "person" or not own]
        chosen = [hook for hook in known if hook.is_about(names)]
        if not chosen:
            return HookAnswer()
        state = self._states.get(agent)
        common: dict[str, object] = {
            **self._facts,
            "hook_event_name": event,
            "cwd": str(state.workspace.cwd if state else self._runner.directory),
            "permission_mode": _MODES.get(self._mode(), "default"),
            "agent": agent,
        }
        data = wire_bytes({**common, **fields, **common})
        limited = [replace(hook, timeout=min(hook.timeout, timeout)) if timeout else hook for hook in chosen]
        answers = await asyncio.gather(*(self._runner.ask(hook, self._events[event], data) for hook in limited))
        for hook, answer in zip(chosen, answers, strict=True):
            if answer.fault:
                self._notify("warning", f"Hook {hook} {printable(answer.fault)}. The session continues without it.")
        said = combine([_within(hook, answer) for hook, answer in zip(chosen, answers, strict=True)])
        if said.decision == "deny" and "refuse" not in self._events[event].can:
            self._notify("warning", f"A hook of {event} objects: {printable(said.reason)}")
        if said.message:
            self._notify("info", printable(said.message))
        if said.stop is not None:
            self._notify("warning", f"A hook ends the run: {printable(said.stop)}")
            self.stopped.add(agent)
        return said

    async def fire(self, name: str, agent: str, about: str, data: Mapping[str, object]) -> HookAnswer:
        """Return the hooks' answer to an event of a plugin, without decisions that the event does not allow. No hooks
        run after the end of the session."""
        event = self._events[name]
        if self._ended:
            self._notify("warning", f"No hook of {event.name} was run: the session has ended.")
            return HookAnswer()
        said = await self.ask(event.name, agent, names_of(about) if event.of_tools else (about,), data)
        word = "refuse" if said.decision == "deny" else said.decision
        return said if word in event.can else replace(said, decision="", reason="")

    async def admit(self, state: AgentState, prompt: Message | None) -> Sequence[Message] | Failure:
        """Return the messages for an agent at the start of a run: the prompt, and the hooks' additions; or why there is
        no run."""
        self.stopped.discard(state.path)
        self.answers.pop(state.path, None)  # of an aborted turn, whose ids may be reused
        begins, more = state.path not in self._states, list[str]()
        self._states[state.path] = state
        if begins and state.above:
            name = state.path.rpartition("/")[2]
            said = await self.ask("SubagentStart", state.path, (name,), {"agent_id": state.path, "agent_type": name})
            more.append(said.context)
        elif begins:
            self._root = state
            source = "resume" if state.context.history else "startup"
            said = await self.ask("SessionStart", state.path, (source,), {"source": source})
            more.append(said.context)
            if said.stop is not None:
                del self._states[state.path]  # the next run begins it
                return Failure("hook", f"A hook ended the session as it began: {said.stop}")
        if prompt is not None and not prompt.sender and not state.above:
            said = await self.ask("UserPromptSubmit", state.path, (), {"prompt": prompt.content})
            if said.decision == "deny" or said.stop is not None:
                return Failure("hook", f"A hook refused the prompt: {said.reason or said.stop}")
            more.append(said.context)
        text = "\n\n".join(filter(None, more))
        added = [user(f"A hook adds:\n{text}", sender=SENDER)] if text else []
        return [*([] if prompt is None else [prompt]), *added]

    async def before_compaction(self, state: AgentState, reason: str, hints: str) -> str:
        """Return the hints for a summary: the given ones, and the hooks' additions."""
        trigger = "manual" if reason == "asked for" else "auto"
        fields = {"trigger": trigger, "custom_instructions": hints}
        said = await self.ask("PreCompact", state.path, (trigger,), fields)
        return "\n".join(filter(None, (hints, said.context)))

    def asker(self, ask: Asker | None) -> Asker | None:
        """Return an asker that asks the hooks, and then the person, if there is one."""
        if not self.of("PermissionRequest"):
            return ask

        async def decide(call: ToolCall, question: Ask) -> str | Allow | None:
            fields = {**call_fields(call.name, call.arguments, call.id), "reason": question.reason}
            said = await self.ask("PermissionRequest", question.agent, names_of(call.name), fields)
            match said.decision:
                case "allow":
                    return None
                case "deny":
                    return said.reason
                case _ if ask is not None:
                    return await ask(call, question)
                case _:
                    return f"{question.reason} There is nobody to ask in this run. {question.remedy}".rstrip()

        return decide

    async def end(self) -> None:
        """End the session, if it has begun."""
        try:
            if self._root is not None:
                await self.ask(
                    "SessionEnd", self._root.path, ("other",), {"reason": "other"}, _SESSION_END_TIMEOUT_SECONDS
                )
        finally:
            self._ended = True
            await self._runner.aclose()


def call_fields(name: str, arguments: JsonObject, call_id: str) -> dict[str, object]:
    """Return the fields that describe a call to hooks."""
    return {"tool_name": name, "tool_input": arguments, "tool_use_id": call_id}


def _within(hook: Hook, answer: HookAnswer) -> HookAnswer:
    """Limit an answer to what its hook may decide: a hook of a project or a plugin cannot allow."""
    return replace(answer, decision="") if hook.source != "person" and answer.decision == "allow" else answer
