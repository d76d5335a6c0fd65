"""The account of a session: its cost, tokens and time in parts whose sums are the session's own."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.money import EXACT, ZERO
from sagent.plugins.why.context import day_of, model_of
from sagent.plugins.why.course import Course, Interval, State, Subject, ToolUse, carried, divide_time, target_of
from sagent.plugins.why.rates import RateBook
from sagent.plugins.why.reading import read_course, subject_of
from sagent.plugins.why.shares import share_tokens, share_usd
from sagent.session.contents import EXECUTOR
from sagent.session.folds import origin
from sagent.session.log import read_log
from sagent.session.names import agent_of
from sagent.session.store import named_logs
from sagent.usage import Charge

_K = TypeVar("_K")
_SECOND = 1_000_000  # in microseconds


@dataclass(slots=True)
class Row:
    """USD and tokens of a part; `unpriced` of its charges have no known price, so that `usd` is a minimum."""

    usd: Decimal = ZERO
    tokens: int = 0
    charges: int = 0
    unpriced: int = 0

    def add(self, other: "Row") -> None:
        """Add another part."""
        self.usd = EXACT.add(self.usd, other.usd)
        self.tokens += other.tokens
        self.charges += other.charges
        self.unpriced += other.unpriced


@dataclass(slots=True)
class Day:
    """Costs of one date, whose parts by subject, model and agent each add up to `whole`; and its time in microseconds.
    `unbilled` is USD that calls without a certain bill may have cost in addition."""

    whole: Row = field(default_factory=Row)
    subjects: dict[Subject, Row] = field(default_factory=dict[Subject, Row])
    models: dict[str, Row] = field(default_factory=dict[str, Row])
    agents: dict[str, Row] = field(default_factory=dict[str, Row])
    unpriced: set[str] = field(default_factory=set[str])
    unbilled: Decimal = ZERO
    time: dict[State, int] = field(default_factory=dict[State, int])
    tools: dict[str, ToolUse] = field(default_factory=dict[str, ToolUse])

    def add(self, other: "Day") -> None:
        """Add another date's parts."""
        self.whole.add(other.whole)
        _add_rows(self.subjects, other.subjects)
        _add_rows(self.models, other.models)
        _add_rows(self.agents, other.agents)
        self.unpriced |= other.unpriced
        self.unbilled = EXACT.add(self.unbilled, other.unbilled)
        for state, microseconds in other.time.items():
            self.time[state] = self.time.get(state, 0) + microseconds
        for name, use in other.tools.items():
            self.tools.setdefault(name, ToolUse()).add(use)


@dataclass(slots=True)
class Account:
    """The account of a session with all its agents. `repeated` has, by call, how often its result was one that the
    conversation still held, and what sending these cost; `problems` name logs that could not be read to their end."""

    session: str
    project: str = ""
    days: dict[str, Day] = field(default_factory=dict[str, Day])
    time: dict[State, int] = field(default_factory=dict[State, int])
    repeated: dict[str, tuple[int, Row]] = field(default_factory=dict[str, tuple[int, Row]])
    compactions: int = 0
    problems: tuple[str, ...] = ()

    @property
    def whole(self) -> Day:
        """All dates together."""
        found = Day()
        for day in self.days.values():
            found.add(day)
        return found


def read_courses(session: Path, rates: RateBook, seen: set[str] | None = None) -> list[Course]:
    """Return the courses of a session's agents. Raises OSError."""
    return [read_course(agent_of(session, file), file, rates, seen) for file in named_logs(session)]


def project_of(session: Path) -> str:
    """Return the working directory of a session; "" if its log cannot be read."""
    try:
        first = next(iter(read_log(session / "root.jsonl")), None)
    except (SessionCorrupt, OSError):
        return ""
    return origin([first] if first else ()).cwd


def account_of(session: str, project: str, courses: Sequence[Course]) -> Account:
    """Return the account of courses."""
    found = Account(session, project, compactions=sum(course.compactions for course in courses))
    found.problems = tuple(course.problem for course in courses if course.problem)
    for course in courses:
        _add_requests(found.days, course)
        for day, _, charge in course.asides:
            row = _add_charge(found.days, day, course.agent, charge)
            _add_row(found.days[day].subjects, subject_of(charge.role), row)
        for day, uses in course.tools.items():
            for name, use in uses.items():
                found.days.setdefault(day, Day()).tools.setdefault(name, ToolUse()).add(use)
    found.repeated = _repeated(found.whole, courses)
    intervals = [interval for course in courses for interval in course.intervals]
    found.time = divide_time(intervals)
    by_day = _by_day(intervals)
    for day, some in by_day.items():
        found.days.setdefault(day, Day()).time = found.time.copy() if len(by_day) == 1 else divide_time(some)
    return found


def _repeated(whole: Day, courses: Sequence[Course]) -> dict[str, tuple[int, Row]]:
    """Divide the cost of repeated results among the calls that gave them, the dearest first."""
    times = Counter[str]()
    weights: dict[Subject, dict[str, float]] = {}
    for course in courses:
        for piece in course.pieces:
            if piece.subject.what == "again":
                name = target_of(piece)
                times[name] += 1
                sizes = weights.setdefault(piece.subject, {})
                sizes[name] = sizes.get(name, 0.0) + piece.tokens * max(carried(piece), 0)
    found: dict[str, tuple[int, Row]] = {}
    for subject, sizes in weights.items():
        row = whole.subjects.get(subject, Row())
        usd, tokens = share_usd(row.usd, sizes), share_tokens(row.tokens, sizes)
        found |= {name: (times[name], Row(usd.get(name, ZERO), tokens.get(name, 0))) for name in sizes}
    return dict(sorted(found.items(), key=lambda item: (-item[1][1].usd, -item[1][1].tokens)))


def _add_requests(days: dict[str, Day], course: Course) -> None:
    """Add the requests of a conversation, and divide their sums by what they carried."""
    wholes: dict[str, Row] = {}
    for request in course.requests:
        if not request.is_copy:
            day = day_of(request.at)
            wholes.setdefault(day, Row()).add(_add_charge(days, day, course.agent, request.charge))
    for day, whole in wholes.items():
        nothing = {Subject("other", EXECUTOR): 1.0}
        usd = share_usd(whole.usd, course.usd_weights.get(day, {})) or share_usd(whole.usd, nothing)
        tokens = share_tokens(whole.tokens, course.token_weights.get(day, {})) or share_tokens(whole.tokens, nothing)
        for subject in {**usd, **tokens}:
            _add_row(days[day].subjects, subject, Row(usd.get(subject, ZERO), tokens.get(subject, 0)))


def _add_charge(days: dict[str, Day], day: str, agent: str, charge: Charge) -> Row:
    tokens = charge.usage.total_input + charge.usage.output
    row = Row(charge.usd or ZERO, tokens, 1, int(charge.usd is None))
    found = days.setdefault(day, Day())
    found.whole.add(row)
    _add_row(found.models, model_of(charge), row)
    _add_row(found.agents, charge.agent or agent, row)
    if charge.usd is None:
        found.unpriced.add(model_of(charge))
    if charge.at_most is not None:
        found.unbilled = EXACT.add(found.unbilled, EXACT.subtract(charge.at_most, charge.usd or ZERO))
    return row


def _add_row(rows: dict[_K, Row], key: _K, row: Row) -> None:
    rows.setdefault(key, Row()).add(row)


def _add_rows(rows: dict[_K, Row], more: Mapping[_K, Row]) -> None:
    for key, row in more.items():
        _add_row(rows, key, row)


def _by_day(intervals: Iterable[Interval]) -> dict[str, list[Interval]]:
    """Return the intervals of each date, cut at midnight; dates on which nothing happened are left out."""
    found: dict[str, list[Interval]] = {}
    for interval in intervals:
        start, end, state = interval
        first, last = _local(start), _local(end)
        while first.date() < last.date():
            evening = round(_midnight_after(first).timestamp() * _SECOND)
            found.setdefault(first.date().isoformat(), []).append(Interval(start, evening, state))
            if state == "idle":
                evening = round(_midnight_after(last - timedelta(days=1)).timestamp() * _SECOND)
            start, first = evening, _local(evening)
        found.setdefault(last.date().isoformat(), []).append(Interval(start, end, state))
    return found


def _local(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / _SECOND).astimezone()


def _midnight_after(at: datetime) -> datetime:
    following = at.date() + timedelta(days=1)
    return datetime(following.year, following.month, following.day).astimezone()
