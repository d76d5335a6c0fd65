"""Has an agent keep the standing budgets of the settings."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

from sagent.app.builder import AgentBuilder
from sagent.context.instructions import repository_root
from sagent.errors import UsageError
from sagent.plugins.spending.book import Book
from sagent.plugins.spending.ledger import StandingLedger
from sagent.plugins.spending.limits import limits_of, project_of


async def add(builder: AgentBuilder) -> None:
    """Pay the agent's calls from the standing budgets too. Raises UsageError if these cannot be kept."""
    settings, former, log = builder.settings, builder.resources.ledger, str(builder.log.path or "")
    assert former is not None
    book = Book(settings.state_dir, log)
    builder.stack.callback(book.close)
    try:
        await asyncio.to_thread(book.take_in, _project)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"What was spent earlier cannot be read: {error}.") from error
    ledger = StandingLedger(former.cap, former.prices, book, limits_of(settings), project_of(settings), log)
    ledger.restore(builder.past.charges)
    builder.resources = replace(builder.resources, ledger=ledger)


def _project(cwd: str) -> str:
    """Return the project of a directory that may be gone."""
    return str(repository_root(Path(cwd)) or cwd)
