"""One ledger per tree of agents: what was spent, and a cap that no call can pass."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Self

from sagent.cost.money import EXACT, ZERO, show, total
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.usage import Charge, Cost, Usage

if TYPE_CHECKING:
    from sagent.cost.tariff import Ceiling

UNSTATED_OUTPUT = 32_768
"""Tokens of output reserved under a cap for a call whose output nobody limited."""
ROOMY_OUTPUT = 4_096
"""A reply cut below this many tokens is often cut in the middle of a call: rather wait for others to settle."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One settled charge. `usd` is None where the price is unknown."""

    agent: str
    role: str  # "executor", "advisor:NAME", "compactor", ...
    provider: str
    model: str
    usage: Usage
    usd: Decimal | None
    tier: str = ""
    estimated: bool = False


class Reservation:
    """Money held for one call. `max_output` is what the call may ask for (None: no limit was asked, none is set).

    Settle it with what the provider billed, or release it; as a context manager it releases itself at the end.
    """

    __slots__ = ("_ledger", "agent", "at", "held", "max_output", "model", "provider", "role")

    def __init__(self, ledger: "Ledger", ask: "_Ask", max_output: int | None, held: Decimal) -> None:
        self._ledger = ledger
        self.agent, self.role, self.provider, self.model = ask.agent, ask.role, ask.provider, ask.model
        self.max_output = max_output
        self.held = held
        self.at = datetime.now(UTC)

    def settle(self, charges: Iterable[Charge]) -> tuple[Spent, ...]:
        """Record what the call cost, be it more than was held, and free the rest. Never raises for odd numbers."""
        return self._ledger.settle(self, charges)

    def release(self) -> None:
        """Free what is held: nothing was billed. Does nothing after `settle`."""
        self._ledger.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()


class _Ask:
    """A call that wants money."""

    __slots__ = ("agent", "ceiling", "input_bound", "least", "model", "provider", "role", "wanted")

    def __init__(self, who: tuple[str, str, str, str], input_bound: int, wanted: int, least: int) -> None:
        self.agent, self.role, self.provider, self.model = who
        self.input_bound = input_bound
        self.wanted = wanted
        self.least = min(least, wanted)
        self.ceiling: Ceiling | None = None


class Ledger:
    """What a tree of agents spends; with a cap, a promise that it is not passed. One event loop, no locks.

    Every call holds its worst case until it settles, so that spent + held never exceeds the cap. The one way past it
    is a provider that bills more than its list price or more tokens than were asked for; that is recorded as it is.
    A task must not reserve while it holds a reservation: it might wait for itself.
    """

    def __init__(self, cap: Decimal | None, prices: PriceBook) -> None:
        self._cap = cap
        self._prices = prices
        self._held = ZERO
        self._counted = ZERO  # towards the cap: spent, and of a call whose bill is not known for sure its worst case
        self._queue: deque[tuple[_Ask, asyncio.Future[Reservation]]] = deque()
        self._usd: dict[tuple[str, str, str], Decimal] = {}  # by agent, role, "provider/model"
        self._usage: dict[tuple[str, str], Usage] = {}
        self._unpriced: set[str] = set()

    @property
    def cap(self) -> Decimal | None:
        """USD the whole tree may spend; None = no limit."""
        return self._cap

    @property
    def prices(self) -> PriceBook:
        """What it bills by."""
        return self._prices

    @property
    def held(self) -> Decimal:
        """USD reserved by calls in flight."""
        return self._held

    async def reserve(
        self,
        agent: str,
        role: str,
        provider: str,
        model: str,
        input_bound: int,
        max_output: int | None,
        least_output: int = 256,
        *,
        tier: str | None = None,
    ) -> Reservation:
        """Hold the worst case of a call with at most `input_bound` tokens of input, or raise BudgetExceeded.

        Where the cap does not allow `max_output` tokens, the reservation says how many it does, at least
        `least_output`. Waits, first come first served, while calls in flight may still leave enough. Without a cap
        nothing is looked up. `tier` as in PriceBook.worst.
        """
        who = (agent, role, provider, model)
        if self._cap is None:
            return Reservation(self, _Ask(who, 0, 0, 0), max_output, ZERO)
        ask = _Ask(who, input_bound, UNSTATED_OUTPUT if max_output is None else max_output, least_output)
        ask.ceiling = self._prices.ceiling(provider, model, tier=tier)
        if error := self._hopeless(ask, self._cap):
            raise error
        if not self._queue and (granted := self._grant(ask, self._cap)):
            return granted
        return await self._wait(ask)

    def settle(self, reservation: Reservation, charges: Iterable[Charge]) -> tuple[Spent, ...]:
        """Record the charges of a reservation; see Reservation.settle."""
        bill = tuple(charges)
        spent = tuple(self._price(reservation, charge, alone=len(bill) == 1) for charge in bill)
        for record in spent:
            self._add(record)
        counted = total(record.usd or ZERO for record in spent)
        if any(record.usd is None or record.estimated for record in spent):
            counted = max(counted, reservation.held)
        self._counted = EXACT.add(self._counted, counted)
        self.release(reservation)
        return spent

    def release(self, reservation: Reservation) -> None:
        """Free what a reservation holds; see Reservation.release."""
        self._held = EXACT.subtract(self._held, reservation.held)
        reservation.held = ZERO
        self._admit()

    def restore(self, entries: Iterable[Spent]) -> None:
        """Add what was spent before, on resume; it counts towards the cap."""
        for record in entries:
            self._add(record)
            self._counted = EXACT.add(self._counted, record.usd or ZERO)

    def totals(self) -> Cost:
        """USD so far."""
        by_kind = {"executor": ZERO, "advisor": ZERO, "other": ZERO}
        by_model: dict[str, Decimal] = {}
        by_agent: dict[str, Decimal] = {}
        for (agent, role, model), usd in self._usd.items():
            kind = role.partition(":")[0]
            for sums, key in (
                (by_kind, kind if kind in by_kind else "other"),
                (by_model, model),
                (by_agent, agent),
            ):
                sums[key] = EXACT.add(sums.get(key, ZERO), usd)
        return Cost(
            total=total(by_kind.values()),
            executor=by_kind["executor"],
            advisor=by_kind["advisor"],
            other=by_kind["other"],
            by_model=by_model,
            by_agent=by_agent,
            unpriced=tuple(sorted(self._unpriced)),
        )

    def usage(self) -> Mapping[tuple[str, str], Usage]:
        """Tokens so far by (agent, role)."""
        return dict(self._usage)

    def spent(self, agent: str) -> Decimal:
        """USD of one agent, in all its roles."""
        return total(usd for (path, _, _), usd in self._usd.items() if path == agent)

    def spent_below(self, agent: str) -> Decimal:
        """USD of an agent and all its descendants ("root" covers "root/review")."""
        return total(usd for (path, _, _), usd in self._usd.items() if path == agent or path.startswith(f"{agent}/"))

    def _price(self, reservation: Reservation, charge: Charge, *, alone: bool) -> Spent:
        usd = self._prices.bill(reservation.provider, charge, reservation.at)
        if usd is None and alone:  # the server's own name for the model that was asked for
            usd = self._prices.price(reservation.provider, reservation.model, charge.usage, reservation.at, charge.tier)
        return Spent(
            agent=reservation.agent,
            role=reservation.role,
            provider=reservation.provider,
            model=charge.model or reservation.model,
            usage=charge.usage,
            usd=usd,
            tier=charge.tier,
            estimated=charge.estimated,
        )

    def _add(self, record: Spent) -> None:
        name = f"{record.provider}/{record.model}"
        if record.usd is None:
            self._unpriced.add(name)
        key = (record.agent, record.role, name)
        self._usd[key] = EXACT.add(self._usd.get(key, ZERO), record.usd or ZERO)
        usage = self._usage.get(key[:2])
        self._usage[key[:2]] = usage + record.usage if usage else record.usage

    def _grant(self, ask: _Ask, cap: Decimal) -> Reservation | None:
        """A reservation for as much output as is affordable now, or None where it is better, or needed, to wait."""
        if ask.ceiling is None:
            return None
        room = EXACT.subtract(cap, EXACT.add(self._counted, self._held))
        output = ask.ceiling.affordable(ask.input_bound, room, ask.wanted)
        enough = max(ask.least, min(ask.wanted, ROOMY_OUTPUT)) if self._held else ask.least
        if output < enough:
            return None
        held = ask.ceiling.cost(ask.input_bound, output)
        self._held = EXACT.add(self._held, held)
        return Reservation(self, ask, output, held)

    async def _wait(self, ask: _Ask) -> Reservation:
        future: asyncio.Future[Reservation] = asyncio.get_running_loop().create_future()
        self._queue.append((ask, future))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # answered, and cancelled before the answer was read
                if future.exception() is None:
                    future.result().release()
            else:
                future.cancel()
                self._admit()  # it may have been the one that all others wait behind
            raise

    def _admit(self) -> None:
        """Answer those who wait, in their order, as far as the money goes."""
        while self._cap is not None and self._queue:
            ask, future = self._queue[0]
            if not future.done():
                if granted := self._grant(ask, self._cap):
                    future.set_result(granted)
                elif error := self._hopeless(ask, self._cap):
                    future.set_exception(error)
                else:
                    return
            self._queue.popleft()

    def _hopeless(self, ask: _Ask, cap: Decimal) -> BudgetExceeded | None:
        """The error to raise where a call could not be paid even if all calls in flight turned out free."""
        name = f"{ask.provider}/{ask.model}"
        if ask.ceiling is None:
            return BudgetExceeded(
                f"{name} has no known price, so the cap of {show(cap)} cannot be kept: "
                f"give its price in the settings (prices, {name!r}: input and output, in USD per million tokens) "
                "or run without a cap"
            )
        free = EXACT.subtract(cap, self._counted)
        if ask.ceiling.affordable(ask.input_bound, free, ask.least) >= ask.least:
            return None
        worst = ask.ceiling.cost(ask.input_bound, ask.least)
        return BudgetExceeded(
            f"a call to {name} was not made: with up to {ask.input_bound} tokens of input and {ask.least} of output it "
            f"could cost {show(worst)}; the cap is {show(cap)}, of which {show(self._counted)} is spent and "
            f"{show(self._held)} reserved by calls in flight; raise the cap to go on"
        )
