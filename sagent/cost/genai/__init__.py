"""The price data of genai-prices, read without its library.

Importing genai_prices brings pydantic and httpx2 and takes 180 ms and 14 MB; the data itself, built from small
classes of our own, takes 10 ms and 6 MB. A test holds every price found here against the library's own result.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, cast

from sagent.cost.genai.types import Constraint, ModelInfo, Provider, utc_time
from sagent.cost.tariff import Steps, Tariff, build_tariff
from sagent.lib.money import EXACT, ZERO

if TYPE_CHECKING:
    from sagent.cost.genai.types import TieredPrices, TimeOfDateConstraint

_FEES = {"web_searches_kcount": "web_search", "storage_searches_kcount": "file_search"}
_UNITS = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_mtok": "output",
    "output_reasoning_mtok": "reasoning",
}


def load() -> Mapping[str, Provider]:
    """Providers by id. Opens no connection: the data lies in the installed package."""
    try:
        providers = _read_data()
    except Exception:  # a later version whose data is written otherwise: its own classes serve as well, only slower
        from genai_prices.data import providers as theirs

        providers = cast("Sequence[Provider]", theirs)
    return {provider.id: provider for provider in providers}


def _read_data() -> Sequence[Provider]:
    """Run the data module with this package in the place of its own, so that it builds our classes."""
    from importlib.machinery import SourceFileLoader
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("genai_prices")
    if spec is None or spec.origin is None:
        raise ImportError("genai_prices has no file")
    code = SourceFileLoader("genai_prices.data", str(Path(spec.origin).with_name("data.py"))).get_code(
        "genai_prices.data"
    )
    if code is None:
        raise ImportError("genai_prices.data has no code")
    scope: dict[str, object] = {"__name__": f"{__name__}.data", "__package__": __name__}
    # Twenty thousand objects, all of them to stay: to look for garbage among them takes a quarter of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        exec(code, scope)  # noqa: S102 -- an installed dependency's module, as importing it would run it
    finally:
        if collecting:
            gc.enable()
    return cast("Sequence[Provider]", scope["providers"])


class Listing:
    """One model as listed: its prices at any time and tier. `window` is in tokens."""

    __slots__ = ("_model", "_steady", "_variants", "window")

    def __init__(self, model: ModelInfo, *, lent: bool = False) -> None:
        self._model = model
        self._variants = () if lent else tuple(model.price_variants or ())  # tiers are their owner's offer
        # Where neither time nor tier changes the price, this is it.
        self._steady = None if self._variants or isinstance(model.prices, list) else _tariff(vars(model.prices))
        self.window = model.context_window

    def tariff(self, at: datetime, tier: str) -> Tariff | None:
        """What holds at a time for a service tier as the provider names it ("" or an unknown one: standard)."""
        # The data files tiers under three headings; a tier's name occurs under the one that means it.
        return self._steady or self._select(at, {"service_tier": tier, "processing": tier, "speed": tier})

    def has_tier(self, tier: str) -> bool:
        """Whether the data tell prices of a service tier."""
        return any(tier in variant.when.values() for variant in self._variants)

    def fees(self, at: datetime) -> Mapping[str, Decimal]:
        """USD per call of what is billed by the call, by kind."""
        values = self._values(at, {})
        found = {kind: values.get(unit) for unit, kind in _FEES.items()}
        return {kind: usd.scaleb(-3, EXACT) for kind, usd in found.items() if isinstance(usd, Decimal)}

    def tariffs(self, at: datetime, tier: str | None) -> tuple[Tariff, ...] | None:
        """Everything that may hold from `at` to the end of the next day, UTC.

        `tier` None: any that a provider may choose by itself, so all but "fast" speed, which only a request can ask
        for. None where one of the prices is unknown.
        """
        if tier is None:
            contexts: list[Mapping[str, str]] = [{}]
            contexts += [variant.when for variant in self._variants if "speed" not in variant.when]
            found = {self._select(moment, context) for moment in self._moments(at) for context in contexts}
        else:
            found = {self.tariff(moment, tier) for moment in self._moments(at)}
        known = tuple(tariff for tariff in found if tariff is not None)
        return known if len(known) == len(found) else None

    def _moments(self, at: datetime) -> Iterator[datetime]:
        """Every time from `at`'s day to the end of the next at which a price may change."""
        clock = {time(0)}
        for constraint in self._constraints():
            if constraint is not None and hasattr(constraint, "start_time"):
                daily = cast("TimeOfDateConstraint", constraint)
                clock |= {utc_time(daily.start_time), utc_time(daily.end_time)}
        today = at.astimezone(UTC).date()
        for day in (today, today + timedelta(days=1)):
            for moment in clock:
                yield datetime.combine(day, moment, UTC)

    def _constraints(self) -> Iterator[Constraint]:
        if isinstance(self._model.prices, list):
            yield from (price.constraint for price in self._model.prices)
        yield from (variant.constraint for variant in self._variants)

    def _select(self, at: datetime, context: Mapping[str, str]) -> Tariff | None:
        return _tariff(self._values(at, context))

    def _values(self, at: datetime, context: Mapping[str, str]) -> Mapping[str, object]:
        prices = self._model.prices
        if isinstance(prices, list):
            if not prices:
                return {}
            prices = next(
                (price.prices for price in reversed(prices) if price.constraint is None or price.constraint.active(at)),
                prices[0].prices,
            )
        values: dict[str, object] = {}
        for variant in self._variants:
            if (variant.constraint is None or variant.constraint.active(at)) and all(
                context.get(key) == wanted for key, wanted in variant.when.items()
            ):
                values = {key: value for key, value in vars(variant.prices).items() if value is not None} | values
        return vars(prices) | values


def find(providers: Mapping[str, Provider], provider_id: str, model_id: str) -> Listing | None:
    """The listing of a model id (in lower case), by the data's own rules of matching; None where none matches."""
    provider = providers.get(provider_id)
    if provider is None:
        return None
    for model in provider.models:
        if model.match.is_match(model_id):
            return Listing(model)
    for lender in provider.fallback_model_providers or ():
        for model in providers[lender].models if lender in providers else ():
            if model.match.is_match(model_id):
                return Listing(model, lent=True)
    return None


def chat_models(providers: Mapping[str, Provider], provider_id: str) -> Iterator[tuple[str, Listing]]:
    """Ids and listings of the provider's models that are in use and answer in text."""
    provider = providers.get(provider_id)
    for model in provider.models if provider else ():
        prices = model.prices[-1].prices if isinstance(model.prices, list) else model.prices
        spoken = any(key.startswith(("output_audio", "output_image", "output_video")) for key in vars(prices))
        if not (model.deprecated or spoken or "embed" in model.id):
            yield model.id, Listing(model)


def _tariff(values: Mapping[str, object]) -> Tariff | None:
    rates = {bucket: _steps(values[unit]) for unit, bucket in _UNITS.items() if values.get(unit) is not None}
    thousand = values.get("requests_kcount")
    return build_tariff(rates, thousand.scaleb(-3, EXACT) if isinstance(thousand, Decimal) else ZERO)


def _steps(price: object) -> Steps:
    if isinstance(price, Decimal):
        return [(-1, price)]
    tiered = cast("TieredPrices", price)
    return [(-1, tiered.base), *sorted((tier.start, tier.price) for tier in tiered.tiers)]
