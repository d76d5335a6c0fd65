"""The state of the standing budgets: what is left of each and when it renews."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

from sagent.config import Settings
from sagent.errors import UsageError
from sagent.lib.money import ZERO, number, show
from sagent.plugins.spending.book import Book
from sagent.plugins.spending.limits import limits_of, project_at


def open_book(settings: Settings, session: str = "") -> Book:
    """Return the book, which has the charges of all logs. Raises UsageError."""
    book = Book(settings.state_dir, session)
    try:
        book.take_in(project_at)
    except (OSError, sqlite3.Error) as error:
        book.close()
        raise UsageError(f"What was spent earlier cannot be read: {error}. No standing budget can be kept.") from error
    return book


def budgets_of(settings: Settings) -> list[Mapping[str, object]]:
    """Return the standing budgets with what is left of each."""
    limits, now = limits_of(settings), datetime.now(UTC)
    if not limits:
        return []
    rows: list[Mapping[str, object]] = []
    with closing(open_book(settings)) as book:
        for limit in limits:
            spent, held = book.left(limit)
            until = limit.renews(now)
            rows.append(
                {
                    "budget": limit.setting, "usd": number(limit.usd), "spent": number(spent), "held": number(held),
                    "left": number(max(limit.usd - spent - held, ZERO)),
                    "renews": until.isoformat() if until else None, "project": limit.project or None,
                }
            )  # fmt: skip
    return rows


def in_words(budget: Mapping[str, object]) -> str:
    """Return what is left of a budget on one line."""
    left, whole, held = (show(Decimal(str(budget[name]))) for name in ("left", "usd", "held"))
    until = budget["renews"] and datetime.fromisoformat(str(budget["renews"])).astimezone()
    renews = f", renews at {until:%Y-%m-%d %H:%M %Z}" if until else ""
    return f"{budget['budget']}: {left} of {whole} left{f', {held} held' if budget['held'] else ''}{renews}"
