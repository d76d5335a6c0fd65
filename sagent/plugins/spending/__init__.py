"""What was spent over days, and budgets that all sessions of a person share: a day's, a month's, a project's."""

from sagent.config.values import switch, usd
from sagent.plugin import SESSIONS, Command, Part, Plugin, Setting, SlashCommand

_USD = ("Decimal | None", "_Usd | None", "lower")
DAY = Setting("budget_day", usd, None, *_USD, metavar="N", help="spend at most N USD a day, in all sessions")
MONTH = Setting("budget_month", usd, None, *_USD, metavar="N", help="spend at most N USD a month, in all sessions")
PROJECT = Setting("budget_project", usd, None, *_USD, metavar="N", help="spend at most N USD in this project, ever")
QUOTE = Setting(
    "quote", switch, default=True, type="bool", keyword_type="bool | None", flag="no-quote",
    help="plans are accepted without a quote from earlier tasks, and without stopping at its upper end",
)  # fmt: skip
_BUDGETS = (DAY, MONTH, PROJECT)
plugin = Plugin(
    "spending",
    "what was spent over days, and budgets of a day, a month and a project",
    commands=(
        Command(
            "usage", "show what all sessions have cost", "sagent.plugins.spending.command:run_usage", group=SESSIONS
        ),
    ),
    parts=(
        Part("sagent.plugins.spending.part:add", tuple(each.name for each in _BUDGETS), "around"),
        Part("sagent.plugins.spending.planning:add", ("proposes a plan", "somebody answers"), "offered"),
    ),
    settings=(*_BUDGETS, QUOTE),
    slash_commands=(SlashCommand("usage", "sagent.plugins.spending.slash:usage"),),
)
