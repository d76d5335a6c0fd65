"""A budget by team: `team_budget = ["search=5.00", "web=2.50"]` in config.toml, and `--bill-to search` for each run.

A run of a team that has nothing left is refused; any other may spend what is left. SQLite keeps what calls have cost.
"""

import sqlite3
from decimal import Decimal

from sagent.app.builder import AgentBuilder
from sagent.config.values import name_of, names_of, usd
from sagent.errors import UsageError
from sagent.lib.money import ZERO, show, total
from sagent.plugin import Part, Plugin, Setting
from sagent.usage import Charge


def budgets_of(value: object, _: object = None) -> tuple[str, ...]:
    """Read budgets, each NAME=USD."""
    return tuple(f"{name}={usd(amount)}" for name, _, amount in (row.partition("=") for row in names_of(value)))


BUDGETS = Setting("team_budget", budgets_of, (), "tuple[str, ...]", adds=True)
TEAM = Setting("bill_to", name_of, metavar="TEAM", help="the team whose budget this run is on")


async def add(builder: AgentBuilder) -> None:
    """Refuse the run or lower its cap, and book what it spends."""
    budgets = dict(row.split("=") for row in budgets_of(builder.settings.of(BUDGETS)))
    team, ledger = str(builder.settings.of(TEAM) or ""), builder.resources.ledger
    if team not in budgets or ledger is None:
        raise UsageError(f"Say who pays, with --bill-to: {', '.join(budgets)}.")
    try:
        builder.settings.state_dir.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(builder.settings.state_dir / "team_budget.db")
        builder.stack.callback(database.close)
        database.execute("CREATE TABLE IF NOT EXISTS spent (team TEXT, usd TEXT)")
    except (OSError, sqlite3.Error) as error:  # any other error would have the run go on without its budget
        raise UsageError(f"What teams have spent cannot be read: {error}") from error
    most, own = ledger.cap, [ledger.whole.counted]  # a session that goes on has spent before

    def bound() -> Decimal:
        spent = database.execute("SELECT usd FROM spent WHERE team = ?", (team,))
        left = Decimal(budgets[team]) - total(Decimal(row[0]) for row in spent)
        cap = total((*own, left))
        ledger.cap = min(cap, cap if most is None else most)
        return left

    def book(charge: Charge) -> None:
        own.append(charge.at_most or charge.usd or ZERO)
        with database:
            database.execute("INSERT INTO spent VALUES (?, ?)", (team, str(own[-1])))
        bound()

    if bound() <= 0:
        raise UsageError(f"The budget of the team {team}, {show(Decimal(budgets[team]))}, is used up.")
    ledger.listen(book)


plugin = Plugin("team-budget", parts=(Part(":add", ("team_budget",)),), settings=(BUDGETS, TEAM))
