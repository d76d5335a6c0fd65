"""Prices of tokens: exact decimal arithmetic over bands of input size, and the prices that are shipped.

These are in catalog.jsonl, which scripts/make_prices.py generates from genai-prices and prices.toml: one line per
model, in blocks of one provider; a block is parsed when a price of its provider is first needed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, Required, TypeAlias, TypedDict, cast

from sagent.errors import ConfigError
from sagent.lib.json import as_array, as_object
from sagent.lib.money import EXACT, TOO_MUCH, ZERO, as_usd
from sagent.usage import BUCKETS, Usage

_RATES = (*BUCKETS, "thinking")
"""Token buckets with a price; `thinking` is the price of the whole output of a call that reasoned (DashScope's
Qwen)."""
FEES = (
    *("web_search", "web_search_preview", "file_search", "map_search"),
    *("code_container", "server_tool", "search_source", "image_generation"),
)
"""Kinds of fees billed by use, as `Usage.fees` names them."""

MEDIA: Mapping[str, str] = {
    "audio_input": "input",
    "audio_cache_read": "cache_read",
    "audio_output": "output",
    "image_output": "output",
}
"""Kinds of audio and image tokens, and the bucket that they are also counted in: their price is in addition to it."""

Steps: TypeAlias = Sequence[tuple[int, Decimal]]
"""A bucket's rates in USD per million tokens, each with the input size above which it holds (-1: from the start)."""
_FEES = ("web_search", "file_search")

_Clause: TypeAlias = "str | Sequence[_Clause] | Mapping[str, object]"
_Price: TypeAlias = Mapping[str, object]
"""A price by bucket: a string, or a list of a string and [tokens above which it applies, string]. It applies from the
day `from`, and at the times `between` (UTC); `when` is the service tier of a variant."""


class Band(NamedTuple):
    """USD per token, by bucket, for requests whose whole input is more than `over` tokens."""

    over: int
    input: Decimal
    cache_read: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal
    output: Decimal
    reasoning: Decimal
    thinking: Decimal  # the rest of the output of a call that reasoned
    request: Decimal  # USD per call


Tariff: TypeAlias = tuple[Band, ...]
"""Bands by rising `over`, the first at -1. The band of a call's whole input prices every token of the call."""

FREE: Tariff = (Band(-1, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO),)


def build_tariff(rates: Mapping[str, Steps], request: Decimal = ZERO) -> Tariff | None:
    """Return the tariff of these buckets, or None if the price of input or output is missing.

    A bucket without a rate is billed as the next wider one: cached tokens as input, reasoning and the like as output; a
    one-hour write as twice the input if writes cost more than input, which is Anthropic's rule, else as a write.
    `request` is USD per call.
    """
    if "input" not in rates or "output" not in rates:
        return None
    edges = sorted({over for steps in rates.values() for over, _ in steps})
    return tuple(_band(rates, over, request) for over in edges)


def _band(rates: Mapping[str, Steps], over: int, request: Decimal) -> Band:
    def rate(*buckets: str) -> Decimal:
        steps = next(rates[bucket] for bucket in buckets if bucket in rates)
        return [price for start, price in steps if start <= over][-1].scaleb(-6, EXACT)

    write = rate("cache_write", "input")
    hour = max(write, EXACT.multiply(2, rate("input"))) if write > rate("input") else write
    return Band(
        over,
        rate("input"),
        rate("cache_read", "input"),
        write,
        rate("cache_write_1h") if "cache_write_1h" in rates else hour,
        rate("output"),
        rate("reasoning", "thinking", "output"),
        rate("thinking", "output"),
        request,
    )


def cost(tariff: Tariff, usage: Usage) -> Decimal:
    """Return USD for one call. A negative count (a server's contradiction) is billed as none, never as a credit."""
    total = usage.total_input
    band = next(band for band in reversed(tariff) if total > band.over or band.over < 0)
    output = max(usage.output, 0)
    reasoning = min(max(usage.reasoning, 0), output)
    usd = band.request
    for rate, count in (
        (band.input, usage.input),
        (band.cache_read, usage.cache_read),
        (band.cache_write, usage.cache_write),
        (band.cache_write_1h, usage.cache_write_1h),
        (band.thinking if reasoning else band.output, output - reasoning),
        (band.reasoning, reasoning),
    ):
        if count > 0:
            usd = EXACT.fma(rate, count, usd)
    return usd


def scale(tariff: Tariff, factor: Decimal) -> Tariff:
    """Return the tariff with every rate multiplied."""
    return tuple(Band(band.over, *(EXACT.multiply(rate, factor) for rate in band[1:])) for band in tariff)


class Ceiling:
    """The highest of several tariffs that may apply to a call: an upper bound of its cost. One-hour cache writes count
    only with `hour`: they are billed only if a request asks for them. `beyond_text` is the extra cost of an output
    token that is not text, in USD."""

    __slots__ = ("_beyond", "_hour", "_tariffs")

    def __init__(self, tariffs: Sequence[Tariff], *, hour: bool = False, beyond_text: Decimal = ZERO) -> None:
        self._tariffs = tuple(tariffs)
        self._hour = hour
        self._beyond = beyond_text

    def cost(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Return USD that no call with at most so many tokens exceeds, in any split over buckets and bands."""
        return max(EXACT.fma(rate, max(output_tokens, 0), base) for base, rate in self._corners(max(input_tokens, 0)))

    def affordable(self, input_tokens: int, usd: Decimal, max_output: int) -> int:
        """Return the largest output, at most `max_output`, that `usd` pays for; -1 if the input alone costs more."""
        allowed = max_output
        for base, rate in self._corners(max(input_tokens, 0)):
            left = EXACT.subtract(usd, base)
            if left < 0:
                return -1
            if left < EXACT.multiply(rate, allowed):  # the quotient may be rounded up
                allowed = int(EXACT.divide_int(left, rate))
        return allowed

    def _corners(self, input_tokens: int) -> list[tuple[Decimal, Decimal]]:
        """Yield (USD of the input, USD per output token) at every point where a call may be most expensive.

        Within a band the cost rises with the input, so its largest input is the worst; and since a higher band may be
        cheaper, the top of every band within reach counts.
        """
        corners: list[tuple[Decimal, Decimal]] = []
        for tariff in self._tariffs:
            tops = [band.over for band in tariff[1:]]
            for band, top in zip(tariff, [*tops, input_tokens], strict=True):
                if band.over < input_tokens or band.over < 0:
                    hour = band.cache_write_1h if self._hour else ZERO
                    dearest = max(band.input, band.cache_read, band.cache_write, hour)
                    base = EXACT.fma(dearest, min(top, input_tokens), band.request)
                    dearest = max(EXACT.add(band.output, self._beyond), band.reasoning, band.thinking)
                    corners.append((base, dearest))
        return corners


def read_tariff(name: str, row: Mapping[str, object]) -> Tariff | None:
    """Parse the tariff of a row of USD per million tokens: `input`, `output`, optionally the other buckets and `tiers`.

    Return None for a row without prices (one that only has a window). Raises ConfigError naming the row, the key and
    the accepted values.
    """
    accepted = (*_RATES, *FEES, *MEDIA, "tiers", "window")
    rates: dict[str, list[tuple[int, Decimal]]] = {}
    for key, value in row.items():
        if key in _RATES:
            rates[key] = [(-1, _rate(name, key, value))]
        elif key not in accepted:
            raise ConfigError(f"prices of {name}: unknown key {key!r}; accepted are {', '.join(accepted)}")
    for tier in _tiers(name, row.get("tiers", ())):
        over = tier.get("over")
        if not isinstance(over, int) or isinstance(over, bool) or over < 0:
            raise ConfigError(f"prices of {name}: every tier needs `over`, the input tokens above which it holds")
        for key, value in tier.items():
            if key != "over" and key not in rates:
                raise ConfigError(f"prices of {name}: tier key {key!r} has no price without a tier")
            if key != "over":
                rates[key].append((over, _rate(name, key, value)))
    if rates and not ("input" in rates and "output" in rates):
        raise ConfigError(f"prices of {name}: both `input` and `output` are needed, in USD per million tokens")
    return build_tariff({key: sorted(steps) for key, steps in rates.items()})


def read_fees(name: str, row: Mapping[str, object]) -> Mapping[str, Decimal]:
    """Parse a row's USD per thousand uses into USD per use, by kind, and the extra cost of audio and image tokens.
    Raises ConfigError as `read_tariff` does."""
    media = {
        key: beyond_text(_rate(name, key, row[key]), _rate(name, bucket, row[bucket]))
        for key, bucket in MEDIA.items()
        if key in row and bucket in row
    }
    return {**{key: _rate(name, key, row[key]).scaleb(-3, EXACT) for key in FEES if key in row}, **media}


def beyond_text(media: Decimal, text: Decimal) -> Decimal:
    """Return the extra USD of an audio or image token over a text token, from USD per million."""
    return max(ZERO, EXACT.subtract(media, text)).scaleb(-6, EXACT)


def _tiers(name: str, value: object) -> list[Mapping[str, object]]:
    tiers = as_array(value)
    if not isinstance(value, list | tuple) or not all(isinstance(tier, Mapping) for tier in tiers):
        raise ConfigError(f"prices of {name}: `tiers` must be a list of tables")
    return [as_object(tier) for tier in tiers]


def _rate(name: str, key: str, value: object) -> Decimal:
    """Return a price as a person wrote it."""
    rate = as_usd(value)
    if rate is not None and 0 <= rate < TOO_MUCH:
        return rate
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    unit = "thousand calls" if key in FEES else "million tokens"
    raise ConfigError(f"prices of {name}: {key} = {shown} is not a price in USD per {unit}")


class _Row(TypedDict, total=False):
    """A model's line."""

    id: Required[str]
    match: _Clause
    window: int
    hidden: bool
    prices: Required[Sequence[_Price]]
    variants: Sequence[_Price]


class _Block(NamedTuple):
    """A provider's models, and the providers whose models it also has unless it lists a model of that name itself."""

    lenders: Sequence[str]
    rows: Sequence[_Row]


class Edition(NamedTuple):
    """The source of the prices, and the day on which the file was made."""

    source: str
    version: str
    made: date


@cache
def _texts() -> tuple[str, str, Mapping[str, str]]:
    """Return the first line, the second, and each provider's block: its own line and its models' lines."""
    text = Path(__file__).with_name("catalog.jsonl").read_text(encoding="utf-8")
    head, *blocks = text.removesuffix("\n").split('\n{"provider":"')
    edition, corrections = head.split("\n")
    return edition, corrections, {block[: block.index('"')]: '{"provider":"' + block for block in blocks}


@cache
def _block(provider: str) -> _Block:
    text = _texts()[2].get(provider)
    if text is None:
        return _Block((), ())
    first, *rows = json.loads(f"[{text.replace(chr(10), ',')}]")
    return _Block(first.get("lenders", ()), rows)


@cache
def edition() -> Edition:
    """Return the edition of the price file."""
    found: Mapping[str, str] = json.loads(_texts()[0])
    return Edition(found["source"], found["version"], date.fromisoformat(found["made"]))


@cache
def corrections() -> Mapping[str, Mapping[str, object]]:
    """Return the rows of prices.toml by "provider/model", and by "provider" for all its models."""
    return json.loads(_texts()[1])["corrections"]


class Listing:
    """One model as listed: its prices at any time and tier. `window` is in tokens."""

    __slots__ = ("_prices", "_variants", "window")

    def __init__(self, row: _Row, *, lent: bool = False) -> None:
        self._prices = row["prices"]
        self._variants: Sequence[_Price] = () if lent else row.get("variants", ())  # tiers are their owner's offer
        self.window = row.get("window")

    def tariff(self, at: datetime, tier: str) -> Tariff | None:
        """Return the prices at a time for a service tier by the provider's name ("" or an unknown one: standard)."""
        # The data file tiers under three headings; a tier's name occurs under the one that means it.
        return _tariff(self._select(at, {"service_tier": tier, "processing": tier, "speed": tier}))

    def has_tier(self, tier: str) -> bool:
        """Return True if a service tier has prices of its own."""
        return any(tier in _when(variant).values() for variant in self._variants)

    def fees(self, at: datetime) -> Mapping[str, Decimal]:
        """Return USD per use of everything billed by use, by kind."""
        price = self._select(at, {})
        found = {kind: Decimal(str(price[kind])).scaleb(-3, EXACT) for kind in _FEES if kind in price}
        for kind, bucket in MEDIA.items():
            if kind in price and bucket in price:
                found[kind] = beyond_text(_steps(price[kind])[0][1], _steps(price[bucket])[0][1])
        return found

    def tariffs(self, at: datetime, tier: str | None) -> tuple[Tariff, ...] | None:
        """Return all prices that may apply from `at` to the end of the next day, UTC. `tier` None: any that a provider
        may choose, which is all but "fast" speed, because that needs a request. Return None if one of the prices is
        unknown."""
        if tier is None:
            contexts: list[Mapping[str, str]] = [{}]
            contexts += [_when(variant) for variant in self._variants if "speed" not in _when(variant)]
            found = {_tariff(self._select(moment, context)) for moment in self._moments(at) for context in contexts}
        else:
            found = {self.tariff(moment, tier) for moment in self._moments(at)}
        known = tuple(tariff for tariff in found if tariff is not None)
        return known if len(known) == len(found) else None

    def _moments(self, at: datetime) -> Iterator[datetime]:
        """Yield the times from the start of `at`'s day to the end of the next when a price may change."""
        clock = {time(0), *(edge for price in (*self._prices, *self._variants) for edge in _between(price))}
        today = at.astimezone(UTC).date()
        for day in (today, today + timedelta(days=1)):
            for moment in clock:
                yield datetime.combine(day, moment, UTC)

    def _select(self, at: datetime, context: Mapping[str, str]) -> _Price:
        """Return the last price that applies, combined with its applicable variants; the first variant wins."""
        price: _Price = next((each for each in reversed(self._prices) if _holds(each, at)), self._prices[0])
        for variant in reversed(self._variants):
            if _holds(variant, at) and all(context.get(key) == wanted for key, wanted in _when(variant).items()):
                price = {**price, **variant}
        return price


def _when(variant: _Price) -> Mapping[str, str]:
    return cast("Mapping[str, str]", variant["when"])


def _between(price: _Price) -> tuple[time, ...]:
    return tuple(map(time.fromisoformat, cast("Sequence[str]", price.get("between", ()))))


def _holds(price: _Price, at: datetime) -> bool:
    """Return True if a price applies: from its day on (UTC), or daily from one time to another (exclusive)."""
    moment = at.astimezone(UTC)
    if "from" in price:
        return moment.date() >= date.fromisoformat(str(price["from"]))
    if times := _between(price):
        (start, end), now = times, moment.time()
        return start <= now < end if start <= end else now >= start or now < end
    return True


def _tariff(price: _Price) -> Tariff | None:
    rates = {bucket: _steps(price[bucket]) for bucket in BUCKETS if bucket in price}
    return build_tariff(rates, Decimal(str(price["requests"])).scaleb(-3, EXACT) if "requests" in price else ZERO)


def _steps(figure: object) -> Steps:
    if isinstance(figure, str):
        return [(-1, Decimal(figure))]
    base, *tiers = cast("tuple[str, *tuple[tuple[int, str], ...]]", figure)
    return [(-1, Decimal(base)), *sorted((over, Decimal(rate)) for over, rate in tiers)]


@lru_cache(maxsize=8192)  # a list of a thousand models asks for each repeatedly
def find(provider: str, model: str) -> Listing | None:
    """Return the listing of a model id (in lower case), by the data's own matching rules; None if there is none."""
    own = _block(provider)
    for name in (provider, *own.lenders):
        for row in _block(name).rows:
            if _matches(row.get("match", row["id"].lower()), model):
                return Listing(row, lent=name != provider)
    return None


def _matches(clause: _Clause, name: str) -> bool:
    """Return True if a name matches a clause: a string is the name itself, a list needs one matching clause."""
    if isinstance(clause, str):
        return name == clause
    if not isinstance(clause, Mapping):
        return any(_matches(each, name) for each in clause)
    ((kind, operand),) = clause.items()
    if kind == "all":
        return all(_matches(each, name) for each in cast("Sequence[_Clause]", operand))
    text = str(operand)
    match kind:
        case "starts":
            return name.startswith(text)
        case "ends":
            return name.endswith(text)
        case "contains":
            return text in name
        case _:
            return re.search(text, name) is not None


def is_listed(provider: str) -> bool:
    """Return True if the data have prices of a provider, under this name."""
    return provider in _texts()[2]


def chat_models(provider: str) -> Iterator[str]:
    """Ids of the provider's models that are in use and answer in text."""
    return (row["id"] for row in _block(provider).rows if not row.get("hidden"))
