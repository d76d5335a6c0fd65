"""Savings of compactions: the interface to the plugin that computes them from a log."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Protocol, TypeAlias, cast

from sagent.plugin import extra_of_ours
from sagent.session.view import LogView
from sagent.usage import Saving, Usage

Price: TypeAlias = Callable[[str, str, Usage, datetime, str], Decimal | None]
"""USD by list price, for provider, model, tokens, time, service tier; None if unknown."""
SAVINGS = "compaction savings"
"""The extension point for a class of Savings, made from a price and from tokens that were left out before the log."""


class Savings(Protocol):
    """Follows a log and computes its savings so far."""

    def follow(self, log: LogView) -> Saving:
        """Return the savings from all current entries. Raises SessionCorrupt and OSError."""
        ...


def new_savings(price: Price, more: int = 0) -> Savings | None:
    """Return a new computation; None if the plugin is missing."""
    made = extra_of_ours(SAVINGS)
    return None if made is None else cast("Callable[[Price, int], Savings]", made)(price, more)
