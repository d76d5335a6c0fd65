"""A ledger whose calls are also paid from standing budgets, which all processes of a person share."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from time import monotonic

from sagent.cost.budget import InputBound
from sagent.cost.ledger import ROOMY_OUTPUT, Ledger, Reservation
from sagent.cost.prices import PriceBook, keeps_an_hour
from sagent.errors import BudgetExceeded
from sagent.lib.json import EMPTY
from sagent.lib.money import EXACT, ZERO, show
from sagent.plugins.spending.book import ASIDE, Asked, Book, Short, cost_of
from sagent.plugins.spending.limits import Limit
from sagent.plugins.spending.team import Team
from sagent.usage import Charge

MAX_WAIT_SECONDS = 600.0
"""Longest wait for calls of other processes that hold money."""
POLL_SECONDS = 0.25
NOTICE_SECONDS = 3.0


class StandingLedger(Ledger):
    """A ledger that holds the worst case of each call in a book, too, in a project of a session's log."""

    def __init__(
        self, cap: Decimal | None, prices: PriceBook, book: Book, limits: Sequence[Limit], project: str, log: str
    ) -> None:
        super().__init__(cap, prices)
        self._book, self._limits, self._project, self._log = book, limits, project, log
        self._holds: dict[Reservation, int] = {}
        self._drawn: set[int] = set()  # holds from what is set aside
        self._aside = 0  # its hold
        self._team: Team | None = None
        self._shares: dict[Reservation, str] = {}  # holds of the team's money

    def share(self, team: Team | None) -> None:
        """Pay calls from the budgets of a team, too."""
        self._team = team

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
        """Reserve as a ledger does, then in the book; the output limit is lowered to what the budgets allow. Raises
        BudgetExceeded."""
        granted = await super().reserve(
            agent, role, provider, model, input_bound, max_output, least_output, extra_usd=extra_usd, likely=likely,
            count=count, options=options, on_waiting=on_waiting,
        )  # fmt: skip
        try:
            self._price_in(granted, options)
            await self._hold(granted, count, on_waiting)
            await self._hold_share(granted, on_waiting)
        except BaseException:
            granted.release()
            raise
        return granted

    def set_aside(self, usd: Decimal) -> str:
        """Hold money for the calls of a task until `free_aside`; return why that cannot be done, or ""."""
        try:
            found = self._book.reserve(self._limits, Asked(self._project, "", ASIDE, "", self._log), usd)
        except sqlite3.Error as error:
            return f"the book of standing budgets cannot be written ({error})"
        if isinstance(found, Short):
            return found.limit.refusal(found.spent, found.held, datetime.now(UTC))
        self._aside = found
        return ""

    def free_aside(self) -> None:
        """Free what is left of it."""
        aside, self._aside = self._aside, 0
        self._end(aside or None, ZERO)

    def settle(self, reservation: Reservation, charges: Iterable[Charge]) -> tuple[Charge, ...]:
        """Record charges here and in the book; see Reservation.settle."""
        hold = self._holds.pop(reservation, None)  # else it would be released
        share = self._shares.pop(reservation, "")
        settled = super().settle(reservation, charges)
        self._end(hold, cost_of(settled))
        self._end_share(share, cost_of(settled))
        return settled

    def release(self, reservation: Reservation) -> None:
        """Free the money of a reservation; see Reservation.release."""
        super().release(reservation)
        self._end(self._holds.pop(reservation, None), ZERO)
        self._end_share(self._shares.pop(reservation, ""), ZERO)

    def narrow(self, reservation: Reservation, input_tokens: int, output_tokens: int | None) -> None:
        """Lower a reservation, here and in the book; see Reservation.take_note."""
        before = reservation.held
        super().narrow(reservation, input_tokens, output_tokens)
        if reservation.held < before:
            self._narrow(reservation)

    def _narrow(self, reservation: Reservation) -> None:
        """Lower what is held for a call to what its reservation holds."""
        if (hold := self._holds.get(reservation)) is not None:
            with suppress(sqlite3.Error):  # then more is held than need be
                self._book.narrow(hold, reservation.held, self._aside if hold in self._drawn else 0)
        if self._team is not None and (share := self._shares.get(reservation)):
            self._team.narrow(share, reservation.held)

    def _end(self, hold: int | None, usd: Decimal) -> None:
        """Replace a hold by a cost. A hold that cannot be replaced remains: it counts at its worst."""
        if hold is not None:
            aside = self._aside if hold in self._drawn else 0
            self._drawn.discard(hold)
            with suppress(sqlite3.Error):
                self._book.settle(hold, usd, aside)

    def _end_share(self, share: str, usd: Decimal) -> None:
        if self._team is not None and share:
            self._team.settle(share, usd)

    def _price_in(self, granted: Reservation, options: Mapping[str, object]) -> None:
        """Set the highest price of a call for which none was looked up, as its session has no budget. Raises
        BudgetExceeded for an unknown price."""
        ask = granted.ask
        if ask.ceiling is not None:
            return
        ask.ceiling = self.prices.ceiling(ask.provider, ask.model, hour=keeps_an_hour(options))
        if ask.ceiling is None:
            name = f"{ask.provider}/{ask.model}"
            limit = (*self._limits, *(self._team.limits if self._team else ()))[0]
            raise BudgetExceeded(
                f"{name} has no known price, so {limit.setting} cannot be kept: give its price in the "
                f"settings (prices, {name!r}: input and output, in USD per million tokens) or run without a budget"
            )
        if "tools" in options:
            ask.extra_usd = EXACT.add(ask.extra_usd, self._worst_tools(ask, options))

    async def _hold(
        self,
        granted: Reservation,
        count: Callable[[], Awaitable[int | None]] | None,
        on_waiting: Callable[[str], None],
    ) -> None:
        """Hold the worst case in the book. Waits while calls of other processes may free enough. Raises
        BudgetExceeded."""
        ask, waiting = granted.ask, _Waiting(granted, on_waiting)
        wanted = ask.requested_output if granted.max_output is None else granted.max_output
        asked = Asked(self._project, ask.agent, ask.role, f"{ask.provider}/{ask.model}", self._log)
        while True:
            short = self._try(granted, asked, wanted)
            if short is None:
                return
            if count is not None and not ask.counted:
                ask.counted, counted = True, await count()
                if counted and ask.likely // 16 <= counted < ask.input_bound.tokens:
                    ask.input_bound = InputBound(counted, "provider")
                    continue
            await waiting.moment(short)

    async def _hold_share(self, granted: Reservation, on_waiting: Callable[[str], None]) -> None:
        """Hold the worst case in the team's money, with a shorter answer if need be. Waits and raises as above."""
        team, ask = self._team, granted.ask
        waiting = _Waiting(granted, on_waiting)
        while team is not None:
            found = await team.reserve(granted.held)
            if isinstance(found, str):
                self._shares[granted] = found
                return
            output = ask.requested_output if granted.max_output is None else granted.max_output
            fewer = self._affordable(found, granted, output)
            if fewer is None:
                await waiting.moment(found)
                continue
            usd = _worst_of(granted, fewer)
            granted.budget.living().reserve(EXACT.subtract(usd, granted.held))
            granted.held, granted.max_output = usd, fewer
            self._narrow(granted)

    def _affordable(self, short: Short, granted: Reservation, output: int) -> int | None:
        """Return the shorter answer that a budget allows; None if that is too short."""
        ask = granted.ask
        assert ask.ceiling is not None
        room = EXACT.subtract(short.limit.usd, EXACT.add(short.spent, EXACT.add(short.held, ask.extra_usd)))
        fewer = ask.ceiling.affordable(ask.input_bound.tokens, room, output - 1)
        enough = min(max(ask.min_output, ROOMY_OUTPUT), output) if short.held else ask.min_output
        return None if fewer < enough else fewer

    def _try(self, granted: Reservation, call: Asked, wanted: int) -> Short | None:
        """Hold as much output as the budgets allow; return the budget that allows too little."""
        output = wanted
        while True:
            usd = _worst_of(granted, output)
            try:
                found = self._book.draw(self._aside, call, usd) if self._aside else None
                if found is None:
                    found = self._book.reserve(self._limits, call, usd)
                else:
                    self._drawn.add(found)
            except sqlite3.Error as error:
                raise BudgetExceeded(
                    f"the book of standing budgets cannot be written ({error}): no call is made"
                ) from error
            if isinstance(found, int):
                self._keep(granted, found, usd, output)
                return None
            fewer = self._affordable(found, granted, output)
            if fewer is None:
                return found
            output = fewer

    def _keep(self, granted: Reservation, hold: int, usd: Decimal, output: int) -> None:
        self._holds[granted] = hold
        granted.max_output = output
        more = EXACT.subtract(usd, granted.held)  # a session without a budget holds nothing yet
        granted.budget.living().reserve(more)
        granted.held = usd


class _Waiting:
    """The wait of a call for those of others."""

    def __init__(self, granted: Reservation, on_waiting: Callable[[str], None]) -> None:
        self._granted, self._on_waiting = granted, on_waiting
        self._began, self._told = monotonic(), False

    async def moment(self, short: Short) -> None:
        """Wait a moment for what a budget lacks. Raises BudgetExceeded once that makes no sense."""
        ask, waited = self._granted.ask, monotonic() - self._began
        need = _worst_of(self._granted, ask.min_output)
        if short.spent + need > short.limit.usd or waited > MAX_WAIT_SECONDS:
            why = short.limit.refusal(short.spent, short.held, datetime.now(UTC))
            raise BudgetExceeded(
                f"a call to {ask.provider}/{ask.model} was not made, as {ask.role} of {ask.agent}: it could cost "
                f"{show(need)}; {why}"
            )
        if waited > NOTICE_SECONDS and not self._told:
            self._told = True
            held = f"{show(short.held)} of {short.limit.setting} is held by calls of other sessions"
            self._on_waiting(f"waiting for money: {held}, and the next call needs {show(need)}")
        await asyncio.sleep(POLL_SECONDS)


def _worst_of(granted: Reservation, output: int) -> Decimal:
    ask = granted.ask
    assert ask.ceiling is not None
    return EXACT.add(ask.ceiling.cost(ask.input_bound.tokens, output), ask.extra_usd)
