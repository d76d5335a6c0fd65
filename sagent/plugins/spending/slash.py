"""`/usage`: what all sessions on this machine have cost."""

import asyncio
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sagent.lib.figures import bill, count
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.greeting import short_path
from sagent.repl.view.lines import Line, Span, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sagent.plugins.spending.charges import Paid, Spending

MAX_ROWS = 14
_BAR = 16  # columns
_WAYS = (
    ("day", "the last days"),
    ("week", "the last weeks"),
    ("project", "by directory"),
    ("model", "by model"),
    ("person", "by account"),
)


@command(complete=_WAYS, here=True)
async def usage(context: CommandContext, by: Literal["day", "week", "project", "model", "person", ""] = "") -> None:
    """Show what all sessions here have cost.

    By day, week, project, model or person. Without one of these, the last days, the sums of today, the week and the
    month, and what is left of the standing budgets.
    """
    from sagent.plugins.spending.budgets import budgets_of, in_words
    from sagent.plugins.spending.charges import grouped, paid

    found = await asyncio.to_thread(lambda: list(paid(context.settings.state_dir)))
    spending = grouped(found, by or "day")
    budgets = [] if by else await asyncio.to_thread(budgets_of, context.settings)
    lines: list[Line] = [] if by else [*_sums(found), *((("", f"  {in_words(budget)}"),) for budget in budgets), ()]
    lines += _rows(spending, is_path=by == "project") or [(("class:dim", "  nothing was spent yet"),)]
    if spending.unpriced:
        lines.append((("class:warning", f"  At least: no known price of {', '.join(spending.unpriced)}"),))
    context.write(lines)


def _sums(paid: "Sequence[Paid]") -> list[Line]:
    from sagent.plugins.spending.charges import grouped

    today = datetime.now().astimezone().date()
    monday, first = today - timedelta(days=today.weekday()), today.replace(day=1)
    rows: list[list[Span]] = []
    for name, since in (("today", today), ("this week", monday), ("this month", first)):
        spent = grouped((each for each in paid if each.day >= since), "day")
        rows.append([("class:dim", name), ("", bill(spent.usd, spent.unbilled, least=bool(spent.unpriced)))])
    return list(table(rows, right=(1,)))


def _rows(spending: "Spending", *, is_path: bool) -> list[Line]:
    most = max((each.usd for each in spending.sums.values()), default=Decimal(0))
    shown = list(spending.sums.items())[:MAX_ROWS]
    rows: list[list[Span]] = [[("class:dim", head) for head in ("", "read", "written", "cost", "")]] if shown else []
    for name, each in shown:
        bar = "█" * max(round(_BAR * each.usd / most), 1) if each.usd else ""
        figures = (count(each.usage.total_input), count(each.usage.output))
        usd = bill(each.usd, each.unbilled, least=bool(each.unpriced))
        label = short_path(Path(name)) if is_path else name
        rows.append([("", label), *(("class:dim", text) for text in figures), ("", usd), ("class:mark", bar)])
    lines = list(table(rows, right=(1, 2, 3)))
    if (rest := len(spending.sums) - len(shown)) > 0:
        lines.append((("class:dim", f"  … {rest} more"),))
    return lines
