"""What one tree of agents has spent, or several that share a budget."""

from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from sagent.lib.money import ZERO, total
from sagent.usage import Charge, Cost, Totals, Usage

if TYPE_CHECKING:
    from collections.abc import Callable


class Allowance(Protocol):
    """USD that are set aside for the agents from a path down."""

    @property
    def path(self) -> str: ...
    @property
    def cap(self) -> Decimal | None: ...


class Books:
    """Sums of charges: `totals` of the agents from a path down, "" for all, and `usage` in tokens by agent and role.
    `lent` are allowances that are spent where nobody here sees it."""

    def __init__(self) -> None:
        self.totals: dict[str, Totals] = {"": Totals()}
        self.usage: dict[tuple[str, str], Usage] = {}
        self.lent: set[Allowance] = set()
        self.listeners: list[Callable[[Charge], None]] = []

    def add(self, charge: Charge) -> None:
        """Count one more."""
        path = charge.agent
        while path:
            self.totals.setdefault(path, Totals()).add(charge)
            path = path.rpartition("/")[0]
        self.totals[""].add(charge)
        key = (charge.agent, charge.role)
        self.usage[key] = self.usage.get(key, Usage()) + charge.usage

    def cost(self, agent: str) -> Cost:
        """USD so far, of all agents or of one and its descendants."""
        cost = (self.totals.get(agent) or Totals()).cost()
        lent = [each.cap or ZERO for each in self.lent if not agent or f"{each.path}/".startswith(f"{agent}/")]
        return replace(cost, unbilled=total([cost.unbilled, *lent])) if lent else cost

    def of_tree(self, root: str) -> "Books":
        """A copy with what the agent at a path and its descendants have spent, and nobody else."""
        books = Books()
        below = {path: sums for path, sums in self.totals.items() if f"{path}/".startswith(f"{root}/")}
        books.totals |= deepcopy(below)
        books.totals[""] = deepcopy(below.get(root) or Totals())
        books.usage = {key: used for key, used in self.usage.items() if key[0] in below}
        return books
