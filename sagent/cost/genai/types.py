"""Stand-ins for the classes that the data of genai-prices is written in.

They hold what a price needs and drop the rest. Constructors and members have the library's names, because its data
module builds them (`from .types import *`) and because its own objects must serve in their place (`load`).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import SimpleNamespace
from typing import Protocol, TypeAlias

__all__ = (
    "ArrayMatch",
    "ClauseAnd",
    "ClauseContains",
    "ClauseEndsWith",
    "ClauseEquals",
    "ClauseOr",
    "ClauseRegex",
    "ClauseStartsWith",
    "ConditionalPrice",
    "ModelInfo",
    "ModelPrice",
    "PriceVariant",
    "Provider",
    "StartDateConstraint",
    "Tier",
    "TieredPrices",
    "TimeOfDateConstraint",
    "UsageExtractor",
    "UsageExtractorMapping",
)


class Clause(Protocol):
    """Whether a model's name, in lower case, is meant."""

    def is_match(self, text: str, /) -> bool: ...


class ClauseEquals:
    __slots__ = ("equals",)

    def __init__(self, equals: str) -> None:
        self.equals = equals

    def is_match(self, text: str, /) -> bool:
        return text == self.equals.lower()


class ClauseStartsWith:
    __slots__ = ("starts_with",)

    def __init__(self, starts_with: str) -> None:
        self.starts_with = starts_with

    def is_match(self, text: str, /) -> bool:
        return text.startswith(self.starts_with.lower())


class ClauseEndsWith:
    __slots__ = ("ends_with",)

    def __init__(self, ends_with: str) -> None:
        self.ends_with = ends_with

    def is_match(self, text: str, /) -> bool:
        return text.endswith(self.ends_with.lower())


class ClauseContains:
    __slots__ = ("contains",)

    def __init__(self, contains: str) -> None:
        self.contains = contains

    def is_match(self, text: str, /) -> bool:
        return self.contains.lower() in text


class ClauseRegex:
    __slots__ = ("regex",)

    def __init__(self, regex: str) -> None:
        self.regex = regex

    def is_match(self, text: str, /) -> bool:
        return re.search(self.regex, text) is not None


class ClauseOr:
    __slots__ = ("or_",)

    def __init__(self, or_: Sequence[Clause]) -> None:
        self.or_ = or_

    def is_match(self, text: str, /) -> bool:
        return any(clause.is_match(text) for clause in self.or_)


class ClauseAnd:
    __slots__ = ("and_",)

    def __init__(self, and_: Sequence[Clause]) -> None:
        self.and_ = and_

    def is_match(self, text: str, /) -> bool:
        return all(clause.is_match(text) for clause in self.and_)


class StartDateConstraint:
    """Holds from a day on, in UTC."""

    __slots__ = ("start_date",)

    def __init__(self, start_date: date) -> None:
        self.start_date = start_date

    def active(self, moment: datetime, /) -> bool:
        return moment.astimezone(UTC).date() >= self.start_date


class TimeOfDateConstraint:
    """Holds every day from one time (included) to another (excluded), perhaps across midnight."""

    __slots__ = ("end_time", "start_time")

    def __init__(self, start_time: time, end_time: time) -> None:
        self.start_time = start_time
        self.end_time = end_time

    def active(self, moment: datetime, /) -> bool:
        now = moment.astimezone(UTC).time()
        start, end = utc_time(self.start_time), utc_time(self.end_time)
        return start <= now < end if start <= end else now >= start or now < end


Constraint: TypeAlias = StartDateConstraint | TimeOfDateConstraint | None


class Tier:
    __slots__ = ("price", "start")

    def __init__(self, start: int, price: Decimal) -> None:
        self.start = start
        self.price = price


class TieredPrices:
    """A base price, and others for requests whose whole input is larger than their start."""

    __slots__ = ("base", "tiers")

    def __init__(self, base: Decimal, tiers: Sequence[Tier]) -> None:
        self.base = base
        self.tiers = tiers


class ModelPrice(SimpleNamespace):
    """Prices by unit (`input_mtok`, ...), as attributes: Decimal, TieredPrices or None."""


class ConditionalPrice:
    __slots__ = ("constraint", "prices")

    def __init__(self, constraint: Constraint = None, *, prices: ModelPrice) -> None:
        self.constraint = constraint
        self.prices = prices


class PriceVariant:
    """Prices that replace the standard ones where the request's context says `when`."""

    __slots__ = ("constraint", "prices", "when")

    def __init__(self, when: Mapping[str, str], prices: ModelPrice, constraint: Constraint = None) -> None:
        self.when = when
        self.prices = prices
        self.constraint = constraint


class ModelInfo:
    __slots__ = ("context_window", "deprecated", "id", "match", "price_variants", "prices")

    def __init__(
        self,
        id: str,  # noqa: A002 -- the library's name for it
        match: Clause,
        *,
        prices: ModelPrice | list[ConditionalPrice],
        price_variants: Sequence[PriceVariant] | None = None,
        context_window: int | None = None,
        deprecated: bool | None = None,
        **_ignored: object,
    ) -> None:
        self.id = id
        self.match = match
        self.prices = prices
        self.price_variants = price_variants
        self.context_window = context_window
        self.deprecated = deprecated


class Provider:
    __slots__ = ("fallback_model_providers", "id", "models")

    def __init__(
        self,
        id: str,  # noqa: A002 -- the library's name for it
        *,
        models: Sequence[ModelInfo] = (),
        fallback_model_providers: Sequence[str] | None = None,
        **_ignored: object,
    ) -> None:
        self.id = id
        self.models = models
        self.fallback_model_providers = fallback_model_providers


class _Ignored:
    """How a response's usage is read: the adapters know that."""

    __slots__ = ()

    def __init__(self, *_values: object, **_named: object) -> None:
        pass


ArrayMatch = UsageExtractor = UsageExtractorMapping = _Ignored


def utc_time(value: time) -> time:
    """A time of day in UTC, without its zone; a time without a zone is UTC already."""
    if value.tzinfo is None:
        return value
    return datetime.combine(date(1970, 1, 1), value).astimezone(UTC).time()
