"""The accounts of many sessions over days, by project, session, model and tool. What a log's account is stays known
beside the sessions until the log changes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.figures import count as short_count
from sagent.lib.figures import duration
from sagent.lib.money import ZERO
from sagent.lib.text import Table, count, cut
from sagent.plugins.why.account import Day, Row, account_of, project_of, read_courses
from sagent.plugins.why.blocks import (
    Block,
    Heading,
    Points,
    bill_of,
    label_of,
    rows_table,
    saving_of,
    time_table,
    unpriced,
)
from sagent.plugins.why.context import day_of
from sagent.plugins.why.course import ToolUse
from sagent.plugins.why.kept import Kept, KeptAccounts, Stamp
from sagent.plugins.why.proposals import MAX_PROPOSALS, Kind, propose
from sagent.plugins.why.rates import RateBook
from sagent.session.store import log_files, sessions
from sagent.session.view import first_id

_CHANGES: Mapping[Kind, str] = {
    "repeated results": "results that the conversation still held were sent again",
    "long results": "results were longer than 10,000 characters",
    "cache": "something broke the cache",
    "longer cache": "the cache expired in pauses, and could be kept for an hour",
    "advice": "advice came by a rule and was not followed",
    "model": "a model that the session paid for, too, has lower list prices",
}


@dataclass(slots=True)
class Period:
    """Costs of the sessions of a time. `changes` has, by kind of proposal, the sessions that it concerns and what it
    would have saved."""

    since: str
    whole: Day = field(default_factory=Day)
    projects: dict[str, Row] = field(default_factory=dict[str, Row])
    sessions: dict[str, Row] = field(default_factory=dict[str, Row])
    dates: dict[str, Row] = field(default_factory=dict[str, Row])
    changes: dict[Kind, tuple[set[str], Row]] = field(default_factory=dict[Kind, tuple[set[str], Row]])
    problems: list[str] = field(default_factory=list[str])


def read_period(state: Path, since: datetime, rates: RateBook, prices: str) -> Period:
    """Return what the sessions of a state directory cost since a time: whole days of this machine. `prices` names the
    prices, so that what was kept at others is not used. Raises OSError."""
    kept = KeptAccounts(state, prices)
    period = Period(day_of(since))
    for group in _groups(state, since):
        _read_group(group, kept, period, rates)
    kept.write()
    return period


def _groups(state: Path, since: datetime) -> Iterator[list[Path]]:
    """Yield the sessions that were written since, each with its copies: they have the same beginning."""
    found: dict[str, list[Path]] = {}
    for session in sorted(sessions(state)):
        with suppress(OSError):
            if max(file.stat().st_mtime for file in log_files(session)) >= since.timestamp():
                root = session / "root.jsonl"
                name = first_id(root) if root.is_file() else ""  # another kind of file is named with its group
                found.setdefault(name or str(session), []).append(session)
    yield from found.values()


def _read_group(group: Sequence[Path], kept: KeptAccounts, period: Period, rates: RateBook) -> None:
    stamp: Stamp = []
    for session in group:
        stamp += _stamp(session)
    seen: set[str] | None = set() if len(group) > 1 else None
    known = [kept.get(session, stamp) for session in group]
    for session, earlier in zip(group, known, strict=True):
        found = earlier if None not in known else None
        if found is None:
            try:
                courses = read_courses(session, rates, seen)
            except OSError as error:
                period.problems.append(f"{session.name}: {error}")
                continue
            found = Kept(account_of(session.name, project_of(session), courses), propose(courses, rates))
            kept.put(session, stamp, found)
        _add(period, found)


def _stamp(session: Path) -> Stamp:
    facts = [(str(file.relative_to(session.parent)), file.stat()) for file in log_files(session)]
    return [(name, fact.st_size, fact.st_mtime_ns) for name, fact in facts]


def _add(period: Period, kept: Kept) -> None:
    account = kept.account
    for date, day in account.days.items():
        if date < period.since:
            continue
        period.whole.add(day)
        period.dates.setdefault(date, Row()).add(day.whole)
        period.projects.setdefault(account.project or "unknown", Row()).add(day.whole)
        period.sessions.setdefault(account.session, Row()).add(day.whole)
    for proposal in kept.proposals:
        for date, row in proposal.days.items():
            if date >= period.since:
                concerned, saved = period.changes.setdefault(proposal.kind, (set(), Row()))
                concerned.add(account.session)
                saved.add(row)
    period.problems += [f"{account.session}: {problem}" for problem in account.problems]


def period_blocks(period: Period, *, narrow: bool = False) -> Iterator[Block]:
    """Yield the report."""
    whole = period.whole
    time = sum(whole.time.values())
    tokens = short_count(whole.whole.tokens)
    yield (
        f"Since {period.since}: {bill_of(whole)}, {tokens} tokens, {count(len(period.sessions), 'session')}, "
        f"{duration(time / 1_000_000)}"
    )
    yield from (f"! {problem}" for problem in period.problems)
    yield from unpriced(whole)
    for title, rows in (
        ("By day", dict(sorted(period.dates.items(), reverse=True))),
        ("By project", period.projects),
        ("By session", period.sessions),
        ("By model", whole.models),
    ):
        if rows:
            yield Heading(title)
            yield rows_table(rows, _shortened, whole.whole, narrow=narrow)
    if whole.subjects:
        yield Heading("Money and tokens")
        yield rows_table(whole.subjects, label_of, whole.whole, narrow=narrow)
    if whole.tools:
        yield Heading("By tool")
        yield _tools(whole)
    if time:
        yield Heading("Time")
        yield time_table(whole.time)
    yield Heading("What would have made it cheaper")
    yield from _changes(period)


def _shortened(name: str) -> str:
    """Return a name whose end tells it apart, such as a path's."""
    return name if len(name) <= 40 else f"…{name[-39:]}"


def tool_rows(day: Day) -> dict[str, tuple[Row, ToolUse]]:
    """Return, by tool, what sending its results cost, and its calls; the dearest first."""
    found: dict[str, tuple[Row, ToolUse]] = {name: (Row(), use) for name, use in day.tools.items()}
    for subject, row in day.subjects.items():
        if subject.what in ("result", "failed", "again"):
            found.setdefault(subject.name, (Row(), ToolUse()))[0].add(row)
    return dict(sorted(found.items(), key=lambda item: (-item[1][0].usd, -item[1][0].tokens)))


def _tools(day: Day) -> Table:
    rows = [
        (cut(name or "unknown", 24), saving_of(row.usd), str(use.calls), str(use.failed or ""), duration(use.seconds))
        for name, (row, use) in list(tool_rows(day).items())[:14]
    ]
    return Table(tuple(rows), ("", "cost", "calls", "failed", "ran"), right=(1, 2, 3, 4))


def _changes(period: Period) -> Iterator[Block]:
    best = sorted(period.changes.items(), key=lambda item: (-item[1][1].usd, -item[1][1].tokens))
    points = [
        (
            f"{_saved(row)} less in {count(len(concerned), 'session')}: {_CHANGES[kind]}.",
        )
        for kind, (concerned, row) in best
        if row.usd > ZERO or row.tokens > 0
    ][:MAX_PROPOSALS]  # fmt: skip
    if not points:
        yield "Nothing was found that would have saved money."
        return
    yield Points(tuple(points))
    yield "Each is priced by itself, by the counts in the logs; `sagent why SESSION` also builds requests again."


def _saved(row: Row) -> str:
    tokens = f"{short_count(row.tokens)} tokens" if row.tokens else ""
    return ", ".join(filter(None, (saving_of(row.usd) if row.usd > 0 else "", tokens)))
