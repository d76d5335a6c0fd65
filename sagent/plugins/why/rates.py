"""List prices of tokens, looked up once for each model, size of request and half hour, because thousands of requests
are priced several times."""

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from sagent.lib.money import EXACT, ZERO
from sagent.session.savings import Price
from sagent.usage import Usage

_SIZES = (
    1,
    16_000,
    32_000,
    64_000,
    100_000,
    128_000,
    160_000,
    200_000,
    256_000,
    272_000,
    400_000,
    512_000,
    10**6,
    10**7,
)
"""Sizes of requests between which a change of the price is searched, in tokens."""
_PROBE = Usage(10**5, 10**5, 10**5, 10**5, 10**4, 10**3)
_HALF_HOUR_SECONDS = 1_800
_PerToken: TypeAlias = Callable[[int], Decimal]
_Usd: TypeAlias = Callable[[Usage], Decimal]


class Rates(NamedTuple):
    """USD per token by bucket. `thinking` is that of plain output in a reply that also has reasoning; `fixed` is USD
    per request."""

    input: Decimal
    cache_read: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal
    output: Decimal
    thinking: Decimal
    reasoning: Decimal
    fixed: Decimal

    def of_input(self, usage: Usage) -> Decimal:
        """Return USD of what a request sent, without its fixed price."""
        pairs = (
            (self.input, usage.input), (self.cache_read, usage.cache_read),
            (self.cache_write, usage.cache_write), (self.cache_write_1h, usage.cache_write_1h),
        )  # fmt: skip
        usd = ZERO
        for rate, tokens in pairs:
            if tokens > 0:
                usd = EXACT.fma(rate, Decimal(tokens), usd)
        return usd

    def of_output(self, usage: Usage) -> Decimal:
        """Return USD of a reply."""
        output = max(usage.output, 0)
        reasoning = min(max(usage.reasoning, 0), output)
        plain = self.thinking if reasoning else self.output
        return EXACT.fma(plain, Decimal(output - reasoning), EXACT.multiply(self.reasoning, Decimal(reasoning)))

    def of(self, usage: Usage) -> Decimal:
        """Return USD of a request and its reply, without fees."""
        return EXACT.add(self.fixed, EXACT.add(self.of_input(usage), self.of_output(usage)))


class _Bands(NamedTuple):
    """The sizes up to which a price holds, and the rates below each."""

    ends: tuple[int, ...]
    rates: tuple[Rates, ...]


class RateBook:
    """The rates of models, by a price of whole requests."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._known: dict[tuple[str, str, str, int], _Bands | None] = {}
        self._alike: dict[tuple[str, str, str, Decimal], _Bands] = {}

    def rates(self, provider: str, models: tuple[str, ...], total: int, at: datetime, tier: str) -> Rates | None:
        """Return the rates of a request of so many input tokens, by the first of the model's names that has a price;
        None if its price is unknown."""
        for model in models:
            key = (provider, model, tier, int(at.timestamp()) // _HALF_HOUR_SECONDS)
            if key not in self._known:
                self._known[key] = self._bands(provider, model, at, tier)
            if (bands := self._known[key]) is not None:
                place = next((number for number, end in enumerate(bands.ends) if total <= end), len(bands.ends) - 1)
                return bands.rates[place]
        return None

    def _bands(self, provider: str, model: str, at: datetime, tier: str) -> _Bands | None:
        def usd(usage: Usage) -> Decimal:
            return self._price(provider, model, usage, at, tier) or ZERO

        if not model or self._price(provider, model, _PROBE, at, tier) is None:
            return None
        alike = (provider, model, tier, usd(_PROBE))  # at most times of a day it is the same
        if alike not in self._alike:
            fixed = usd(Usage())

            def per_token(size: int) -> Decimal:
                return EXACT.divide(EXACT.subtract(usd(Usage(size)), fixed), Decimal(size))

            ends = [
                _last_like(before, after, per_token)
                for before, after in pairwise(_SIZES)
                if per_token(before) != per_token(after)
            ]
            starts = [1, *(end + 1 for end in ends)]
            rates = tuple(_rates_at(size, fixed, usd) for size in starts)
            self._alike[alike] = _Bands((*ends, _SIZES[-1]), rates)
        return self._alike[alike]


def _last_like(before: int, after: int, per_token: _PerToken) -> int:
    """Return the largest size that has the price of `before`; that of `after` is another."""
    first = per_token(before)
    while after - before > 1:
        middle = (before + after) // 2
        if per_token(middle) == first:
            before = middle
        else:
            after = middle
    return before


def _rates_at(size: int, fixed: Decimal, usd: _Usd) -> Rates:
    """Return the rates of requests of a size."""
    plain = usd(Usage(size))
    buckets: Mapping[str, Usage] = {
        "input": Usage(size), "cache_read": Usage(cache_read=size), "cache_write": Usage(cache_write=size),
        "cache_write_1h": Usage(cache_write_1h=size),
    }  # fmt: skip
    inputs = {name: EXACT.divide(EXACT.subtract(usd(usage), fixed), Decimal(size)) for name, usage in buckets.items()}
    reasoning = EXACT.subtract(usd(Usage(size, output=1, reasoning=1)), plain)
    both = EXACT.subtract(usd(Usage(size, output=2, reasoning=1)), plain)
    output = EXACT.subtract(usd(Usage(size, output=1)), plain)
    return Rates(**inputs, output=output, thinking=EXACT.subtract(both, reasoning), reasoning=reasoning, fixed=fixed)
