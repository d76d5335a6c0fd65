"""Has an agent keep the standing budgets of the settings."""

import asyncio
from dataclasses import replace

from sagent.app.builder import AgentBuilder
from sagent.plugins.spending.budgets import open_book
from sagent.plugins.spending.ledger import StandingLedger
from sagent.plugins.spending.limits import limits_of, project_at
from sagent.plugins.spending.team import open_team


async def add(builder: AgentBuilder) -> None:
    """Pay the agent's calls from the standing budgets too. Raises UsageError if these cannot be kept."""
    settings, former, log = builder.settings, builder.resources.ledger, str(builder.log.path or "")
    assert former is not None
    book = await asyncio.to_thread(open_book, settings, log)
    builder.stack.callback(book.close)
    project = project_at(str(settings.cwd))
    ledger = StandingLedger(former.cap, former.prices, book, limits_of(settings), project, log)
    ledger.share(await builder.stack.enter_async_context(open_team(settings)))
    ledger.restore(builder.past.charges)
    builder.resources = replace(builder.resources, ledger=ledger)
