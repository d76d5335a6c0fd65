"""A process that pays calls from a team's budget until this refuses: `python team_spender.py STATE CAP URL [HANG]`.

It prints what each call has cost, in billionths of a USD, before it settles; with HANG it stops in the middle of its
first call and says so.
"""

import asyncio
import random
import sys
from contextlib import closing
from datetime import UTC
from decimal import Decimal
from pathlib import Path

from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.plugins.mesh.team_money import team_money
from sagent.plugins.spending.book import Book
from sagent.plugins.spending.ledger import StandingLedger
from sagent.plugins.spending.limits import Limit
from sagent.plugins.spending.team import Team
from sagent.usage import Charge, Usage


async def main(state: Path, cap: Decimal, url: str, hangs: bool) -> None:
    prices = PriceBook({"p/m": {"input": 1, "output": 10}})
    with closing(Book(state)) as book:
        async with team_money(url) as money:
            ledger = StandingLedger(None, prices, book, (), "", "")
            ledger.share(Team(money, (Limit("budget_team_day", cap, "day", zone=UTC),)))
            try:
                while True:
                    held = await ledger.reserve("root", "executor", "p", "m", 1_000, 500)
                    if hangs:
                        print("held", flush=True)
                        await asyncio.sleep(600)
                    await asyncio.sleep(random.random() / 50)
                    used = Usage(input=random.randint(1, 1_000), output=random.randint(0, held.max_output or 0))
                    (settled,) = held.settle([Charge("m", used)])
                    assert settled.usd is not None
                    print(int(settled.usd * 10**9), flush=True)
            except BudgetExceeded as error:
                print(error, file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Decimal(sys.argv[2]), sys.argv[3], "HANG" in sys.argv))
