"""Calls that wait for money: descriptions of the reason, the duration and the calls that hold it."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Protocol

from sagent.cost.budget import Ask
from sagent.lib.money import show

NOTICE_SECONDS = 3.0
"""Seconds of waiting before the first report."""
REPEAT_SECONDS = 60.0
"""Seconds between later reports."""
_MAX_NAMED = 2  # calls in flight that are named


class Holder(Protocol):
    """A call in flight: `silent` and `seconds` are the times since its last output and its reservation. It ends after
    `own_limit` of silence, or after `max_silence` if there are signs of life."""

    @property
    def ask(self) -> Ask: ...
    @property
    def held(self) -> Decimal: ...
    @property
    def seconds(self) -> float: ...
    @property
    def silent(self) -> float: ...
    @property
    def own_limit(self) -> float: ...
    @property
    def max_silence(self) -> float: ...


def describe(ask: Ask, output: int, cap: Decimal, room: Decimal, waited: float, holders: Iterable[Holder]) -> str:
    """Return a sentence that says why a call waits, and until when at the latest. `output` is the number of tokens that
    it needs to begin."""
    need = ask.ceiling.cost(ask.input_bound.tokens, output) + ask.extra_usd if ask.ceiling else Decimal(0)
    held = sorted(holders, key=lambda each: -each.held)
    calls = [_held(call) for call in held[:_MAX_NAMED]]
    if rest := held[_MAX_NAMED:]:
        calls.append(f"{len(rest)} more hold {show(sum((call.held for call in rest), Decimal(0)))}")
    free = f"{show(max(room, Decimal(0)))} of {show(cap)} is free"
    return (
        f"waiting for money ({waited:.0f} s so far): the next call needs {show(need)}, and {free}. "
        f"In flight: {'; '.join(calls) or 'nothing'}. Interrupt one, or raise the budget (max_budget_usd)"
    )


def _held(call: Holder) -> str:
    pinged = call.silent >= call.own_limit  # pings are not visible here
    left = max(0.0, (call.max_silence if pinged else min(call.own_limit, call.max_silence)) - call.silent)
    until = f"{'kept alive by its provider, ' if pinged else ''}given up after {left:.0f} s more"
    who = call.ask.agent + ("" if call.ask.role == "executor" else f" as {call.ask.role}")
    return f"{who} holds {show(call.held)} (for {call.seconds:.0f} s, silent {call.silent:.0f} s, {until})"
