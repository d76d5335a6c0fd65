"""The course of one agent by its log: its billed requests, what each of them carried, and what took time."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, json_load
from sagent.lib.text import cut, main_argument, one_line
from sagent.session.contents import RequestSent
from sagent.usage import Charge

What: TypeAlias = Literal[
    "system", "person", "message", "reply", "result", "failed", "again", "summary", "advice", "written", "cache",
    "compactor", "advisor", "other",
]  # fmt: skip
"""Kinds of things that money goes to. The first nine are parts of a context, sent with each request."""
Cause: TypeAlias = Literal["", "system prompt", "tools", "model", "effort", "pause", "unknown"]
"""Why a request did not read from the cache what was in it; "" if it did."""
State: TypeAlias = Literal["model", "tools", "limit", "person", "idle"]
"""What an agent did or waited for."""


class Subject(NamedTuple):
    """Something that money goes to; `name` is a tool's or a role's."""

    what: What
    name: str = ""


@dataclass(slots=True)
class Span:
    """The requests from `first` to before `stop` that carried a piece, and its place in them, in tokens."""

    first: int
    stop: int = -1
    start: float = 0.0


@dataclass(slots=True)
class Piece:
    """A part of a context: a message, or a tool's result, whose call is `call`. `size` is in characters.

    `tokens` is counted if the provider's counts of two requests differ by it alone, otherwise it is estimated: from
    such a difference and sizes, or from sizes.
    """

    subject: Subject
    size: int
    call: str = ""
    arguments: str = ""
    digest: int = 0
    tokens: float = 0.0
    counted: bool = False
    spans: list[Span] = field(default_factory=list[Span])


@dataclass(slots=True)
class BilledRequest:
    """A billed request of the conversation. `place` counts the log's entries before the entry of the request, `since`
    is in seconds since the previous one; `missed` are tokens that it could have read from the cache, and did not
    because of `cause`. `changed` is the entry of that change. `is_copy` if another session's log has it, too."""

    number: int
    place: int
    entry: str
    at: datetime
    charge: Charge
    sent: RequestSent | None = None
    since: float = 0.0
    missed: int = 0
    cause: Cause = ""
    changed: str = ""
    is_copy: bool = False


@dataclass(slots=True)
class Consultation:
    """An answered consultation of an advisor; `outcome` is what the executor made of it, "" if unknown."""

    day: str
    entry: str
    advisor: str
    trigger: str
    tokens: int
    usd: Decimal | None
    outcome: str = ""


class Interval(NamedTuple):
    """A time in which an agent did something, in microseconds since the epoch."""

    start: int
    end: int
    state: State


@dataclass(slots=True)
class ToolUse:
    """Calls of a tool: their number, those that failed, and how long they ran, in seconds."""

    calls: int = 0
    failed: int = 0
    seconds: float = 0.0

    def add(self, other: "ToolUse") -> None:
        """Add other calls."""
        self.calls += other.calls
        self.failed += other.failed
        self.seconds += other.seconds


@dataclass(slots=True)
class Course:
    """The course of an agent, with consultations by their entries. `asides` are charges of other roles, each with its
    day and its entry. The weights have, by day and subject, USD and tokens in proportion to which the day's sums are
    divided."""

    agent: str
    requests: list[BilledRequest] = field(default_factory=list[BilledRequest])
    pieces: list[Piece] = field(default_factory=list[Piece])
    consultations: dict[str, Consultation] = field(default_factory=dict[str, Consultation])
    asides: list[tuple[str, str, Charge]] = field(default_factory=list[tuple[str, str, Charge]])
    usd_weights: dict[str, dict[Subject, float]] = field(default_factory=dict[str, dict[Subject, float]])
    token_weights: dict[str, dict[Subject, float]] = field(default_factory=dict[str, dict[Subject, float]])
    intervals: list[Interval] = field(default_factory=list[Interval])
    tools: dict[str, dict[str, ToolUse]] = field(default_factory=dict[str, dict[str, ToolUse]])  # by day
    compactions: int = 0
    problem: str = ""


class _Mark(NamedTuple):
    """The beginning or the end of an interval."""

    at: int
    step: int
    state: State


PRIORITY: Sequence[State] = ("model", "tools", "limit", "person", "idle")
"""States of which the first counts where agents are in several at once."""


def divide_time(intervals: Iterable[Interval]) -> dict[State, int]:
    """Return the microseconds of each state, nothing twice: at each moment the busiest agent counts, and moments that
    no interval covers are idle. Together they are the time from the first to the last one."""
    marks: list[_Mark] = []
    for start, end, state in intervals:
        if end > start:
            marks.append(_Mark(start, 1, state))
            marks.append(_Mark(end, -1, state))
    marks.sort(key=lambda mark: mark.at)
    active = Counter[State]()
    found: dict[State, int] = dict.fromkeys(PRIORITY, 0)
    before = marks[0].at if marks else 0
    for mark in marks:
        if mark.at > before:
            found[_busiest(active)] += mark.at - before
            before = mark.at
        active.update({mark.state: mark.step})
    return found


def _busiest(active: Mapping[State, int]) -> State:
    for state in PRIORITY:
        if active[state]:
            return state
    return "idle"


def carried(piece: Piece) -> int:
    """Return the number of requests that carried a piece."""
    return sum(max(span.stop - span.first, 0) for span in piece.spans)


def target_of(piece: Piece) -> str:
    """Return a call in a few words: its tool and what it was about."""
    try:
        about = main_argument(as_object(json_load(piece.arguments))) if piece.arguments else ""
    except ValueError:
        about = ""
    return f"{piece.subject.name} {cut(one_line(about, 60), 40)}".strip()
