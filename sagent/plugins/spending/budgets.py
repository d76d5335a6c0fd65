"""The state of the standing budgets: what is left of each and when it renews."""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

from sagent.config import Settings
from sagent.errors import SagentError, UsageError
from sagent.lib.money import ZERO, number, show
from sagent.plugins.spending.book import Book
from sagent.plugins.spending.limits import Limit, limits_of, project_at, team_limits_of
from sagent.plugins.spending.team import open_team


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
    """Return the standing budgets with what is left of each, or the `problem` that a team's has. Runs a loop."""
    limits = limits_of(settings)
    rows: list[Mapping[str, object]] = []
    if limits:
        with closing(open_book(settings)) as book:
            rows += [_row(limit, *book.left(limit)) for limit in limits]
    return rows + asyncio.run(_of_team(settings)) if team_limits_of(settings) else rows


async def _of_team(settings: Settings) -> list[Mapping[str, object]]:
    try:
        async with open_team(settings) as team:
            return [_row(limit, *sums) for limit, sums in (await team.left()).items()] if team is not None else []
    except SagentError as error:
        unknown = dict.fromkeys(("spent", "held", "left", "project"))
        limits = team_limits_of(settings)
        return [_row(each, ZERO, ZERO) | unknown | {"problem": str(error)} for each in limits]


def _row(limit: Limit, spent: Decimal, held: Decimal) -> dict[str, object]:
    until = limit.renews(datetime.now(UTC))
    return {
        "budget": limit.setting, "usd": number(limit.usd), "spent": number(spent), "held": number(held),
        "left": number(max(limit.usd - spent - held, ZERO)),
        "renews": until.isoformat() if until else None, "project": limit.project or None,
    }  # fmt: skip


def in_words(budget: Mapping[str, object]) -> str:
    """Return what is left of a budget on one line."""
    if problem := budget.get("problem"):
        return f"{budget['budget']}: {show(Decimal(str(budget['usd'])))}, and what is left is unknown: {problem}"
    left, whole, held = (show(Decimal(str(budget[name]))) for name in ("left", "usd", "held"))
    until = budget["renews"] and datetime.fromisoformat(str(budget["renews"])).astimezone()
    renews = f", renews at {until:%Y-%m-%d %H:%M %Z}" if until else ""
    return f"{budget['budget']}: {left} of {whole} left{f', {held} held' if budget['held'] else ''}{renews}"
