"""The state of the standing budgets: what is left of each and when it renews."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from sagent.config import Settings
from sagent.lib.money import number, show
from sagent.plugins.spending.book import FOLDER, Book
from sagent.plugins.spending.limits import limits_of


def budgets_of(settings: Settings) -> list[Mapping[str, object]]:
    """Return the standing budgets with what is left of each."""
    limits, now = limits_of(settings), datetime.now(UTC)
    if not limits:
        return []
    book = Book(settings.state_dir) if (settings.state_dir / FOLDER).is_dir() else None
    rows: list[Mapping[str, object]] = []
    try:
        for limit in limits:
            spent, held = book.left(limit) if book else (limit.usd * 0, limit.usd * 0)
            until = limit.renews(now)
            rows.append(
                {
                    "budget": limit.setting, "usd": number(limit.usd), "spent": number(spent), "held": number(held),
                    "left": number(max(limit.usd - spent - held, limit.usd * 0)),
                    "renews": until.isoformat() if until else None, "project": limit.project or None,
                }
            )  # fmt: skip
    finally:
        if book:
            book.close()
    return rows


def in_words(budget: Mapping[str, object]) -> str:
    """Return what is left of a budget on one line."""
    left, whole, held = (show(Decimal(str(budget[name]))) for name in ("left", "usd", "held"))
    renews = f", renews at {budget['renews']}" if budget["renews"] else ""
    return f"{budget['budget']}: {left} of {whole} left{f', {held} held' if budget['held'] else ''}{renews}"
