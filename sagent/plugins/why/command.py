"""`sagent why`: where the money, tokens and time of a session went, or of all sessions since a day."""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, time, timedelta
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Protocol

from sagent.app.models import price_book
from sagent.cli.flags import SESSION, Parser
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.config import Settings
from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.lib.atomic import atomic_output
from sagent.lib.json import canonical_bytes, sha256_hex
from sagent.lib.money import number
from sagent.lib.names import path_of
from sagent.lib.text import Table
from sagent.plugins.audit.redacted import report_secrets, without_secrets
from sagent.plugins.lab.recording import locate, session_at
from sagent.plugins.spending.limits import midnight
from sagent.plugins.why.account import Account, Day, account_of, project_of, read_courses
from sagent.plugins.why.account import Row as CostRow
from sagent.plugins.why.blocks import NARROW_COLUMNS, Block, Points, label_of, session_blocks
from sagent.plugins.why.course import PRIORITY
from sagent.plugins.why.pages import as_lines, as_markdown, as_page
from sagent.plugins.why.proposals import MAX_PROPOSALS, Proposal, propose
from sagent.plugins.why.rates import RateBook
from sagent.plugins.why.rebuilding import check
from sagent.plugins.why.week import Period, period_blocks, read_period, tool_rows
from sagent.providers.rows import Row
from sagent.transcript.redaction import Redaction

DESCRIPTION = """Show where the money, the tokens and the time of a session went, subagents included, and at most three
changes that would have made it cheaper, each checked against the requests in its log. With --week or --since, show all
sessions of these days."""
MAX_WIDTH = 100
"""Longest lines of text, in columns."""
_UNITS = {"d": 1, "w": 7}
_AGO = re.compile(r"(\d{1,5})([dw])")
_FORMS = ("text", "json", "md", "html")


class _Blocks(Protocol):
    """A report, with fewer columns on a narrow terminal."""

    def __call__(self, *, narrow: bool) -> Iterable[Block]: ...


def run_why(argv: Sequence[str]) -> int:
    """Run `sagent why`. Returns 1 if a log could not be read to its end."""
    given = _parser().parse_args(argv)
    settings = load_settings({"cwd": given.cwd, "config": given.config})
    since = _since("7d" if given.week else given.since)
    if since is not None and (given.session or given.model):
        raise UsageError("--week and --since are about all sessions: leave out the session and --model.")
    if given.out is not None and given.output_format in ("text", "json"):
        raise UsageError("--out FILE needs --output-format md or html.")
    book = price_book(settings)
    if since is not None:
        period = read_period(settings.state_dir, since, RateBook(book.price), _mark_of(settings))
        title = f"What sagent cost since {period.since}"
        _show(title, _period_json(period), partial(period_blocks, period), given)
        return 1 if period.problems else 0
    with session_at(locate(settings, given.session)) as session:
        account, proposals = explain(session, book, given.model or (), settings.rows)
    title = f"Why {account.session} cost what it did"
    _show(title, _session_json(account, proposals), partial(session_blocks, account, proposals), given)
    return 1 if account.problems else 0


def explain(
    session: Path, book: PriceBook, models: Iterable[str] = (), rows: Mapping[str, Row] | None = None
) -> tuple[Account, Sequence[Proposal]]:
    """Return the account of a session and its best proposals, checked. `rows` are a person's own providers. Raises
    OSError."""
    rates = RateBook(book.price)
    courses = read_courses(session, rates)
    account = account_of(session.name, project_of(session), courses)
    proposals = propose(courses, rates, models, lambda name, tokens: _fits(book, name, tokens))[:MAX_PROPOSALS]
    check(session, proposals, rows)
    still = [proposal for proposal in proposals if proposal.saves]
    return account, sorted(still, key=lambda proposal: (-(proposal.usd or 0), -proposal.tokens))


def _parser() -> Parser:
    parser = Parser("why", DESCRIPTION)
    parser.add_argument("session", nargs="?", help=SESSION)
    days = parser.add_mutually_exclusive_group()
    days.add_argument("--week", action="store_true", help="show all sessions of the last seven days")
    days.add_argument("--since", metavar="DATE", help="show all from this day on: 2026-12-01, or 7d or 4w ago")
    model = "price the session's requests as this model's, too (repeatable)"
    parser.add_argument("--model", metavar="MODEL", action="append", help=model)
    parser.add_argument(
        "--output-format", metavar="F", choices=_FORMS, default="text", help="text (default), json, md or html"
    )
    parser.add_argument("--out", metavar="FILE", help="write md or html to this file")
    parser.add_cwd()
    parser.add_config()
    return parser


def _fits(book: PriceBook, name: str, tokens: int) -> bool:
    """Return True if a request fits a model, or its window is not known."""
    provider, _, model = name.partition("/")
    window = book.window(provider, model)
    return window is None or tokens <= window


def _mark_of(settings: Settings) -> str:
    """Return a name of the person's own prices."""
    return sha256_hex(canonical_bytes({name: {**row} for name, row in settings.prices.items()}))


def _since(text: str | None) -> datetime | None:
    """Return local midnight of a day, given as a date or as days or weeks ago. Raises UsageError."""
    if text is None:
        return None
    word = text.strip()
    try:
        if ago := _AGO.fullmatch(word):
            return midnight(datetime.now().astimezone() - timedelta(days=int(ago[1]) * _UNITS[ago[2]]))
        return midnight(datetime.combine(datetime.fromisoformat(word), time()))
    except (ValueError, OverflowError):  # also for a day that no clock has
        raise UsageError(f"--since {word!r}: give a day, as 2026-12-01, or 7d or 4w for days or weeks ago.") from None


def _show(title: str, value: object, blocks: _Blocks, given: argparse.Namespace) -> None:
    """Write a report in the chosen form, without likely secrets."""
    redaction = Redaction()
    form = str(given.output_format)
    on_terminal = sys.stdout.isatty() and form == "text"
    width = min(get_terminal_size().columns, MAX_WIDTH) if on_terminal else MAX_WIDTH
    clean = [without_secrets_in(block, redaction) for block in blocks(narrow=width < NARROW_COLUMNS)]
    match form:
        case "html":
            _write(given.out, as_page(title, clean))
        case "md":
            _write(given.out, "".join(f"{line}\n" for line in as_markdown(title, clean)).encode())
        case _:
            show(redaction.value(value), as_lines(clean, width), as_json=form == "json")
    report_secrets(redaction)


def without_secrets_in(block: Block, redaction: Redaction) -> Block:
    """Return a block without what looks like a secret."""
    if isinstance(block, Points):
        return Points(tuple(tuple(map(redaction.text, sentences)) for sentences in block.points))
    return without_secrets(block, redaction) if isinstance(block, Table) or type(block) is str else block


def _write(out: str | None, data: bytes) -> None:
    """Write to a file whole or not at all; or to standard output."""
    if out is None:
        sys.stdout.buffer.write(data)
        return
    with atomic_output(path_of(out)) as file:
        file.write(data)


def _session_json(account: Account, proposals: Sequence[Proposal]) -> Mapping[str, object]:
    return {
        "session": account.session,
        "project": account.project,
        **_day_json(account.whole),
        "seconds": {state: account.time.get(state, 0) / 1_000_000 for state in PRIORITY},
        "repeated": {name: {"times": times, **_row_json(row)} for name, (times, row) in account.repeated.items()},
        "compactions": account.compactions,
        "proposals": [
            {
                "kind": proposal.kind, "what": proposal.what, "change": proposal.change, "usd": number(proposal.usd),
                "tokens": proposal.tokens, "basis": proposal.basis, "requests": proposal.requests,
                "check": proposal.check,
            }
            for proposal in proposals
        ],
        "problems": [*account.problems],
    }  # fmt: skip


def _period_json(period: Period) -> Mapping[str, object]:
    return {
        "since": period.since,
        **_day_json(period.whole),
        "days": {name: _row_json(row) for name, row in sorted(period.dates.items(), reverse=True)},
        "projects": {name: _row_json(row) for name, row in period.projects.items()},
        "sessions": {name: _row_json(row) for name, row in period.sessions.items()},
        "seconds": {state: period.whole.time.get(state, 0) / 1_000_000 for state in PRIORITY},
        "proposals": [
            {"kind": kind, "sessions": len(concerned), "usd": number(row.usd), "tokens": row.tokens}
            for kind, (concerned, row) in period.changes.items()
        ],
        "problems": [*period.problems],
    }


def _day_json(day: Day) -> Mapping[str, object]:
    parts = [
        {"what": subject.what, "name": subject.name, "label": label_of(subject), **_row_json(row)}
        for subject, row in sorted(day.subjects.items(), key=lambda item: -item[1].usd)
    ]
    tools = {
        name: {**_row_json(row), "calls": use.calls, "failed": use.failed, "seconds": round(use.seconds, 3)}
        for name, (row, use) in tool_rows(day).items()
    }
    return {
        **_row_json(day.whole), "unbilled": number(day.unbilled), "unpriced": sorted(day.unpriced), "parts": parts,
        "models": {name: _row_json(row) for name, row in day.models.items()},
        "agents": {name: _row_json(row) for name, row in day.agents.items()},
        "tools": tools,
    }  # fmt: skip


def _row_json(row: CostRow) -> dict[str, object]:
    return {"usd": number(row.usd), "tokens": row.tokens}
