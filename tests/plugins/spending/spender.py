"""A process that pays calls from standing budgets until these refuse: `python spender.py STATE CAP [HANG]`.

It prints what each call has cost, in billionths of a USD, before it settles; with HANG it stops in the middle of its
first call and says so.
"""

import asyncio
import random
import sys
from decimal import Decimal
from pathlib import Path

from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.plugins.spending.book import Book
from sagent.plugins.spending.ledger import StandingLedger
from sagent.plugins.spending.limits import Limit
from sagent.usage import Charge, Usage


async def main(state: Path, cap: Decimal, hangs: bool) -> None:
    book = Book(state)
    prices = PriceBook({"p/m": {"input": 1, "output": 10}})
    ledger = StandingLedger(None, prices, book, (Limit("budget_day", cap, "day"),), "", "")
    try:
        while True:
            held = await ledger.reserve("root", "executor", "p", "m", 1_000, 500)
            if hangs:
                print("held", flush=True)
                await asyncio.sleep(600)
            await asyncio.sleep(random.random() / 100)
            output = random.randint(0, held.max_output or 0)
            (settled,) = held.settle([Charge("m", Usage(input=random.randint(1, 1_000), output=output))])
            assert settled.usd is not None
            print(int(settled.usd * 10**9), flush=True)
    except BudgetExceeded as error:
        print(error, file=sys.stderr)
    finally:
        book.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Decimal(sys.argv[2]), "HANG" in sys.argv))
