"""What an agent did, by the times of its log's entries."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from sagent.plugins.why.course import Course, Interval, State
from sagent.session import contents
from sagent.session.contents import StoredCall

MAX_WAIT_SECONDS = 900
"""Longest time for which a session waits for its person; after a longer one they were away."""
MIN_ASKED_SECONDS = 1  # of a call before its tool ran, to count as a person's time
_LIMITS = frozenset({"rate_limit", "overloaded", "quota", "budget"})
_PERSONS = frozenset({"AskUser", "ExitPlan"})
"""Tools that a person answers."""


class Clock:
    """Follows what an agent does, by the times of its entries."""

    def __init__(self, course: Course, rest: State) -> None:
        self._course = course
        self._rest: State = rest
        self._state: State = "idle"
        self._before = 0
        self._open_calls = 0

    def read(self, at: datetime, content: contents.Content, calls: Mapping[str, StoredCall], *, is_copy: bool) -> None:
        """Count the time up to an entry."""
        now = round(at.timestamp() * 1_000_000)
        now = max(now, self._before)  # a clock was set back: no time passed
        before, self._before = self._before or now, now
        if not is_copy:
            for start, end, state in self._divided(before, now, content, calls):
                is_away = state == "person" and end - start > MAX_WAIT_SECONDS * 1_000_000
                self._add(Interval(start, end, "idle" if is_away else state))
        self._state = self._next(content)

    def _add(self, interval: Interval) -> None:
        """Add an interval, joined with the one before if that is of the same kind."""
        intervals = self._course.intervals
        if intervals and intervals[-1].end == interval.start and intervals[-1].state == interval.state:
            interval = intervals.pop()._replace(end=interval.end)
        intervals.append(interval)

    def _divided(
        self, before: int, now: int, content: contents.Content, calls: Mapping[str, StoredCall]
    ) -> Iterator[Interval]:
        match content:
            case contents.Opened() | contents.Environment():
                yield Interval(before, now, "idle")
            case contents.ResultEntry(result, seconds):
                ran = round(min(max(seconds, 0.0) * 1_000_000, now - before))
                waited = now - before - ran
                asked = waited > MIN_ASKED_SECONDS * 1_000_000
                call = calls.get(result.call_id)
                is_answer = call is not None and call.name in _PERSONS
                yield Interval(before, now - ran, "person" if asked else "tools")
                yield Interval(now - ran, now, "person" if is_answer else "tools")
            case contents.ChargeEntry() | contents.RequestSent() | contents.ConsultationEntry() | contents.Compacted():
                yield Interval(before, now, "model")
            case contents.MessageEntry(message) if message.role == "assistant":
                yield Interval(before, now, "model")
            case contents.FailedEntry(kind=kind) if kind in _LIMITS:
                yield Interval(before, now, "limit")
            case _:
                yield Interval(before, now, self._state)

    def _next(self, content: contents.Content) -> State:
        """Return what the agent does after an entry."""
        match content:
            case contents.MessageEntry(message) if message.role == "assistant":
                self._open_calls = len(message.calls)
                return "tools" if self._open_calls else self._rest
            case contents.ResultEntry():
                self._open_calls -= 1
                return "tools" if self._open_calls > 0 else "model"
            case contents.MessageEntry() | contents.PromptEntry():
                return "model"
            case contents.MessageReceived():
                return "model" if self._state == self._rest else self._state
            case contents.Opened() | contents.Environment() | contents.FailedEntry():
                self._open_calls = 0
                return self._rest
            case _:
                return self._state
