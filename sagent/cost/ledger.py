"""One ledger per tree of agents: what was spent, and a cap that no call can pass."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Self, TypeAlias

from sagent.cost.budget import Budget
from sagent.cost.money import EXACT, ZERO, show, total
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded
from sagent.lib.dataclass import dataclass
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

    __slots__ = ("_ledger", "agent", "at", "held", "max_output", "model", "provider", "purse", "role")

    def __init__(self, ledger: "Ledger", ask: "_Ask", purse: "_Purse", max_output: int | None, held: Decimal) -> None:
        self._ledger = ledger
        self.purse = purse
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

    __slots__ = ("agent", "beside", "ceiling", "input_bound", "least", "model", "provider", "role", "wanted")

    def __init__(
        self, who: tuple[str, str, str, str], input_bound: int, wanted: int, least: int, beside: Decimal = ZERO
    ) -> None:
        self.agent, self.role, self.provider, self.model = who
        self.input_bound = input_bound
        self.wanted = wanted
        self.least = min(least, wanted)
        self.beside = beside
        self.ceiling: Ceiling | None = None


_Purse: TypeAlias = "Budget[_Ask, Reservation]"


@dataclass(slots=True)
class _Sums:
    """What an agent and all below it have spent."""

    own: Decimal = ZERO
    by_kind: dict[str, Decimal] = field(default_factory=lambda: {"executor": ZERO, "advisor": ZERO, "other": ZERO})
    by_role: dict[str, Decimal] = field(default_factory=dict[str, Decimal])
    by_model: dict[str, Decimal] = field(default_factory=dict[str, Decimal])
    by_agent: dict[str, Decimal] = field(default_factory=dict[str, Decimal])
    unpriced: set[str] = field(default_factory=set[str])

    def add(self, record: Spent, model: str) -> None:
        """Count a charge."""
        usd, kind = record.usd or ZERO, record.role.partition(":")[0]
        if record.usd is None:
            self.unpriced.add(model)
        for sums, key in (
            (self.by_kind, kind if kind in self.by_kind else "other"),
            (self.by_role, record.role),
            (self.by_model, model),
            (self.by_agent, record.agent),
        ):
            sums[key] = EXACT.add(sums.get(key, ZERO), usd)

    def cost(self) -> Cost:
        """As it is now."""
        return Cost(
            total=total(self.by_kind.values()),
            executor=self.by_kind["executor"],
            advisor=self.by_kind["advisor"],
            other=self.by_kind["other"],
            by_model=dict(self.by_model),
            by_agent=dict(self.by_agent),
            unpriced=tuple(sorted(self.unpriced)),
            by_role=dict(self.by_role),
        )


class Ledger:
    """What a tree of agents spends; with a cap, a promise that it is not passed. One event loop, no locks.

    An agent may have an allowance (`allow`): that much is set aside for it and those below it, and no more.

    Every call holds its worst case until it settles, so that spent + held never exceeds the cap. The one way past it
    is a provider that bills more than its list price or more tokens than were asked for; that is recorded as it is.
    A task must not reserve while it holds a reservation: it might wait for itself.
    """

    def __init__(self, cap: Decimal | None, prices: PriceBook) -> None:
        self._prices = prices
        self._purses: dict[str, _Purse] = {"": Budget("", cap)}
        self._sums: dict[str, _Sums] = {"": _Sums()}  # by path; "" is all
        self._usage: dict[tuple[str, str], Usage] = {}  # by agent and role
        self._usage_by_model: dict[str, Usage] = {}
        self._unpriced_roles: set[str] = set()

    @property
    def cap(self) -> Decimal | None:
        """USD the whole tree may spend; None = no limit."""
        return self._purses[""].cap

    @property
    def prices(self) -> PriceBook:
        """What it bills by."""
        return self._prices

    @property
    def held(self) -> Decimal:
        """USD reserved by calls in flight."""
        return total(purse.held for purse in self._purses.values())

    def cap_of(self, agent: str) -> Decimal | None:
        """USD an agent and those it shares a purse with may spend: the nearest allowance's, else the cap."""
        return self._purse(agent).cap

    def allow(self, agent: str, usd: Decimal) -> None:
        """Set an allowance aside for an agent and all below it, until `take_back`. Raises BudgetExceeded when there is
        not so much left, and ValueError when it has one."""
        if agent in self._purses:
            raise ValueError(f"{agent} has an allowance")
        outer = self._purse(agent)
        if outer.cap is not None and usd > outer.room:
            raise BudgetExceeded(
                f"an allowance of {show(usd)} for {agent} is more than what is left: {show(max(outer.room, ZERO))}"
            )
        self._purses[agent] = Budget(agent, usd, outer)

    def take_back(self, agent: str) -> None:
        """End an agent's allowance: what is left of it is anybody's again. Without one, nothing happens."""
        purse = self._purses.pop(agent, None)
        if purse is not None and purse.outer is not None:
            purse.outer = purse.outer.living()
            purse.close()
            self._admit(purse.living())

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
        beside: Decimal = ZERO,
    ) -> Reservation:
        """Hold the worst case of a call with at most `input_bound` tokens of input, or raise BudgetExceeded.

        Where the cap does not allow `max_output` tokens, the reservation says how many it does, at least
        `least_output`. Waits, first come first served, while calls in flight may still leave enough. Without a cap
        nothing is looked up. `tier` as in PriceBook.worst; `beside` is what models that the provider runs inside the
        call may cost, in USD.
        """
        who, purse = (agent, role, provider, model), self._purse(agent)
        if purse.cap is None:
            return Reservation(self, _Ask(who, 0, 0, 0), purse, max_output, ZERO)
        wanted = UNSTATED_OUTPUT if max_output is None else max_output
        ask = _Ask(who, input_bound, wanted, least_output, beside)
        ask.ceiling = self._prices.ceiling(provider, model, tier=tier)
        if error := _hopeless(ask, purse):
            raise error
        if not purse.queue and (granted := self._grant(ask, purse)):
            return granted
        return await self._wait(ask, purse)

    def settle(self, reservation: Reservation, charges: Iterable[Charge]) -> tuple[Spent, ...]:
        """Record the charges of a reservation; see Reservation.settle."""
        bill = tuple(charges)
        alone = len(bill) == 1
        spent = tuple(record for charge in bill for record in self._price(reservation, charge, alone=alone))
        for record in spent:
            self._add(record)
        counted = total(record.usd or ZERO for record in spent)
        if any(record.usd is None or record.estimated for record in spent):
            counted = max(counted, reservation.held)
        reservation.purse.living().count(counted)
        self.release(reservation)
        return spent

    def release(self, reservation: Reservation) -> None:
        """Free what a reservation holds; see Reservation.release."""
        purse = reservation.purse.living()
        purse.hold(-reservation.held)
        reservation.held = ZERO
        self._admit(purse)

    def restore(self, entries: Iterable[Spent]) -> None:
        """Add what was spent before, on resume; it counts towards the cap."""
        for record in entries:
            self._add(record)
            self._purse(record.agent).count(record.usd or ZERO)

    def totals(self, agent: str = "") -> Cost:
        """USD so far: of all agents, or of one and all below it."""
        return self._sums.get(agent, _Sums()).cost()

    def usage(self) -> Mapping[tuple[str, str], Usage]:
        """Tokens so far by (agent, role)."""
        return dict(self._usage)

    def usage_by_model(self) -> Mapping[str, Usage]:
        """Tokens so far by "provider/model"."""
        return dict(self._usage_by_model)

    def billed(self, role: str) -> tuple[Usage, Decimal | None]:
        """What a role was billed, whoever had it: tokens, and USD, None where a call of it has no known price."""
        usage = sum((used for (_, name), used in self._usage.items() if name == role), Usage())
        return usage, None if role in self._unpriced_roles else self._sums[""].by_role.get(role, ZERO)

    def spent(self, agent: str) -> Decimal:
        """USD of one agent, in all its roles."""
        return self._sums[agent].own if agent in self._sums else ZERO

    def spent_below(self, agent: str) -> Decimal:
        """USD of an agent and all its descendants ("root" covers "root/review")."""
        return total(self._sums[agent].by_kind.values()) if agent in self._sums else ZERO

    def _price(self, reservation: Reservation, charge: Charge, *, alone: bool) -> list[Spent]:
        """One record; or two, where the tokens have a price and a fee has none: that one is then told as unknown."""
        usd = self._bill(reservation, charge, alone=alone)
        if usd is None and charge.usage.fees:
            tokens = replace(charge, usage=replace(charge.usage, fees={}))
            if (known := self._bill(reservation, tokens, alone=alone)) is not None:
                fees = replace(charge, usage=Usage(fees=charge.usage.fees))
                return [self._spent(reservation, tokens, known), self._spent(reservation, fees, None)]
        return [self._spent(reservation, charge, usd)]

    def _bill(self, reservation: Reservation, charge: Charge, *, alone: bool) -> Decimal | None:
        usd = self._prices.bill(reservation.provider, charge, reservation.at)
        if usd is None and alone:  # the server's own name for the model that was asked for
            usd = self._prices.price(reservation.provider, reservation.model, charge.usage, reservation.at, charge.tier)
        return usd

    def _spent(self, reservation: Reservation, charge: Charge, usd: Decimal | None) -> Spent:
        return Spent(
            agent=reservation.agent,
            role=charge.role or reservation.role,
            provider=reservation.provider,
            model=charge.model or reservation.model,
            usage=charge.usage,
            usd=usd,
            tier=charge.tier,
            estimated=charge.estimated,
        )

    def _add(self, record: Spent) -> None:
        path, model = record.agent, f"{record.provider}/{record.model}"
        own = self._sums.setdefault(path, _Sums())
        own.own = EXACT.add(own.own, record.usd or ZERO)
        while path:
            self._sums.setdefault(path, _Sums()).add(record, model)
            path = path.rpartition("/")[0]
        self._sums[""].add(record, model)
        if record.usd is None:
            self._unpriced_roles.add(record.role)
        key = (record.agent, record.role)
        usage = self._usage.get(key)
        self._usage[key] = usage + record.usage if usage else record.usage
        usage = self._usage_by_model.get(model)
        self._usage_by_model[model] = usage + record.usage if usage else record.usage

    def _purse(self, agent: str) -> _Purse:
        """What an agent spends from: its own allowance, or that of the nearest above it."""
        path = agent
        while path not in self._purses:
            path = path.rpartition("/")[0]
        return self._purses[path]

    def _grant(self, ask: _Ask, purse: _Purse) -> Reservation | None:
        """A reservation for as much output as is affordable now, or None where it is better, or needed, to wait."""
        if ask.ceiling is None:
            return None
        output = ask.ceiling.affordable(ask.input_bound, EXACT.subtract(purse.room, ask.beside), ask.wanted)
        enough = max(ask.least, min(ask.wanted, ROOMY_OUTPUT)) if purse.held else ask.least
        if output < enough:
            return None
        held = EXACT.add(ask.ceiling.cost(ask.input_bound, output), ask.beside)
        purse.hold(held)
        return Reservation(self, ask, purse, output, held)

    async def _wait(self, ask: _Ask, purse: _Purse) -> Reservation:
        future: asyncio.Future[Reservation] = asyncio.get_running_loop().create_future()
        purse.queue.append((ask, future))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # answered, and cancelled before the answer was read
                if future.exception() is None:
                    future.result().release()
            else:
                future.cancel()
                self._admit(purse.living())  # it may have been the one that all others wait behind
            raise

    def _admit(self, purse: _Purse) -> None:
        """Answer those who wait, in their order, as far as the money goes."""
        while purse.queue:
            ask, future = purse.queue[0]
            if not future.done():
                if purse.cap is None:
                    future.set_result(Reservation(self, ask, purse, ask.wanted, ZERO))
                elif granted := self._grant(ask, purse):
                    future.set_result(granted)
                elif error := _hopeless(ask, purse):
                    future.set_exception(error)
                else:
                    return
            purse.queue.popleft()


def _hopeless(ask: _Ask, purse: _Purse) -> BudgetExceeded | None:
    """The error to raise where a call could not be paid even if all calls in flight turned out free."""
    name = f"{ask.provider}/{ask.model}"
    whose, cap = f"the allowance of {purse.path}" if purse.path else "the cap", purse.cap or ZERO
    if ask.ceiling is None:
        return BudgetExceeded(
            f"{name} has no known price, so {whose} of {show(cap)} cannot be kept: "
            f"give its price in the settings (prices, {name!r}: input and output, in USD per million tokens) "
            "or run without a cap"
        )
    if ask.ceiling.affordable(ask.input_bound, EXACT.subtract(purse.free, ask.beside), ask.least) >= ask.least:
        return None
    worst = EXACT.add(ask.ceiling.cost(ask.input_bound, ask.least), ask.beside)
    return BudgetExceeded(
        f"a call to {name} was not made: with up to {ask.input_bound} tokens of input and {ask.least} of output it "
        f"could cost {show(worst)}; {whose} is {show(cap)}, of which {show(purse.counted)} counts as spent"
        f"{f', {show(purse.aside)} set aside for other agents' if purse.aside else ''} and "
        f"{show(purse.held)} reserved by calls in flight; raise it to go on"
    )
