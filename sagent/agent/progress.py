"""Detects turns without progress: the same calls with the same results, and claims of work without a call."""

import re
from collections.abc import Sequence

from sagent.context.claims import ABOUT_PAST, claims_work
from sagent.engine.state import AgentState
from sagent.lib.json import as_object, json_dump
from sagent.lib.text import one_line
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.peer import Action, Inject, Stop
from sagent.policy import Turn

WARNED_AT, ENDED_AT = 3, 5
"""Consecutive repetitions of calls with the same results after which the model is warned, and the run ends."""
REPEATED = "repeated_calls"
"""Stop reason of a run with repeating calls."""
UNPROVEN = (
    "Nothing was changed or run in this turn: no tool was called. If the task needs it, make the call now. If nothing "
    "is left to do, answer without saying that it was done."
)
_MAX_CYCLE = 4  # rounds of calls that take turns
_MAX_CALL_CHARS = 200  # characters of a call
_WAITING = re.compile(r"\b(?:sleep|wait|watch|poll|tail\s+-\w*f|inotifywait|timeout)\b|\"delay\"")
_PENDING = re.compile(
    r"\b(?:pending|running|in[ _-]progress|queued|waiting|processing|starting|not (?:yet|ready)|still)\b", re.IGNORECASE
)
_DURATION = re.compile(r"\b\d+\.\d+ ?(?:[mµ]?s|sec|seconds?)\b")
_MAX_STATUS_CHARS = 500  # characters of a progress result

_Round = tuple[tuple[str, str, object], ...]
"""The names, arguments and results of a reply's calls."""


class Progress:
    """Watches the turns of one run."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._rounds: list[_Round] = []
        self._told: list[_Round] = []
        self._called = self._asked = False

    def observe(self, turn: Turn) -> Sequence[Action]:
        """Return the actions to take after a turn, nearly always none."""
        if turn.results is not None:
            self._called = True
            return self._repeated(turn.reply, turn.results)
        if self._asked or self._called or turn.reply.stop not in (None, "end") or self._state.closing:
            return ()
        if not claims_work(turn.reply.content) or not self._may_change() or self._is_asked_about_past():
            return ()
        self._asked = True
        return (Inject(user(UNPROVEN, sender="sagent"), "next"),)

    def _repeated(self, reply: Message, results: Message) -> Sequence[Action]:
        """Look for repeated calls. Waiting is not a repetition: for a job, an agent, or a command that says so."""
        state, answers = self._state, {result.call_id: result for result in results.results}
        if state.jobs.running() or state.neighbours.busy:
            self._rounds.clear()
            return ()
        latest = tuple(
            (call.name, json_dump(call.arguments) + (call.malformed or ""), (_steady(answer), answer.is_error))
            for call in reply.calls
            if (answer := answers.get(call.id)) is not None
        )
        status = "".join(result.text for result in answers.values())
        pending = len(status) <= _MAX_STATUS_CHARS and _PENDING.search(status) is not None
        if pending or any(_WAITING.search(arguments) for _, arguments, _ in latest):
            self._rounds.clear()
            return ()
        self._rounds = [*self._rounds, latest][-_MAX_CYCLE * ENDED_AT :]
        for size in range(1, _MAX_CYCLE + 1):
            times = _count_repeats(self._rounds, size)
            if times == ENDED_AT:
                return (Stop(REPEATED),)
            if times == WARNED_AT and not state.closing and any(r not in self._told for r in self._rounds[-size:]):
                self._told += self._rounds[-size:]
                return (Inject(user(_words(reply.calls, size), sender="sagent"), "next"),)
        return ()

    def _may_change(self) -> bool:
        """Return True if an offered tool can change something."""
        return any(
            {"command", "content", "new_string", "edits", "patch", "code"}
            & {*as_object(tool.parameters.get("properties"))}
            or not hasattr(tool, "effect")
            for tool in self._state.tools.values()
        )

    def _is_asked_about_past(self) -> bool:
        """Return True if calls were made before this run, and the request may be about them."""
        history = self._state.context.history
        asked = (message.content for message in reversed(history) if message.role == "user" and not message.sender)
        return any(message.calls for message in history) and ABOUT_PAST.search(next(asked, "")) is not None


def _steady(result: ToolResult) -> object:
    """Return a result without durations."""
    return tuple(_DURATION.sub("", part.text) if isinstance(part, Text) else part for part in result.content)


def _count_repeats(rounds: Sequence[_Round], size: int) -> int:
    """Return how often in a row the last rounds (of this number) have come; 0 unless the last has just ended."""
    last = rounds[-size:]
    if len(last) < size or (size > 1 and all(each_round == last[0] for each_round in last)):
        return 0
    times = 1
    while rounds[-size * (times + 1) : -size * times] == last:
        times += 1
    return times


def _words(calls: Sequence[ToolCall], size: int) -> str:
    listed = "; ".join(one_line(f"{call.name} {json_dump(call.arguments)}", _MAX_CALL_CHARS) for call in calls[:3])
    subject = "The same call" if size == 1 and len(calls) == 1 else "The same calls"
    return (
        f"{subject} came {WARNED_AT} times in a row, with the same result: {listed}. Doing it again changes nothing. "
        "Use the result that you have: take the next step of the task, try another tool or other arguments, or say in "
        "plain words what you found and what is in the way."
    )
