"""Questions about calls that are answered later, in this process or another one.

The call gets its result at once: that it waits. So the history stays complete, and whoever knows the session can
answer. An allowed call is then made, and its result is a message, as that of a job in the background.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from sagent.agent import Agent
from sagent.engine.dispatch import PreparedCall, invoke, prepare
from sagent.engine.state import RunningCall
from sagent.errors import UsageError
from sagent.events import Denial, Result, ToolFinished, ToolStarted
from sagent.lib.dataclass import Deps
from sagent.lib.json import json_freeze_object
from sagent.messages import DENIED, Message, Part, Text, ToolCall, ToolResult
from sagent.policy import Ask
from sagent.session.contents import MessageEntry, ResultEntry, StoredCall
from sagent.session.folds import branch_contents
from sagent.tool import ToolOutput

PAUSED = "It waits for a person's answer, a message. Do not call it again; if you need it, end your turn."
SENDER = "approval"
_BEGUN, _ANSWERED = "-begun", "-answered"
"""Ends of the ids of a waiting call's further results: that it begins to be made, and what came of it."""

Answer: TypeAlias = bool | str
"""True allows a call; False and a text, the reason, refuse it."""


class WaitingCall(NamedTuple):
    """A call that waits for an answer, and why the policy asks."""

    call: ToolCall
    reason: str


def original_id(call_id: str) -> str:
    """Return the id of the model's call that an event is about: an answered call has an id of its own in the log."""
    return call_id.removesuffix(_ANSWERED)


class Pauses:
    """An `ask` for `Resources` that answers nothing: each question waits in the agent's log.

    `waiting` returns the calls that wait, `resume` answers them and goes on. An agent with a session can be closed in
    between, and opened by another process.
    """

    def __init__(self) -> None:
        self._allowed: set[str] = set()
        self._answering = asyncio.Lock()  # two answers to one call make it once

    async def __call__(self, call: ToolCall, question: Ask) -> str | None:
        """Return None for a call that was allowed before, otherwise that it waits."""
        if "/" in question.agent:
            return f"{question.reason} There is nobody to ask about a subagent's calls in this run."
        return None if call.id in self._allowed else f"{question.reason} {PAUSED}"

    def waiting(self, agent: Agent[Deps]) -> Sequence[WaitingCall]:
        """Return the calls that wait, the earliest first."""
        asked, further = _read(agent)
        return [each for each in asked if further.isdisjoint({each.call.id + end for end in (_BEGUN, _ANSWERED)})]

    async def resume(self, agent: Agent[Deps], answers: Mapping[str, Answer], *, deps: Deps | None = None) -> Result:
        """Answer calls that wait, by their ids, and run the agent with what came of it.

        True makes the call, which the policy judges again; False and a text, the reason, refuse it. Other calls go on
        waiting. A call whose process ended while it was made is never made again: the model is told. Raises UsageError
        for an id of no call that waits, and as `Agent.run` does.
        """
        if agent.running:
            raise UsageError(f"agent {agent.path} is running: wait for its end, then answer")
        async with self._answering:
            parts = await self._answered(agent, answers, deps)
        if not parts:
            raise UsageError("there is no answer to a call that waits")
        message = Message("user", tuple(parts), sender=SENDER)
        return await (agent.run(message) if deps is None else agent.run(message, deps=deps))

    async def _answered(self, agent: Agent[Deps], answers: Mapping[str, Answer], deps: Deps | None) -> list[Part]:
        """Make and refuse calls, and return what came of them and of those that were lost, for the model."""
        waiting = {each.call.id: each.call for each in self.waiting(agent)}
        if unknown := [name for name in answers if name not in waiting]:
            raise UsageError(f"{unknown[0]!r} is not a call that waits; these do: {', '.join(waiting) or 'none'}")
        parts = _lost(agent)
        for name, answer in answers.items():
            call = replace(waiting[name], id=name + _ANSWERED)
            outcome = await self._made(agent, name, call, deps) if answer is True else _refused(answer)
            _record(agent, call, outcome)
            head = "was made" if not outcome.output.is_error else "failed" if not outcome.denied else "was not allowed"
            parts += [Text(f"Your call of {call.name} ({name}) {head}:"), *outcome.output.content]
        return parts

    async def _made(self, agent: Agent[Deps], name: str, call: ToolCall, deps: Deps | None) -> "_Outcome":
        """Make a call, once the log says that it begins."""
        state, task = agent.state, asyncio.current_task()
        assert task is not None
        self._allowed.add(call.id)
        try:
            item = await prepare(state, call, Message("assistant", (call,)), ())
        finally:
            self._allowed.discard(call.id)
        if isinstance(item, Denial):
            return _refused(item.reason)
        if not isinstance(item, PreparedCall):
            return _Outcome(item)
        state.add_result(call, ToolResult(name + _BEGUN, (Text("It was allowed and begins."),)), 0.0)
        state.journal.emit(ToolStarted(state.path, call))
        began = time.monotonic()
        output = await invoke(state, item, task, RunningCall(), deps)
        return _Outcome(output, seconds=time.monotonic() - began)


class _Outcome(NamedTuple):
    output: ToolOutput
    denied: bool = False
    seconds: float = 0.0


def _refused(answer: Answer) -> _Outcome:
    reason = answer if isinstance(answer, str) and answer else "The person said no."
    return _Outcome(ToolOutput((Text(f"{DENIED}{reason}"),), is_error=True, summary=reason), denied=True)


def _record(agent: Agent[Deps], call: ToolCall, outcome: _Outcome) -> None:
    """Record a result and report it."""
    output, state = outcome.output, agent.state
    result = ToolResult(call.id, output.content, output.is_error, outcome.denied)
    state.add_result(call, result, outcome.seconds, output.diff, output.summary)
    state.journal.emit(ToolFinished(state.path, call, result, outcome.seconds, output.summary, output.diff))


def _lost(agent: Agent[Deps]) -> list[Part]:
    """Return news of calls whose process ended while they were made, and record that the model has it."""
    asked, further = _read(agent)
    parts: list[Part] = []
    for call, _ in asked:
        if call.id + _BEGUN in further and call.id + _ANSWERED not in further:
            text = "The process ended while it was made, so it may have been made: look before you repeat it."
            _record(agent, replace(call, id=call.id + _ANSWERED), _Outcome(ToolOutput((Text(text),), is_error=True)))
            parts.append(Text(f"Your call of {call.name} ({call.id}) was allowed. {text}"))
    return parts


def _read(agent: Agent[Deps]) -> tuple[Sequence[WaitingCall], AbstractSet[str]]:
    """Return all calls of an agent that had to wait, and the ids of all results that are of no call of the model."""
    calls, reasons, results = dict[str, StoredCall](), dict[str, str](), set[str]()
    for content in branch_contents(agent.log.entries(), MessageEntry, ResultEntry):
        if isinstance(content, MessageEntry):
            calls |= {stored.id: stored for stored in content.message.calls}
            continue
        result, text = content.result, "".join(content.result.texts("text"))
        results.add(result.call_id)
        if result.denied and text.endswith(PAUSED):
            reasons[result.call_id] = text.removeprefix(DENIED).removesuffix(PAUSED).strip()
    asked = [WaitingCall(_call(calls[name]), why) for name, why in reasons.items() if name in calls]
    return asked, results - calls.keys()


def _call(stored: StoredCall) -> ToolCall:
    """Return a call that was put to a policy, so that its arguments are JSON."""
    return ToolCall(stored.id, stored.name, json_freeze_object(json.loads(stored.arguments)))
