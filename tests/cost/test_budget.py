"""Budgets within budgets: nothing is spent twice, what is set aside can be spent whole, and what is left comes back."""

import asyncio
from decimal import Decimal, Inexact, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.cost.budget import Budget
from sagent.cost.ledger import Ledger, Reservation
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.usage import Charge, Usage

BOOK = PriceBook({"mine/flat": {"input": 1, "output": 1}})
MICRO = Decimal("0.000001")
PATHS = ["root", "root/a", "root/b", "root/a/x", "root/a/y", "root/a/x/deep"]


def test_allowance_is_reserved_and_returned():
    outer: Budget[None, None] = Budget("", Decimal(10))
    inner: Budget[None, None] = Budget("root/a", Decimal(4), outer)
    assert (outer.room, inner.room) == (6, 4)
    inner.reserve(Decimal(3))
    inner.reserve(Decimal(-3))
    inner.count(Decimal(1))
    assert (outer.room, inner.room) == (6, 3)
    inner.close()
    assert (outer.room, outer.counted, outer.allotted, inner.living()) == (9, 1, 0, outer)


def test_overbilled_allowance_lacks_above():
    outer: Budget[None, None] = Budget("", Decimal(10))
    inner: Budget[None, None] = Budget("root/a", Decimal(4), outer)
    inner.count(Decimal(7))
    assert (inner.room, outer.room) == (-3, 3)


def test_closed_outer_purse_reserves_further_out():
    outer: Budget[None, None] = Budget("", Decimal(10))
    middle: Budget[None, None] = Budget("root/a", Decimal(5), outer)
    inner: Budget[None, None] = Budget("root/a/x", Decimal(2), middle)
    middle.close()
    assert outer.room == 8
    inner.count(Decimal(3))
    assert outer.room == 7
    inner.close()
    assert (outer.room, outer.counted, outer.allotted) == (7, 3, 0)


async def test_held_money_returns_in_any_context():
    ledger = Ledger(Decimal(1), BOOK)
    with localcontext() as context:
        context.prec, context.traps[Inexact] = 3, True
        ledger.allow("root/a", Decimal("0.23456789"))
        with await ledger.reserve("root/a", "executor", "mine", "flat", 12_345, 777) as reservation:
            reservation.settle([Charge("flat", Usage(output=7))])
        with pytest.raises(BudgetExceeded):
            await ledger.reserve("root/a", "executor", "mine", "flat", 234_567, 777)
        ledger.take_back("root/a")
        assert (ledger.held, ledger.room("root")) == (0, Decimal("0.999993"))


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["allow", "take", "reserve", "settle", "release"]), st.integers(0, 5), st.integers(0, 60)
    ),
    max_size=60,
)


@given(STEPS, st.integers(50, 200))
def test_no_budget_is_passed_in_any_order(steps: list[Step], cap: int):
    """Allowances come and go in any order, nested or not, with calls in flight across all of it."""
    ledger = Ledger(cap * MICRO, BOOK)
    asyncio.run(_play(ledger, steps, cap * MICRO))


async def _play(ledger: Ledger, steps: list[Step], cap: Decimal) -> None:
    in_flight: list[Reservation] = []
    allowed: dict[str, Decimal] = {}
    spent = Decimal(0)
    for what, which, amount in steps:
        path = PATHS[which]
        match what:
            case "allow" if path not in allowed:
                try:
                    ledger.allow(path, amount * MICRO)
                    allowed[path] = amount * MICRO
                except BudgetExceeded:
                    pass
            case "take":
                ledger.take_back(path)
                allowed.pop(path, None)
            case "reserve":
                task = asyncio.create_task(ledger.reserve(path, "executor", "mine", "flat", 0, max(1, amount), 1))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if not task.done():
                    task.cancel()  # it would wait for others; they may never end here
                    await asyncio.wait([task])
                elif task.exception() is None:
                    in_flight.append(task.result())
                else:
                    assert isinstance(task.exception(), BudgetExceeded)
            case "settle" if in_flight:
                reservation = in_flight.pop(amount % len(in_flight))
                assert reservation.max_output is not None
                output = min(amount, reservation.max_output)
                reservation.settle([Charge("flat", Usage(output=output))])
                spent += output * MICRO
            case "release" if in_flight:
                in_flight.pop(amount % len(in_flight)).release()
            case _:
                continue
        assert ledger.cost().total == spent
        assert ledger.held == sum((each.held for each in in_flight), Decimal(0))
        assert spent + ledger.held <= cap
        root = ledger._budgets[""]
        for budget in ledger._budgets.values():
            assert budget.counted + budget.held + budget.allotted <= (budget.cap or 0)
        inner = sum(
            (budget.claim for budget in ledger._budgets.values() if budget.outer and budget.outer.living() is root),
            Decimal(0),
        )
        assert root.allotted == inner
    for reservation in in_flight:
        reservation.release()
    for path in [*allowed]:
        ledger.take_back(path)
    assert (ledger.held, root_of(ledger).allotted, root_of(ledger).counted) == (0, 0, spent)


def root_of(ledger: Ledger) -> "Budget[object, Reservation]":
    return ledger._budgets[""]  # pyright: ignore[reportReturnType]


async def test_call_in_returned_purse_goes_on_above():
    ledger = Ledger(100 * MICRO, BOOK)
    ledger.allow("root/a", 20 * MICRO)
    first = await ledger.reserve("root/a", "executor", "mine", "flat", 0, 20, 20)
    waiting = asyncio.create_task(ledger.reserve("root/a", "executor", "mine", "flat", 0, 20, 20))
    await asyncio.sleep(0)
    assert not waiting.done()
    ledger.take_back("root/a")
    second = await asyncio.wait_for(waiting, 60)
    assert ledger.held == 40 * MICRO
    first.settle([Charge("flat", Usage(output=20))])
    second.release()
    assert (ledger.held, ledger.cost().total) == (0, 20 * MICRO)


async def test_more_than_left_cannot_be_reserved():
    ledger = Ledger(100 * MICRO, BOOK)
    ledger.allow("root/a", 60 * MICRO)
    with pytest.raises(BudgetExceeded, match="more than what is left"):
        ledger.allow("root/b", 41 * MICRO)
    with pytest.raises(BudgetExceeded):
        ledger.allow("root/a/x", 61 * MICRO)
    ledger.allow("root/a/x", 60 * MICRO)
    with pytest.raises(ValueError, match="has an allowance"):
        ledger.allow("root/a", MICRO)
