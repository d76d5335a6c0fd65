"""The shipped prices: catalog.jsonl, which scripts/make_prices.py generates from genai-prices and prices.toml.

One line per model, in blocks of one provider; a block is parsed when a price of its provider is first needed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, Required, TypeAlias, TypedDict, cast

from sagent.cost.tariff import MEDIA, Steps, Tariff, beyond_text, build_tariff
from sagent.lib.money import EXACT, ZERO
from sagent.usage import BUCKETS

_FEES = ("web_search", "file_search")

_Clause: TypeAlias = "str | Sequence[_Clause] | Mapping[str, object]"
_Price: TypeAlias = Mapping[str, object]
"""A figure by bucket: a text, or a list of a text and [tokens above which it holds, text]. `from` is the day, `between`
the times of day (UTC) at which it holds; `when` the service tier of a variant."""


class _Row(TypedDict, total=False):
    """A model's line."""

    id: Required[str]
    match: _Clause
    window: int
    hidden: bool
    prices: Required[Sequence[_Price]]
    variants: Sequence[_Price]


class _Block(NamedTuple):
    """A provider's models, and the providers whose models it also has unless it lists its own under that name."""

    lenders: Sequence[str]
    rows: Sequence[_Row]


class Edition(NamedTuple):
    """The source of the prices, and the day on which the file was made."""

    source: str
    version: str
    made: date


@cache
def _texts() -> tuple[str, str, Mapping[str, str]]:
    """The first line, the second, and the block of each provider: its own line and those of its models."""
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
    """Of the file."""
    found: Mapping[str, str] = json.loads(_texts()[0])
    return Edition(found["source"], found["version"], date.fromisoformat(found["made"]))


@cache
def corrections() -> Mapping[str, Mapping[str, object]]:
    """The rows of prices.toml by "provider/model", and by "provider" for all its models."""
    return json.loads(_texts()[1])["corrections"]


class Listing:
    """One model as listed: its prices at any time and tier. `window` is in tokens."""

    __slots__ = ("_prices", "_variants", "window")

    def __init__(self, row: _Row, *, lent: bool = False) -> None:
        self._prices = row["prices"]
        self._variants: Sequence[_Price] = () if lent else row.get("variants", ())  # tiers are their owner's offer
        self.window = row.get("window")

    def tariff(self, at: datetime, tier: str) -> Tariff | None:
        """The prices at a time for a service tier as the provider names it ("" or an unknown one: standard)."""
        # The data file tiers under three headings; a tier's name occurs under the one that means it.
        return _tariff(self._select(at, {"service_tier": tier, "processing": tier, "speed": tier}))

    def has_tier(self, tier: str) -> bool:
        """Whether a service tier has prices of its own."""
        return any(tier in _when(variant).values() for variant in self._variants)

    def fees(self, at: datetime) -> Mapping[str, Decimal]:
        """USD per call of what is billed by the call, by kind."""
        price = self._select(at, {})
        found = {kind: Decimal(str(price[kind])).scaleb(-3, EXACT) for kind in _FEES if kind in price}
        for kind, bucket in MEDIA.items():
            if kind in price and bucket in price:
                found[kind] = beyond_text(_steps(price[kind])[0][1], _steps(price[bucket])[0][1])
        return found

    def tariffs(self, at: datetime, tier: str | None) -> tuple[Tariff, ...] | None:
        """All prices that may apply from `at` to the end of the next day, UTC. `tier` None: any that a provider may
        choose by itself, that is all but "fast" speed, which only a request can ask for. None if one of the prices is
        unknown."""
        if tier is None:
            contexts: list[Mapping[str, str]] = [{}]
            contexts += [_when(variant) for variant in self._variants if "speed" not in _when(variant)]
            found = {_tariff(self._select(moment, each)) for moment in self._moments(at) for each in contexts}
        else:
            found = {self.tariff(moment, tier) for moment in self._moments(at)}
        known = tuple(tariff for tariff in found if tariff is not None)
        return known if len(known) == len(found) else None

    def _moments(self, at: datetime) -> Iterator[datetime]:
        """Every time from `at`'s day to the end of the next at which a price may change."""
        clock = {time(0), *(edge for price in (*self._prices, *self._variants) for edge in _between(price))}
        today = at.astimezone(UTC).date()
        for day in (today, today + timedelta(days=1)):
            for moment in clock:
                yield datetime.combine(day, moment, UTC)

    def _select(self, at: datetime, context: Mapping[str, str]) -> _Price:
        """The last of the prices that holds, with those of the variants that do; the first variant wins."""
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
    """From its day on, in UTC; every day from one time (included) to another (excluded), perhaps across midnight."""
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


@lru_cache(maxsize=8192)  # a list of all models, of which there are a thousand, asks for each many times
def find(provider: str, model: str) -> Listing | None:
    """The listing of a model id (in lower case), by the data's own rules of matching; None where none matches."""
    own = _block(provider)
    for name in (provider, *own.lenders):
        for row in _block(name).rows:
            if _matches(row.get("match", row["id"].lower()), model):
                return Listing(row, lent=name != provider)
    return None


def _matches(clause: _Clause, name: str) -> bool:
    """A text is a name, of a list one clause is enough."""
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


def chat_models(provider: str) -> Iterator[str]:
    """Ids of the provider's models that are in use and answer in text."""
    return (row["id"] for row in _block(provider).rows if not row.get("hidden"))
