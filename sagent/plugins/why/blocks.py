"""The account of a session, or of many, as headings, lines and tables, for terminals, Markdown and pages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeAlias, TypeVar

from sagent.lib.dataclass import dataclass
from sagent.lib.figures import bill, duration, money
from sagent.lib.figures import count as short_count
from sagent.lib.text import Table, cut
from sagent.plugins.why.account import Account, Day, Row
from sagent.plugins.why.course import PRIORITY, State, Subject, What
from sagent.plugins.why.proposals import MAX_PROPOSALS, Proposal

_K = TypeVar("_K")
MAX_ROWS = 14  # of a table
MAX_REPEATED = 5  # calls with repeated results to show
NARROW_COLUMNS = 60  # of a terminal below which a table has fewer columns
_MAX_LABEL_CHARS, _MAX_NARROW_CHARS = 44, 20
_LABELS: Mapping[What, str] = {
    "system": "system prompt and tools",
    "person": "your messages",
    "message": "messages of agents and jobs",
    "reply": "its own replies, sent again",
    "result": "results: {name}",
    "failed": "failed calls: {name}",
    "again": "repeated results: {name}",
    "summary": "summaries, sent again",
    "advice": "advice, sent again",
    "written": "replies as written",
    "cache": "cache misses",
    "compactor": "compaction",
    "advisor": "advisor {name}",
    "other": "{name}",
}
STATES: Mapping[State, str] = {
    "model": "the model",
    "tools": "tools",
    "limit": "limits of providers or budgets",
    "person": "waiting for a person",
    "idle": "idle or closed",
}


class Heading(NamedTuple):
    """A heading of a part."""

    text: str


@dataclass(frozen=True, slots=True)
class Points:
    """Numbered points, each of several sentences."""

    points: tuple[tuple[str, ...], ...]


Block: TypeAlias = Heading | Points | Table | str


def label_of(subject: Subject) -> str:
    """Describe what money goes to."""
    return _LABELS[subject.what].format(name=subject.name or "unknown").strip()


def bill_of(day: Day) -> str:
    """Return a cost with what it lacks."""
    return bill(day.whole.usd, day.unbilled, least=bool(day.unpriced))


def session_blocks(account: Account, proposals: Sequence[Proposal], *, narrow: bool = False) -> Iterator[Block]:
    """Yield the account of a session, and at most three proposals."""
    whole = account.whole
    seconds = sum(account.time.values()) / 1_000_000
    tokens = short_count(whole.whole.tokens)
    yield f"{account.session}: {bill_of(whole)}, {tokens} tokens, {duration(seconds)}"
    yield from (f"! {problem}" for problem in account.problems)
    yield from unpriced(whole)
    if whole.whole.charges:
        yield Heading("Money and tokens")
        yield rows_table(whole.subjects, label_of, whole.whole, narrow=narrow)
    if account.repeated:
        yield Heading("Read again")
        yield _repeated_table(account, narrow=narrow)
    if len(whole.models) > 1:
        yield Heading("By model")
        yield rows_table(whole.models, str, whole.whole, narrow=narrow)
    if len(whole.agents) > 1:
        yield Heading("By agent")
        yield rows_table(whole.agents, str, whole.whole, narrow=narrow)
    if seconds:
        yield Heading("Time")
        yield time_table(account.time)
    if whole.tools:
        yield Heading("Tools")
        yield tools_table(whole)
    yield Heading("What would have made it cheaper")
    yield from proposal_blocks(proposals)


def proposal_blocks(proposals: Sequence[Proposal]) -> Iterator[Block]:
    """Yield the best proposals, each with its check."""
    shown = proposals[:MAX_PROPOSALS]
    if not shown:
        yield "Nothing was found that would have saved money."
        return
    yield Points(tuple(tuple(_sentences(proposal)) for proposal in shown))
    if len(shown) > 1:
        yield "Each is priced by itself: together they would have saved less than their sum."


def _sentences(proposal: Proposal) -> Iterator[str]:
    tokens = f"{short_count(proposal.tokens)} tokens" if proposal.tokens else ""
    saved = tokens if proposal.usd is None else ", ".join(filter(None, (saving_of(proposal.usd), tokens)))
    yield f"{saved} less ({proposal.basis}): {proposal.what}."
    yield f"To change it: {proposal.change}."
    yield f"Checked: {proposal.check}." if proposal.check else "Not checked."


def saving_of(usd: Decimal) -> str:
    """Return a saved sum; one too small for four decimals is named so."""
    return "<$0.0001" if 0 < usd < Decimal("0.0001") else money(usd)


def rows_table(
    rows: Mapping[_K, Row],
    name: Callable[[_K], str],
    whole: Row,
    *,
    narrow: bool = False,
    head: str = "",
) -> Table:
    """Return parts as a table, the dearest first, with what they add up to."""
    order = sorted(rows.items(), key=lambda item: (-item[1].usd, -item[1].tokens))
    shown, rest = (order, []) if len(order) <= MAX_ROWS else (order[: MAX_ROWS - 1], order[MAX_ROWS - 1 :])
    lines = [(name(key), row) for key, row in shown]
    if rest:
        others = Row()
        for _, row in rest:
            others.add(row)
        lines.append((f"{len(rest)} more", others))
    lines.append(("in all", whole))
    width = _MAX_NARROW_CHARS if narrow else _MAX_LABEL_CHARS
    made = [_cells(cut(label, width), row, whole, narrow=narrow) for label, row in lines]
    titles = (head, "cost", "tokens") if narrow else (head, "cost", "share", "tokens")
    return Table(tuple(made), titles, right=tuple(range(1, len(titles))))


def _cells(label: str, row: Row, whole: Row, *, narrow: bool) -> tuple[str, ...]:
    usd = f"{'≥' * bool(row.unpriced)}{money(row.usd)}"
    share = f"{row.usd / whole.usd:.0%}" if whole.usd else f"{row.tokens / whole.tokens:.0%}" if whole.tokens else ""
    tokens = short_count(row.tokens) if row.tokens else ""
    return (label, usd, tokens) if narrow else (label, usd, share, tokens)


def time_table(time: Mapping[State, int]) -> Table:
    """Return time by what was done in it."""
    whole = sum(time.values())
    rows = [
        (STATES[state], duration(time[state] / 1_000_000), f"{time[state] / whole:.0%}")
        for state in PRIORITY
        if time.get(state)
    ]
    return Table((*rows, ("in all", duration(whole / 1_000_000), "")), ("", "time", "share"), right=(1, 2))


def tools_table(day: Day) -> Table:
    """Return the tools by the time that they ran; calls at the same time count separately."""
    order = sorted(day.tools.items(), key=lambda item: (-item[1].seconds, -item[1].calls))
    rows = [
        (cut(name or "unknown", _MAX_NARROW_CHARS), str(use.calls), str(use.failed or ""), duration(use.seconds))
        for name, use in order[:MAX_ROWS]
    ]
    return Table(tuple(rows), ("", "calls", "failed", "ran"), right=(1, 2, 3))


def _repeated_table(account: Account, *, narrow: bool) -> Table:
    width = _MAX_NARROW_CHARS if narrow else _MAX_LABEL_CHARS
    rows = [
        (cut(name, width), str(times), money(row.usd), short_count(row.tokens))
        for name, (times, row) in list(account.repeated.items())[:MAX_REPEATED]
    ]
    columns = 3 if narrow else 4
    titles = ("", "times", "cost", "tokens")[:columns]
    return Table(tuple(row[:columns] for row in rows), titles, right=tuple(range(1, columns)))


def unpriced(day: Day) -> Iterator[str]:
    """Name the models without a known price, if any."""
    if day.unpriced:
        yield f"At least: no known price of {', '.join(sorted(day.unpriced))}."
