"""One ledger per tree of agents: what was spent, and a budget that no call can exceed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import copy, deepcopy
from dataclasses import field, replace
from datetime import UTC, datetime
from decimal import Decimal
from time import monotonic
from typing import NamedTuple, Self, TypeAlias

from sagent.cost.budget import MAX_EXCESS, MAX_HIDDEN_TOKENS, MAX_TOOL_TOKENS, Ask, Budget, InputBound, refusal_of
from sagent.cost.prices import PriceBook, keeps_an_hour
from sagent.errors import BudgetExceeded, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY
from sagent.lib.money import EXACT, ZERO, show, total
from sagent.usage import Charge, Cost, Sum, Totals, Usage

UNSTATED_OUTPUT = 32_768
"""Output tokens that a budget reserves for a call without an output limit."""
ROOMY_OUTPUT = 4_096
"""A reply limited to fewer tokens often breaks off inside a tool call, so a call waits for others to settle instead."""
MAX_SILENCE_SECONDS = 600.0
"""Silence after which a call is ended if others wait for its money; a longer limit of its model takes precedence."""
SHARE, LONE_SHARE = 4, 2
"""A call takes at most 1/SHARE of the free money (1/LONE_SHARE for a lone agent), so that others can run meanwhile and
a lost call is not the end. It may always take ROOMY_OUTPUT tokens, a lone agent twice as many."""


class Books:
    """Sums of charges: `totals` by agent path, each including the agents below it ("" is all agents), and `usage` in
    tokens by agent and role. `lent` are allowances that other nodes spend, unseen by this ledger."""

    def __init__(self) -> None:
        self.totals: dict[str, Totals] = {"": Totals()}
        self.usage: dict[tuple[str, str], Usage] = {}
        self.lent: set[_Budget] = set()
        self.listeners: list[Callable[[Charge], None]] = []

    def add(self, charge: Charge) -> None:
        """Add a charge to the sums of its agent, of every agent above it, and of its role."""
        path = charge.agent
        while path:
            self.totals.setdefault(path, Totals()).add(charge)
            path = path.rpartition("/")[0]
        self.totals[""].add(charge)
        key = (charge.agent, charge.role)
        self.usage[key] = self.usage.get(key, Usage()) + charge.usage

    def cost(self, agent: str) -> Cost:
        """Return USD so far, of all agents or of one and its descendants."""
        cost = (self.totals.get(agent) or Totals()).cost()
        lent = [each.cap or ZERO for each in self.lent if not agent or f"{each.path}/".startswith(f"{agent}/")]
        return replace(cost, unbilled=total([cost.unbilled, *lent])) if lent else cost

    def of_tree(self, root: str) -> "Books":
        """Return a copy that holds only the charges of the agent at `root` and its descendants."""
        books = Books()
        below = {path: sums for path, sums in self.totals.items() if f"{path}/".startswith(f"{root}/")}
        books.totals |= deepcopy(below)
        books.totals[""] = deepcopy(below.get(root) or Totals())
        books.usage = {key: used for key, used in self.usage.items() if key[0] in below}
        return books


@dataclass(slots=True, eq=False)
class Reservation:
    """Money held for one call. `max_output` is the output limit the call may request (None: no limit).

    Settle it with the provider's bill, or release it; as a context manager it releases itself at the end.
    """

    _ledger: "Ledger"
    ask: Ask
    budget: "_Budget"
    max_output: int | None
    held: Decimal
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _began: float = field(default_factory=monotonic)
    most: tuple[int, int] | None = None  # tokens of input and output that the call can still have, if fewer
    entry: str = ""  # log entry that records the reservation
    max_silence: float = MAX_SILENCE_SECONDS  # seconds of silence after which the call may be given up
    own_limit: float = MAX_SILENCE_SECONDS  # the model's own limit on silence
    give_up: Callable[[], None] | None = None  # ends the call
    _last_activity: float = field(default_factory=monotonic)

    @property
    def silent(self) -> float:
        """Seconds since the provider last sent something."""
        return monotonic() - self._last_activity

    def note_activity(self) -> None:
        """Record that the provider has sent something."""
        self._last_activity = monotonic()

    @property
    def seconds(self) -> float:
        """The reservation's age. Setting the clock back does not shorten it, and the machine's sleep counts."""
        return max((datetime.now(UTC) - self.at).total_seconds(), monotonic() - self._began)

    @property
    def worst(self) -> Charge:
        """The charge to book if the provider never reports the call's cost."""
        ask = self.ask
        unknown = Charge(ask.model, Usage(), usd=ZERO, estimated=True, at_most=self.held)
        return replace(unknown, role=ask.role, provider=ask.provider, agent=ask.agent)

    def enter(self, entry: str) -> None:
        """Set the call's log entry. Raises BudgetExceeded for "" (it could not be written), because a later process
        would not count the call."""
        self.entry = entry
        if not entry:
            raise BudgetExceeded(
                f"a call to {self.ask.provider}/{self.ask.model} was not made, as {self.ask.role} of {self.ask.agent}: "
                "the log cannot be written, so it would not count towards the budget after a restart. Free "
                "space or fix the directory, or run without a budget"
            )

    def settle(self, charges: Iterable[Charge]) -> tuple[Charge, ...]:
        """Record what the call cost, even if it is more than was held, and free the rest. Never raises.

        The charges come back with agent, role, provider and price."""
        return self._ledger.settle(self, charges)

    def take_note(self, stated: Iterable[Charge], max_output: int | None = None) -> None:
        """Free what the call can no longer cost, given the charges that the provider has stated and the output limit.

        A charge frees nothing if it is estimated, impossible, or may still grow (Gemini's first counts omit signatures
        and images and are at most half of the final one), or if models inside the call are billed too.
        """
        ask = self.ask
        sure = (charge.usage for charge in stated if not charge.estimated and ask.can_be(charge))
        reported = sum(usage.total_input for usage in sure)
        known = reported and reported >= ask.likely // 4 and not ask.extra_usd
        self._ledger.narrow(self, max(reported, ask.likely) if known else ask.input_bound.tokens, max_output)

    def release(self) -> None:
        """Free what is held, because nothing was billed. Does nothing after `settle`."""
        self._ledger.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()


_Budget: TypeAlias = "Budget[Waiting, Reservation]"


class Waiting(NamedTuple):
    """A waiting call, and the function of its ledger that grants it money (see Ledger._grant)."""

    ask: Ask
    grant: "Callable[[Ask, _Budget], Reservation | None]"


class Ledger:
    """Spending of a tree of agents and, with a budget, a promise not to exceed it. One event loop, no locks.

    An agent can have an allowance (`allow`): that much is set aside for it and the agents below it, and no more. Trees
    that share a budget each have a branch of one ledger (`branch`).

    Every call reserves its worst case until it settles, so that spent + held never exceeds the budget. The only
    exception is a provider that bills more than its list price, or more tokens than were requested; that is recorded as
    it is. A task must not reserve while it holds a reservation: it could wait for itself.
    """

    def __init__(self, cap: Decimal | None, prices: PriceBook) -> None:
        """Raises UsageError for an invalid budget."""
        number: object = cap  # callers without a type checker may pass anything
        if cap is not None and not (isinstance(number, Decimal | int) and Decimal(number).is_finite()):
            raise UsageError(f"a ledger's budget is USD as a Decimal, as in Decimal('0.50'), not {cap!r:.40}")
        self.prices = prices  # for billing
        self._budgets: dict[str, _Budget] = {"": Budget("", cap)}
        self._outer: Callable[[str], _Budget] | None = None  # finds a budget in the ledger that this one branches from
        self._books = (Books(),)  # its own first, then those of the ledgers above it
        self._branches: set[str] = set()  # root paths of its branches
        self._agents: set[tuple[int, str]] = set()  # (branch, path) of each agent that has requested money
        self._calls: set[Reservation] = set()  # in flight, of all branches
        self._miscounted: set[tuple[str, str]] = set()  # providers and models that billed more input than they counted

    def branch(self, root: str) -> "Ledger":
        """Return a ledger for one tree of agents that spends from this budget, but has sums and allowances of its own:
        agents of several trees have the same paths. Its costs are counted here as well. The first branch for a
        `root` path starts with what was restored for that path."""
        branch: Ledger = copy(self)  # keeps the subclass
        books = Books() if root in self._branches else self._books[0].of_tree(root)
        branch._budgets, branch._outer, branch._books = {}, self._budget, (books, *self._books)
        branch._branches = set()
        self._branches.add(root)
        return branch

    def shares_budget(self, other: "Ledger") -> bool:
        """Return True if both spend the same money."""
        return self.whole is other.whole

    @property
    def whole(self) -> _Budget:
        """The budget shared by all trees."""
        return self._budget("")

    @property
    def cap(self) -> Decimal | None:
        """USD the whole tree may spend; None = no limit."""
        return self.whole.cap

    @cap.setter
    def cap(self, usd: Decimal) -> None:
        budget = self.whole
        budget.cap = usd
        self._admit(budget)

    @property
    def held(self) -> Decimal:
        """USD of the budget that is reserved for calls in flight."""
        return EXACT.add(self.whole.held, self.whole.held_below)

    def listen(self, listener: Callable[[Charge], None]) -> Callable[[], None]:
        """Call a function with every settled charge; it must not raise. Call the returned function to stop."""
        listeners = self._books[0].listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def cap_of(self, agent: str) -> Decimal | None:
        """Return USD that an agent and those who share its budget may spend: the nearest allowance, or all."""
        return self._budget(agent).cap

    def room(self, agent: str) -> Decimal | None:
        """Return USD that a call of an agent could reserve now; None if it has no limit."""
        budget = self._budget(agent)
        return None if budget.cap is None else budget.room

    def allow(self, agent: str, usd: Decimal) -> None:
        """Set an allowance aside for an agent and all below it, until `take_back`. Raises BudgetExceeded if less than
        `usd` is left, and ValueError if the agent already has an allowance."""
        if agent in self._budgets:
            raise ValueError(f"{agent} has an allowance")
        outer = self._budget(agent)
        if outer.cap is not None and usd > outer.room:
            raise BudgetExceeded(
                f"an allowance of {show(usd)} for {agent} is more than what is left: {show(max(outer.room, ZERO))}"
            )
        self._budgets[agent] = Budget(agent, usd, outer)

    def lend(self, agent: str) -> None:
        """Lend an agent's allowance to another node; all of it counts as spent here until `take_back`."""
        for books in self._books:
            books.lent.add(self._budgets[agent])

    def take_back(self, agent: str) -> None:
        """End an agent's allowance and make the rest of it available to all again. Does nothing if there is none."""
        budget = self._budgets.pop(agent, None)
        if budget is not None and budget.outer is not None:
            for books in self._books:
                books.lent.discard(budget)
            budget.outer = budget.outer.living()
            budget.close()
            self._admit(budget.living())

    async def reserve(
        self,
        agent: str,
        role: str,
        provider: str,
        model: str,
        input_bound: InputBound | int,
        max_output: int | None,
        least_output: int = 256,
        *,
        extra_usd: Decimal = ZERO,
        likely: int = 0,
        count: Callable[[], Awaitable[int | None]] | None = None,
        options: Mapping[str, object] = EMPTY,
        on_waiting: Callable[[str], None] = lambda _: None,
    ) -> Reservation:
        """Reserve the worst case of a call with at most `input_bound` tokens of input (an int is a bound by bytes), or
        raise BudgetExceeded.

        If the budget does not allow `max_output` tokens, the reservation states a lower limit, never below
        `least_output`. Waits, first come first served, while calls in flight may still free enough money. Without a
        budget no price is looked up. `options` are the request's options, which limit its server tools; `extra_usd`
        bounds the cost of models that the provider runs inside the call. `count` returns a closer bound of the input.
        It is called if `input_bound` would refuse the call, or allow a shorter answer than an input of `likely` tokens
        would, but not for a model that was once billed for more than it had counted. While the call waits, `on_waiting`
        receives a sentence that says why.
        """
        budget, wanted = self._budget(agent), UNSTATED_OUTPUT if max_output is None else max_output
        bound = InputBound(input_bound) if isinstance(input_bound, int) else input_bound
        ask = Ask(agent, role, provider, model, bound, wanted, min(least_output, wanted), extra_usd, likely)
        hidden = MAX_TOOL_TOKENS if extra_usd or "tools" in options else MAX_HIDDEN_TOKENS
        ask.max_usage = MAX_EXCESS * (bound.tokens + wanted) + hidden
        ask.cached_an_hour = keeps_an_hour(options)
        if budget.cap is None:
            return Reservation(self, ask, budget, max_output, ZERO)
        self._agents.add((id(self), agent))
        ask.ceiling = self.prices.ceiling(provider, model, hour=ask.cached_an_hour)
        if ask.ceiling is not None and "tools" in options:
            ask.extra_usd = EXACT.add(extra_usd, self._worst_tools(ask, options))
        if count and ask.ceiling is not None and (provider, model) not in self._miscounted:
            output = self._output(ask, budget, bound.tokens)
            if output < ask.min_output or self._output(ask, budget, likely) > output * 5 // 4:
                counted = await count()
                if counted and likely // 16 <= counted < bound.tokens:  # a lower count is not credible
                    ask.input_bound, ask.counted = InputBound(counted, "provider"), True
                budget = budget.living()
        if error := refusal_of(ask, budget):
            raise error
        if not budget.queue and (granted := self._grant(ask, budget)):
            return granted
        return await self._wait(ask, budget, on_waiting)

    def settle(self, reservation: Reservation, charges: Iterable[Charge]) -> tuple[Charge, ...]:
        """Record the charges of a reservation; see Reservation.settle."""
        bill, ask = tuple(charges), reservation.ask
        alone = len(bill) == 1
        if ask.counted and sum(charge.usage.total_input for charge in bill if not charge.role) > ask.input_bound.tokens:
            self._miscounted.add((ask.provider, ask.model))
        settled = tuple(priced for charge in bill for priced in self._price(reservation, charge, alone=alone))
        counted = total(charge.usd or ZERO for charge in settled)
        doubtful = any(charge.usd is None or charge.estimated for charge in settled)
        unsure = EXACT.subtract(reservation.held or self._worst(reservation), counted) if doubtful else ZERO
        if unsure > 0:
            counted, last = EXACT.add(counted, unsure), settled[-1]
            settled = (*settled[:-1], replace(last, at_most=EXACT.add(last.usd or ZERO, unsure)))
        for charge in settled:
            self._add(charge)
            for listener in (each for books in self._books for each in books.listeners):
                listener(charge)
        reservation.budget.living().count(counted)
        self.release(reservation)
        return settled

    def narrow(self, reservation: Reservation, input_tokens: int, output_tokens: int | None) -> None:
        """Lower a reservation to the cost of these tokens; see Reservation.take_note."""
        ask, most, budget = reservation.ask, reservation.max_output, reservation.budget.living()
        most = ask.requested_output if most is None else most
        output = most if output_tokens is None else min(output_tokens, most)
        reservation.most = min(input_tokens, ask.input_bound.tokens), output
        if ask.ceiling is None or not reservation.held:
            return
        worst = EXACT.add(ask.ceiling.cost(*reservation.most), ask.extra_usd)
        budget.reserve(EXACT.subtract(worst, reservation.held))
        reservation.held = worst
        self._admit(budget)

    def _worst(self, reservation: Reservation) -> Decimal:
        """Return the most that a call may cost for which nothing was reserved; 0 if its price is unknown."""
        ask = reservation.ask
        ceiling = ask.ceiling or self.prices.ceiling(ask.provider, ask.model, hour=ask.cached_an_hour)
        most = reservation.most or (ask.input_bound.tokens, ask.requested_output)
        return ZERO if ceiling is None else EXACT.add(ceiling.cost(*most), ask.extra_usd)

    def release(self, reservation: Reservation) -> None:
        """Free the money of a reservation; see Reservation.release."""
        budget = reservation.budget.living()
        self._calls.discard(reservation)
        budget.reserve(reservation.held.copy_negate())
        reservation.held = ZERO
        self._admit(budget)

    def restore(self, charges: Iterable[Charge]) -> None:
        """Add earlier charges when a session is resumed; they count towards the budget."""
        for charge in charges:
            self._add(charge)
            self._budget(charge.agent).count(charge.at_most or charge.usd or ZERO)

    def totals(self, agent: str = "") -> Totals:
        """Return the sums of all charges so far: of all agents, or of one and its descendants ("root" covers
        "root/review"). The object is live: later charges update it; do not change it."""
        return self._books[0].totals.get(agent) or Totals()

    def cost(self, agent: str = "") -> Cost:
        """Return USD so far, of the same agents. Lent allowances count as unbilled."""
        return self._books[0].cost(agent)

    def usage(self) -> Mapping[tuple[str, str], Usage]:
        """Tokens so far by (agent, role)."""
        return dict(self._books[0].usage)

    def billed(self, role: str) -> tuple[Usage, Decimal | None]:
        """Return the tokens and USD billed for a role of all agents; USD is None if a call has no known price."""
        found = self._books[0].totals[""].by_role.get(role) or Sum()
        return found.usage, found.price

    def spent(self, agent: str) -> Decimal:
        """Return USD of one agent, in all its roles."""
        own = self.totals(agent).by_agent.get(agent)
        return own.usd if own else ZERO

    def spent_below(self, agent: str) -> Decimal:
        """USD of an agent and all its descendants."""
        return self.totals(agent).whole.usd

    def _price(self, reservation: Reservation, charge: Charge, *, alone: bool) -> list[Charge]:
        """Return a charge with its price. If its tokens have a price but a fee has none, return two charges, the second
        without a price."""
        ask, usd = reservation.ask, self._bill(reservation, charge, alone=alone)
        model, role = charge.model or ask.model, charge.role or ask.role
        settled = replace(charge, model=model, usd=usd, role=role, provider=ask.provider, agent=ask.agent)
        if usd is None and charge.usage.fees:
            tokens = replace(charge.usage, fees={})
            known = self._bill(reservation, replace(charge, usage=tokens), alone=alone)
            if known is not None:
                fees = Usage(fees=charge.usage.fees)
                return [replace(settled, usage=tokens, usd=known), replace(settled, usage=fees)]
        return [settled]

    def _bill(self, reservation: Reservation, charge: Charge, *, alone: bool) -> Decimal | None:
        ask, at = reservation.ask, reservation.at
        usd = self.prices.bill(ask.provider, charge, at)
        if usd is None and alone:  # a server's own name for the requested model
            usd = self.prices.price(ask.provider, ask.model, charge.usage, at, charge.tier)
        return usd

    def _add(self, charge: Charge) -> None:
        for books in self._books:
            books.add(charge)

    def _budget(self, agent: str) -> _Budget:
        """Return the budget that an agent spends from: its own allowance, or the nearest above it."""
        path = agent
        while path and path not in self._budgets:
            path = path.rpartition("/")[0]
        return self._outer(agent) if self._outer and path not in self._budgets else self._budgets[path]

    def _grant(self, ask: Ask, budget: _Budget) -> Reservation | None:
        """Return a reservation for as much output as is affordable now, or None if the call has to wait."""
        if budget.cap is None:
            return Reservation(self, ask, budget, ask.requested_output, ZERO)
        if ask.ceiling is None:
            return None
        output = self._output(ask, budget, ask.input_bound.tokens)
        enough = _enough(ask) if budget.held else ask.min_output
        if output < enough:
            return None
        held = EXACT.add(ask.ceiling.cost(ask.input_bound.tokens, output), ask.extra_usd)
        budget.reserve(held)
        granted = Reservation(self, ask, budget, output, held)
        self._calls.add(granted)
        return granted

    def _worst_tools(self, ask: Ask, options: Mapping[str, object]) -> Decimal:
        """Return the maximum cost of the tools that the provider runs inside a call: per use its fee and a round that
        reads a full window. Raises BudgetExceeded if nothing limits the uses."""
        from sagent.cost.server_tools import most_uses  # rarely needed

        name = f"{ask.provider}/{ask.model}"
        try:
            uses = most_uses(options)
        except ValueError as error:
            raise BudgetExceeded(f"{error}, so the budget cannot be kept: leave the tool out, or the budget") from None
        if not uses:
            return ZERO
        window, fees = self.prices.window(ask.provider, ask.model), self.prices.fees(ask.provider, ask.model)
        unknown = next((fee for fee in uses if fee and fee not in fees), "window" if window is None else "")
        if unknown or window is None or ask.ceiling is None:
            raise BudgetExceeded(
                f"the cost of the tools of {name} is unknown ({unknown}), so the budget cannot be kept: give it in "
                f"the settings (prices, {name!r}), or run without the tools"
            )
        each = ask.ceiling.cost(window, ask.requested_output)
        return total(EXACT.multiply(EXACT.add(each, fees.get(fee, ZERO)), count) for fee, count in uses.items())

    def _output(self, ask: Ask, budget: _Budget, input_tokens: int) -> int:
        """Return the output that a call with this input may request now; -1 if the input alone is too expensive."""
        if ask.ceiling is None:
            return -1
        most = ask.ceiling.affordable(input_tokens, EXACT.subtract(budget.room, ask.extra_usd), ask.requested_output)
        parts = SHARE if len(self._agents) > 1 else LONE_SHARE
        share = ask.ceiling.affordable(input_tokens, EXACT.divide(budget.room, parts), ask.requested_output)
        return min(most, max(share, ROOMY_OUTPUT * SHARE // parts, ask.min_output))

    def waits(self, agent: str) -> str:
        """Return why a call of an agent waits and which calls hold the money; "" if none waits."""
        budget = self._budget(agent)
        asks = (each for (each, grant), future in budget.queue if grant == self._grant and not future.done())
        ask = next((each for each in asks if each.agent == agent), None)
        if ask is None or budget.cap is None:
            return ""
        from sagent.cost.waiting import describe

        waited = monotonic() - ask.at
        return describe(ask, _enough(ask), budget.cap, budget.room, waited, self._holders(budget))

    def _holders(self, budget: _Budget) -> list[Reservation]:
        """Return the calls in flight that hold money of a budget."""
        return [call for call in self._calls if call.held and call.budget.living() is budget]

    async def _wait(self, ask: Ask, budget: _Budget, on_waiting: Callable[[str], None]) -> Reservation:
        from sagent.cost.waiting import NOTICE_SECONDS, REPEAT_SECONDS

        future: asyncio.Future[Reservation] = asyncio.get_running_loop().create_future()
        budget.queue.append((Waiting(ask, self._grant), future))
        pause, is_told = NOTICE_SECONDS, False
        try:
            while not (await asyncio.wait([future], timeout=pause))[0]:
                ahead = next((each for _, each in budget.living().queue if not each.done()), future)
                if (ahead is future or not is_told) and (words := self.waits(ask.agent)):
                    on_waiting(words)  # only the first in the queue repeats it: the others wait for the same calls
                    is_told = True
                pause = min(REPEAT_SECONDS, self._end_silent(budget.living()))
            return future.result()
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # cancelled after the answer, before it was read
                if future.exception() is None:
                    future.result().release()
            else:
                future.cancel()
                self._admit(budget.living())  # the others may have waited for this call
            raise

    def _end_silent(self, budget: _Budget) -> float:
        """Give up the calls that have been silent too long; return the seconds until the next one is due."""
        left = MAX_SILENCE_SECONDS
        for call in self._holders(budget):
            if call.give_up is not None and call.silent >= call.max_silence:
                call.give_up()
            elif call.give_up is not None:
                left = min(left, call.max_silence - call.silent)
        return left + 0.01

    def _admit(self, budget: _Budget) -> None:
        """Answer waiting calls in order until the money runs out."""
        while budget.queue:
            (ask, grant), future = budget.queue[0]
            if not future.done():
                if granted := grant(ask, budget):
                    future.set_result(granted)
                elif error := refusal_of(ask, budget):
                    future.set_exception(error)
                else:
                    return
            budget.queue.popleft()


def _enough(ask: Ask) -> int:
    """Return the smallest output for which a call starts while others are in flight; for less it waits."""
    return max(ask.min_output, min(ask.requested_output, ROOMY_OUTPUT))
