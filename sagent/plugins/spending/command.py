"""`sagent usage`: what all sessions on this machine have cost, and what is left of standing budgets."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import cast, get_args

from sagent.cli.flags import Parser
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.figures import bill, count
from sagent.lib.money import number
from sagent.lib.text import Table
from sagent.plugins.spending.budgets import budgets_of, in_words
from sagent.plugins.spending.charges import Grouping, Spending, grouped, paid
from sagent.plugins.spending.limits import midnight
from sagent.usage import BUCKETS

_UNITS = {"d": 1, "w": 7}
_AGO = re.compile(r"(\d{1,5})([dw])")


def run_usage(argv: Sequence[str]) -> int:
    """Run `sagent usage`."""
    parser = Parser(
        "usage", "Show what all sessions on this machine have cost, subagents included, and what is left of budgets.",
        argument_default=argparse.SUPPRESS,
    )  # fmt: skip
    parser.add_argument("--by", choices=get_args(Grouping), default="day", help="how to sum (default: by day)")
    parser.add_argument("--since", metavar="DATE", help="only from this day on: 2026-12-01, or 7d or 4w ago")
    parser.add_argument("--output-format", metavar="F", choices=("text", "json"), help="text (default) or json")
    parser.add_argument("--config", metavar="FILE", help="a TOML or YAML file to use in place of your user settings")
    parser.add_cwd()
    given = vars(parser.parse_args(argv))
    settings = load_settings({name: given[name] for name in ("cwd", "config") if given.get(name) is not None})
    by, since = cast("Grouping", given["by"]), _since(given.get("since"))
    found = grouped(paid(settings.state_dir, since), by)
    budgets = budgets_of(settings)
    value = {"by": by, "since": since.isoformat() if since else None, **_as_json(found), "budgets": budgets}
    show(value, _lines(found, by, budgets), as_json=given.get("output_format") == "json")
    return 0


def _since(text: object) -> datetime | None:
    """Return local midnight of a day, given as a date or as days or weeks ago. Raises UsageError."""
    if text is None:
        return None
    word = str(text).strip()
    try:
        if ago := _AGO.fullmatch(word):
            return midnight(datetime.now().astimezone() - timedelta(days=int(ago[1]) * _UNITS[ago[2]]))
        found = datetime.fromisoformat(word)
        return midnight(found) if found.time() == time() and found.tzinfo is None else found.astimezone()
    except (ValueError, OverflowError):  # also for a day that no clock has
        raise UsageError(f"--since {word!r}: give a day, as 2026-12-01, or 7d or 4w for days or weeks ago.") from None


def _as_json(spending: Spending) -> Mapping[str, object]:
    rows = [
        {
            "name": name, "usd": number(each.usd), "unbilled": number(each.unbilled), "unpriced": bool(each.unpriced),
            "usage": {bucket: getattr(each.usage, bucket) for bucket in BUCKETS},
        }
        for name, each in spending.sums.items()
    ]  # fmt: skip
    return {
        "rows": rows,
        "usd": number(spending.usd),
        "unbilled": number(spending.unbilled),
        "unpriced": [*spending.unpriced],
    }


def _lines(spending: Spending, by: str, budgets: Sequence[Mapping[str, object]]) -> Iterator[str | Table]:
    if not spending.sums:
        yield "Nothing was spent."
    else:
        rows = (
            (
                name, count(each.usage.total_input), count(each.usage.output),
                bill(each.usd, each.unbilled, least=bool(each.unpriced)),
            )
            for name, each in spending.sums.items()
        )  # fmt: skip
        yield Table(tuple(rows), (by, "read", "written", "cost"), right=(1, 2, 3))
        yield f"{bill(spending.usd, spending.unbilled, least=bool(spending.unpriced))} in all"
    if spending.unpriced:
        yield f"At least: no known price of {', '.join(spending.unpriced)}"
    yield from map(in_words, budgets)
