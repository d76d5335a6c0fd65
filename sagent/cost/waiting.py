"""Calls that wait for money: what for, how long and whose calls hold it, in words; and an end to those that hang."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from decimal import Decimal
from typing import Protocol

from sagent.cost.budget import Ask
from sagent.errors import ModelError
from sagent.lib.money import show
from sagent.model import Model, Reply

NOTICE_SECONDS = 3.0
"""Seconds after which a wait is told for the first time."""
REPEAT_SECONDS = 60.0
"""Seconds after which it is told again."""
_MAX_NAMED = 2  # calls in flight that are named


class Ending(Protocol):
    """A call in flight that can be ended."""

    max_silence: float
    give_up: Callable[[], None] | None

    @property
    def silent(self) -> float: ...


class Holder(Protocol):
    """A call in flight: `silent` and `seconds` are how long nothing came and how long ago it was reserved;
    `max_silence` is the silence after which it is ended."""

    @property
    def ask(self) -> Ask: ...
    @property
    def held(self) -> Decimal: ...
    @property
    def seconds(self) -> float: ...
    @property
    def silent(self) -> float: ...
    @property
    def max_silence(self) -> float: ...


async def within(reply: Awaitable[Reply], model: Model, call: Ending) -> Reply:
    """Wait for a reply. A model may end silent calls itself, after its `max_silence` in seconds. If others wait for the
    money of a silent call of another one, it is given up: then ModelError is raised."""
    own_limit = getattr(model, "max_silence", None)  # no isinstance: a wrapper may have it from what it wraps
    if isinstance(own_limit, int | float):
        call.max_silence = own_limit
        return await reply
    limit = asyncio.timeout(None)
    try:
        async with limit:
            call.give_up = lambda: limit.reschedule(0.0)
            return await reply
    except TimeoutError as error:
        if not limit.expired():
            raise
        words = f"given up after {call.silent:.0f} s of silence, because others wait for the money that it reserves"
        raise ModelError("stalled", words, provider=model.provider, model=model.id) from error
    finally:
        call.give_up = None


def describe(ask: Ask, output: int, cap: Decimal, room: Decimal, waited: float, holders: Iterable[Holder]) -> str:
    """Return a sentence that says what a call waits for, and until when at the latest. `output` is how many tokens it
    must be able to write to begin."""
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
    left = call.max_silence - call.silent  # signs of life that are no word are not seen here
    until = f"given up after {left:.0f} s more" if left > 0 else "its provider keeps it alive"
    role = "" if call.ask.role == "executor" else f" as {call.ask.role}"
    return f"{call.ask.agent}{role} holds {show(call.held)} (silent for {call.silent:.0f} s, {until})"
