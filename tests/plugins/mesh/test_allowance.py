"""One cap over agents on other nodes: whatever dies in between, what all of them spend stays below it."""

import random
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.state import Journal
from sagent.errors import BudgetExceeded
from sagent.plugins.mesh.child import Lent
from sagent.session.store import Session
from sagent.usage import Cost
from tests.depth import deep

CAP = Decimal("1.00")


class Child:
    """A session on another node, which spends what it may and not more."""

    def __init__(self, cap: Decimal, chance: random.Random) -> None:
        self.spent = (cap * Decimal(chance.choice(("0", "0.3", "0.999", "1")))).quantize(
            Decimal("0.0001"), "ROUND_DOWN"
        )
        self.unbilled = min(cap - self.spent, Decimal(chance.choice(("0", "0.01"))))

    @property
    def cost(self) -> Cost:
        return Cost(self.spent, unbilled=self.unbilled)


@settings(max_examples=deep(60, 1000), deadline=None)
@given(seed=st.integers(0, 1 << 32), lives=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_children_stay_below_cap_over_lives(
    tmp_path_factory: pytest.TempPathFactory, seed: int, lives: list[int]
) -> None:
    """A parent lends to children and dies, at any moment, again and again. A call that was open is made again."""
    chance, directory = random.Random(seed), tmp_path_factory.mktemp("lent") / "s"
    children: dict[str, Child] = {}
    open_calls: list[str] = []
    for life, calls in enumerate(lives):
        with Session(directory) if directory.exists() else Session.create_at(directory) as session:
            ledger = Ledger(CAP, PriceBook())
            ledger.restore(session.charges())
            log = session.log()
            agent = SimpleNamespace(state=SimpleNamespace(journal=Journal("root", log), log=log), ledger=ledger)
            paths, open_calls = [*open_calls, *(f"root/node-{life}-{number}" for number in range(calls))], []
            for path in paths:
                lent = Lent(agent, path, chance.choice((None, Decimal("0.2"), Decimal("0.7"))))  # pyright: ignore[reportArgumentType]
                try:
                    lent.set_aside()
                except BudgetExceeded:
                    continue
                assert lent.usd is not None
                if chance.random() < 0.9:  # else the parent dies before the session was begun
                    children.setdefault(path, Child(lent.usd, chance))
                if path not in children or chance.random() < 0.4:
                    open_calls.append(path)
                else:
                    lent.settle(children[path].cost)
                assert sum(child.spent + child.unbilled for child in children.values()) <= CAP
                assert ledger.cost().total <= CAP


def test_lent_allowance_counts_as_unbilled(tmp_path: Path) -> None:
    """A result that is given while an allowance is out, or lost, does not say that it cost nothing."""
    with Session.create_at(tmp_path / "s") as session:
        ledger, log = Ledger(CAP, PriceBook()), session.log()
        agent = SimpleNamespace(state=SimpleNamespace(journal=Journal("root", log), log=log), ledger=ledger)
        lent = [Lent(agent, f"root/{name}", Decimal("0.2")) for name in ("a", "ab")]  # pyright: ignore[reportArgumentType]
        for each in lent:
            each.set_aside()
        assert ledger.cost().unbilled == Decimal("0.4")
        assert ledger.cost("root/a").unbilled == Decimal("0.2")
        lent[0].settle(Cost(Decimal("0.05")))
        assert (ledger.cost().total, ledger.cost().unbilled) == (Decimal("0.05"), Decimal("0.2"))
        assert ledger.room("root") == Decimal("0.75")


def test_child_cost_counted_once_on_retry(tmp_path: Path) -> None:
    """The parent's node dies after the cost is in the log, and before the call's result is."""
    for life in range(3):
        with Session(tmp_path / "s") if life else Session.create_at(tmp_path / "s") as session:
            ledger, log = Ledger(CAP, PriceBook()), session.log()
            ledger.restore(session.charges())
            agent = SimpleNamespace(state=SimpleNamespace(journal=Journal("root", log), log=log), ledger=ledger)
            lent = Lent(agent, "root/a", Decimal("0.2"))  # pyright: ignore[reportArgumentType]
            lent.set_aside()
            lent.settle(Cost(Decimal("0.05")))
            assert sum(charge.usd or 0 for charge in session.charges()) == Decimal("0.05")
            assert (ledger.cost().total, ledger.room("root")) == (Decimal("0.05"), Decimal("0.95"))
