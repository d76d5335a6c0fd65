"""What was spent over days, and budgets that all sessions share: of a person's day, month and project, or a team's."""

from sagent.config.values import switch, text_of, usd
from sagent.plugin import SESSIONS, Command, Extra, Part, Plugin, Setting, SlashCommand

_USD = ("Decimal | None", "_Usd | None", "lower")
DAY = Setting("budget_day", usd, None, *_USD, metavar="N", help="spend at most N USD a day, in all sessions")
MONTH = Setting("budget_month", usd, None, *_USD, metavar="N", help="spend at most N USD a month, in all sessions")
PROJECT = Setting("budget_project", usd, None, *_USD, metavar="N", help="spend at most N USD in this project, ever")
TEAM_DAY = Setting(
    "budget_team_day", usd, None, *_USD, metavar="N", help="spend at most N USD a day, with the team of budget_team_bus"
)
TEAM_MONTH = Setting(
    "budget_team_month", usd, None, *_USD, metavar="N", help="spend at most N USD a month, with that team"
)
TEAM_BUS = Setting("budget_team_bus", text_of, metavar="URL", help="the bus on which a team's budgets are kept")
QUOTE = Setting(
    "quote", switch, default=True, type="bool", keyword_type="bool | None", flag="no-quote",
    help="plans are accepted without a quote from earlier tasks, and without stopping at its upper end",
)  # fmt: skip
_BUDGETS = (DAY, MONTH, PROJECT, TEAM_DAY, TEAM_MONTH)
plugin = Plugin(
    "spending",
    "what was spent over days, and budgets of a day, a month, a project and a team",
    commands=(
        Command(
            "usage", "show what all sessions have cost", "sagent.plugins.spending.command:run_usage", group=SESSIONS
        ),
    ),
    parts=(
        Part("sagent.plugins.spending.part:add", tuple(each.name for each in _BUDGETS), "around"),
        Part("sagent.plugins.spending.planning:add", ("proposes a plan", "somebody answers"), "offered"),
    ),
    settings=(*_BUDGETS, TEAM_BUS, QUOTE),
    slash_commands=(SlashCommand("usage", "sagent.plugins.spending.slash:usage"),),
    extras=(Extra("examples", "./examples.txt"),),
)
