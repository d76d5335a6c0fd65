"""Messages name next steps in the words of the surface that shows them."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest

from sagent.cli.render import warn
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.events import Notice
from sagent.lib.text import in_repl, in_shell
from sagent.repl.view.blocks import Report, render_block

BOOK = PriceBook({"mine/flat": {"input": 1, "output": 1}})
SLASH = ("/cost", "/compact")


async def refused() -> str:
    ledger = Ledger(Decimal("0.0001"), BOOK)
    with pytest.raises(BudgetExceeded) as raised:
        await ledger.reserve("root", "executor", "mine", "flat", 500, 16, 16)
    return str(raised.value)


async def waited() -> str:
    ledger = Ledger(Decimal("0.001"), BOOK)
    first = await ledger.reserve("root/a", "executor", "mine", "flat", 0, 900, 900)
    waiting = asyncio.create_task(ledger.reserve("root/b", "executor", "mine", "flat", 0, 500, 500))
    while not (words := ledger.waits("root/b")):
        await asyncio.sleep(0)
    first.release()
    (await waiting).release()
    return words


@pytest.mark.parametrize("message", [refused, waited])
async def test_budget_step_fits_the_surface(message: Callable[[], Awaitable[str]]) -> None:
    text = await message()
    assert "(max_budget_usd)" in text and not any(word in text for word in SLASH), "a program has no slash commands"
    assert "(--max-budget-usd)" in in_shell(text) and not any(word in in_shell(text) for word in SLASH)
    shown = " ".join("".join(part for _, part in line).strip() for line in render_block(Report(text, "error"), 200))
    assert "(/cost USD)" in shown and "max_budget_usd" not in shown and "--max" not in shown


async def test_shorter_input_step_fits_the_surface() -> None:
    text = await refused()
    assert "(sagent sessions compact)" in in_shell(text)
    assert "(/compact)" in in_repl(text) and "sagent sessions" not in in_repl(text)


def test_shell_warning_names_its_agent() -> None:
    out = io.StringIO()
    warn(Notice("root/w", "warning", "no room (max_budget_usd)"), out)
    warn(Notice("root", "warning", "no room"), out)
    assert out.getvalue().splitlines() == ["sagent: root/w: no room (--max-budget-usd)", "sagent: no room"]
