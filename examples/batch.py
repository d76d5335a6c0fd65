"""A thousand files, eight at a time, under one budget that all of them share.

python examples/batch.py
"""

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path

from sagent import Agent, BudgetExceeded, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.testing import ScriptedModel

PRICES = PriceBook({"scripted/scripted": {"input": "0.1", "output": "0.5"}})


async def main() -> None:
    """Money is reserved before each call, so that the budget holds however many are under way."""
    ledger, free, found = Ledger(Decimal("0.005"), PRICES), asyncio.Semaphore(8), dict[str, str]()

    async def label(file: Path) -> None:
        async with free:
            model = ScriptedModel("invoice" if "total" in file.read_text() else "letter")
            async with Agent(model, system="One word.", resources=Resources(ledger=ledger)) as agent:
                found[file.name] = (await agent.run(f"What is this?\n{file.read_text()}")).content

    with tempfile.TemporaryDirectory() as place:
        for number in range(1_000):
            Path(place, f"{number:04}.txt").write_text("total: 12.50" if number % 3 else "Dear Sir or Madam")
        try:
            async with asyncio.TaskGroup() as group:
                for file in sorted(Path(place).iterdir()):
                    group.create_task(label(file))
        except* BudgetExceeded as refused:
            print(f"the rest was not begun: {refused.exceptions[0]}")
    print(
        f"{len(found)} files, {sum(each == 'invoice' for each in found.values())} invoices, {ledger.cost().total} USD"
    )


asyncio.run(main())
