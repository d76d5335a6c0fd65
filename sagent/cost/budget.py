"""A cap and what of it is gone: for the whole tree, or for the part of it below an agent that has an allowance."""

import asyncio
from collections import deque
from dataclasses import field
from decimal import Decimal
from typing import Generic, TypeVar

from sagent.lib.dataclass import dataclass
from sagent.lib.money import EXACT, ZERO

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Budget(Generic[T, R]):
    """Money for the agents from `path` down, "" for all. `cap` None is no limit.

    `counted` is what is spent, and of a call whose bill is not known for sure its worst case; `held` is for calls in
    flight; `aside` is what is set aside for allowances further down. Others wait in `queue`. A budget within a capped
    one has its cap set aside there: nobody else can spend it, and it can be spent whole.
    """

    path: str
    cap: Decimal | None
    outer: "Budget[T, R] | None" = None
    counted: Decimal = ZERO
    held: Decimal = ZERO
    aside: Decimal = ZERO
    claim: Decimal = ZERO
    queue: deque[tuple[T, asyncio.Future[R]]] = field(default_factory=deque[tuple[T, asyncio.Future[R]]])
    heir: "Budget[T, R] | None" = None  # where its money went when it was closed

    def __post_init__(self) -> None:
        self._stake()

    @property
    def room(self) -> Decimal:
        """USD that a new call may hold; only where there is a cap."""
        assert self.cap is not None
        return EXACT.subtract(self.free, self.held)

    @property
    def free(self) -> Decimal:
        """The same if all calls in flight turned out to cost nothing. Allowances are not waited for."""
        assert self.cap is not None
        return EXACT.subtract(self.cap, EXACT.add(self.counted, self.aside))

    def hold(self, usd: Decimal) -> None:
        """A call of that worst case begins; one less, when it has ended."""
        self.held = EXACT.add(self.held, usd)
        self._stake()

    def count(self, usd: Decimal) -> None:
        """So much is gone."""
        self.counted = EXACT.add(self.counted, usd)
        self._stake()

    def set_aside(self, usd: Decimal) -> None:
        """An allowance further down begins, or takes more; less, when it gives back."""
        self.aside = EXACT.add(self.aside, usd)
        self._stake()

    def close(self) -> None:
        """The rest goes back to the outer budget, and with it whatever is still in flight."""
        outer = self.outer
        assert outer is not None
        outer.set_aside(-self.claim)
        outer.count(self.counted)
        outer.hold(self.held)
        outer.set_aside(self.aside)
        outer.queue.extend(self.queue)
        self.queue.clear()
        self.heir = outer

    def living(self) -> "Budget[T, R]":
        """This one, or the one that took over."""
        budget = self
        while budget.heir is not None:
            budget = budget.heir
        return budget

    def _stake(self) -> None:
        """What the outer budget sets aside: the cap, or more where a provider billed more than it may."""
        if self.outer is None or self.heir is not None:
            return
        self.outer = self.outer.living()
        used = EXACT.add(EXACT.add(self.counted, self.held), self.aside)
        claim = max(self.cap or ZERO, used)
        if claim != self.claim:
            more = EXACT.subtract(claim, self.claim)
            self.claim = claim
            self.outer.set_aside(more)
