"""Prices of models: the user's own, then the corrections shipped here, then the data of genai-prices (tariff.py)."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sagent.lib.json import EMPTY, as_object, as_str
from sagent.lib.money import EXACT, ZERO
from sagent.plugin import ProviderRow, of_ours
from sagent.usage import Charge, Usage

if TYPE_CHECKING:
    from sagent.cost.tariff import Ceiling, Listing, Tariff

LOCAL = frozenset({"ollama", "lmstudio", "vllm"})
"""The core's providers on the user's own machines: their calls cost nothing. Rows say so with `free`."""

# Our names where genai-prices has another. An unknown name stays unknown: a server with OpenAI's protocol
# ("openai-compatible") may charge anything.
_THEIR_NAMES = {"moonshot": "moonshotai", "xai": "x-ai", "gemini": "google", "z.ai": "zai", "openai-chat": "openai"}
# Anthropic bills the regions of _REGIONS at a higher price, and a workspace's settings may choose one without the
# request.
_MARGINS = {"openrouter": Decimal(2), "anthropic": Decimal("1.1")}
# By which every token's price is multiplied where inference is kept in a region; a charge's tier then ends in its name
# (platform.claude.com, data residency: 1.1 for "us", Opus 4.6 and later).
_REGIONS = {"us": Decimal("1.1")}
STANDARD = ("openai",)
"""Providers that need the standard tier named in requests under a budget; others use it by default."""
# By which a service tier multiplies the price of tokens where the data know nothing of it (ai.google.dev, optimization:
# half, and "75% to 100% more", of which the dearer stands).
_GEMINI_TIERS = {"flex": Decimal("0.5"), "priority": Decimal(2)}
_STANDARD_TIERS = frozenset({"", "standard", "default", "auto", "on_demand"})

_SEARCHING = ("-search", "deep-research")  # in names of models that search without limit, for a fee each time


class KnownModel(NamedTuple):
    """A row of the catalogue. `window` is in tokens; prices are USD per million tokens, for the smallest input."""

    id: str
    window: int | None
    input: Decimal
    output: Decimal


class Billing(NamedTuple):
    """Billing of a provider: its name in price lists, "" for its own; whether calls are free; whether requests may ask
    for one-hour cache writes by default."""

    prices: str = ""
    free: bool = False
    hour: bool = False


class PriceBook:
    """The prices of calls. The shipped data are read on first use, one provider at a time, and once per process."""

    def __init__(
        self,
        overrides: Mapping[str, Mapping[str, object]] | None = None,
        *,
        billing: Callable[[str], Billing] | None = None,
    ) -> None:
        """`overrides`: "provider/model" -> USD per million tokens, as in prices.toml. Raises ConfigError.

        `billing` returns a provider's own price data; None for providers of sagent and its own plugins.
        """
        self._own = {key.lower(): _read(key, row) for key, row in (overrides or {}).items()}
        self._windows = {key.lower(): row.get("window") for key, row in (overrides or {}).items()}
        self._say = billing or _declared
        self._billings: dict[str, Billing] = {}
        self._ceilings: dict[tuple[str, str, bool], tuple[object, Ceiling | None]] = {}

    def price(
        self, provider: str, model: str, usage: Usage, at: datetime | None = None, tier: str = ""
    ) -> Decimal | None:
        """Return USD of one call made at a time (now) on a service tier, by list price; None if the price is unknown.

        It is also None if the usage has a fee of unknown price. A tier may end in a region: "priority+us", "us".
        """
        from sagent.cost.tariff import MEDIA, cost

        tier, region = _tier(tier)
        tariff = self._tariff(provider, model, at or datetime.now(UTC), tier)
        if tariff is None:
            return None
        usd = EXACT.multiply(EXACT.multiply(cost(tariff, usage), region), self._factor(provider, model, tier))
        rates: Mapping[str, Decimal] = self.fees(provider, model, at) if usage.fees else {}
        for kind, count in usage.fees.items():
            sound = kind in MEDIA and kind != "image_output"
            if count > 0 and kind not in rates and not sound:  # without a price their cost is unknown, unlike text's
                return None
            usd = EXACT.fma(rates.get(kind, ZERO), max(count, 0), usd)
        return usd

    def fees(self, provider: str, model: str, at: datetime | None = None) -> Mapping[str, Decimal]:
        """Return USD per use, by kind, of everything billed by use (`Usage.fees`), as far as known.

        Free daily or monthly quotas are not considered.
        """
        entry = self._entry(provider, model)
        known = None if entry is None or isinstance(entry, tuple) else entry.fees(at or datetime.now(UTC))
        names = [model.lower(), *_undated(model.lower())]
        keys = [provider, *(f"{provider}/{name}" for name in reversed(names))]
        shipped = [_shipped(key)[1] for key in keys]
        own = [self._own[key][1] for key in keys if key in self._own]
        # The last one to name a price has it.
        return {kind: usd for source in (*shipped, known or {}, *own) for kind, usd in source.items()}

    def bill(self, provider: str, charge: Charge, at: datetime | None = None) -> Decimal | None:
        """Return USD of a charge: the provider's own figure if it is plausible, else the list price."""
        if charge.usd is not None and charge.usd.is_finite() and charge.usd >= 0:
            return charge.usd
        return self.price(provider, charge.model, charge.usage, at, charge.tier)

    def ceiling(self, provider: str, model: str, *, hour: bool = False) -> "Ceiling | None":
        """Return a bound that no call made today can exceed by list price, and the largest output that a sum affords;
        None if a price is unknown.

        It holds for any split over buckets, size band and time of day, and for any service tier that the provider
        picks, which under a budget is OpenAI's standard one; "fast" speed and Gemini's "priority" cost more, and no
        request under a budget names them. For OpenRouter, whose hosts differ, it is twice the list price. With `hour`,
        a request may use caches that are kept for an hour. A model that makes images has no bound if their price is
        unknown, and none that searches unasked.
        """
        from sagent.cost.tariff import Ceiling, scale

        hour = hour or self._billing(provider).hour
        key = (provider, model, hour)
        now = datetime.now(UTC)
        day, ceiling = self._ceilings.get(key, (None, None))
        if day != now.date():
            entry = self._entry(provider, model)
            tier = "" if provider in STANDARD else None
            tariffs = (entry,) if isinstance(entry, tuple) else entry.tariffs(now, tier) if entry else None
            margin = _MARGINS.get(provider, Decimal(1))
            scaled = [scale(tariff, margin) for tariff in tariffs or ()]
            drawn = self.fees(provider, model, now).get("image_output")  # under a budget no model speaks
            unknown = _SEARCHING if drawn is not None else ("image", *_SEARCHING)
            own = f"{provider}/{model}".lower() in self._own
            unsure = not own and any(kind in model.lower() for kind in unknown)
            beyond = EXACT.multiply(margin, drawn or ZERO)
            ceiling = Ceiling(scaled, hour=hour, beyond_text=beyond) if scaled and not unsure else None
            self._ceilings[key] = (now.date(), ceiling)
        return ceiling

    def known_models(self, provider: str) -> tuple[KnownModel, ...]:
        """Return the provider's priced text models that are not retired, by id."""
        from sagent.cost.tariff import chat_models, corrections

        prefix = f"{provider}/"
        corrected = (key for key, row in corrections().items() if "input" in row)
        mine = (key for key, (tariff, _) in self._own.items() if tariff)
        own = (key.removeprefix(prefix) for key in (*corrected, *mine) if key.startswith(prefix))
        ids = (*chat_models(self._billing(provider).prices), *own)
        rows = {model.lower(): row for model in ids if (row := self._row(provider, model))}
        return tuple(rows[key] for key in sorted(rows))

    def window(self, provider: str, model: str) -> int | None:
        """Return the size of a model's window in tokens; None if unknown."""
        from sagent.cost.tariff import corrections

        entry = self._entry(provider, model)
        key = f"{provider}/{model}".lower()
        window = self._windows.get(key) or corrections().get(key, {}).get("window")
        if not isinstance(window, int):
            window = None if entry is None or isinstance(entry, tuple) else entry.window
        return window

    def _row(self, provider: str, model: str) -> KnownModel | None:
        tariff = self._tariff(provider, model, datetime.now(UTC), "")
        if tariff is None:
            return None
        rates = (rate.scaleb(6, EXACT) for rate in (tariff[0].input, tariff[0].output))
        return KnownModel(model, self.window(provider, model), *rates)

    def _tariff(self, provider: str, model: str, at: datetime, tier: str) -> "Tariff | None":
        entry = self._entry(provider, model)
        if entry is None or isinstance(entry, tuple):
            return entry
        return entry.tariff(at if at.tzinfo else at.replace(tzinfo=UTC), tier)

    def _factor(self, provider: str, model: str, tier: str) -> Decimal:
        """Return the factor of a tier for a price; 1 if it is the tier's own price."""
        entry = self._entry(provider, model)
        known = entry is not None and not isinstance(entry, tuple) and entry.has_tier(tier)
        gemini = self._billing(provider).prices == "google" and model.lower().startswith("gemini")
        return _GEMINI_TIERS.get(tier, Decimal(1)) if gemini and not known else Decimal(1)

    def _entry(self, provider: str, model: str) -> "Tariff | Listing | None":
        model = model.lower()
        names = [model, *_undated(model)]
        for name in names:
            if own := self._own.get(f"{provider}/{name}", (None,))[0]:
                return own
        billing = self._billing(provider)
        if billing.free or (provider == "openrouter" and model.endswith(":free")):
            from sagent.cost.tariff import FREE

            return FREE
        from sagent.cost.tariff import find

        for name in names:
            entry = _shipped(f"{provider}/{name}")[0] or find(billing.prices, name)
            if entry:
                return entry
        return None

    def _billing(self, provider: str) -> Billing:
        known = self._billings.get(provider)
        if known is None:
            said = self._say(provider)
            name = said.prices or _THEIR_NAMES.get(provider, provider)
            known = self._billings[provider] = Billing(name, said.free or provider in LOCAL, said.hour)
        return known


@lru_cache(maxsize=256)
def _declared(provider: str) -> Billing:
    """Return the price data of a provider in our plugins; those of the core are known here."""
    from sagent.cost.tariff import is_listed

    if provider in LOCAL or is_listed(_THEIR_NAMES.get(provider, provider)):
        return Billing()
    row = next((row for _, row in of_ours(ProviderRow) if row.name == provider), None)
    data = row.read() if row else EMPTY
    return Billing(as_str(data.get("prices")), data.get("free") is True, data.get("hour") is True)


CACHES = "cache_control"
MAX_CALLS = "max_tool_calls"
"""The option that selects caches, and the member that requests them. Its price is known."""


def is_advisor(tool: object) -> bool:
    """Return True if a provider's own tool is its advisor, whose cost the caller knows."""
    return as_str(as_object(tool).get("type")).startswith("advisor_")


def keeps_an_hour(options: Mapping[str, object]) -> bool:
    """Return True if a request's options ask for caches of an hour."""
    return as_object(options.get(CACHES)).get("ttl") == "1h"


def _tier(name: str) -> tuple[str, Decimal]:
    """Return a tier without its region, "" for the standard one, and the region's factor."""
    tier, _, region = name.rpartition("+")
    if region not in _REGIONS:
        tier, region = name, ""
    return "" if tier in _STANDARD_TIERS else tier, _REGIONS.get(region, Decimal(1))


def _undated(model: str) -> list[str]:
    """Return other spellings of a dated model id: with dashes in the date, and without the date."""
    import re

    dated = re.search(r"[-@](20\d\d)-?([01]\d)-?([0-3]\d)$", model)
    return ["-".join((model[: dated.start()], *dated.groups())), model[: dated.start()]] if dated else []


def _read(key: str, row: Mapping[str, object]) -> "tuple[Tariff | None, Mapping[str, Decimal]]":
    """Read a row: the tariff of tokens, and the fees billed by the call."""
    from sagent.cost.tariff import read_fees, read_tariff

    return read_tariff(key, row), read_fees(key, row)


@lru_cache(maxsize=256)
def _shipped(key: str) -> "tuple[Tariff | None, Mapping[str, Decimal]]":
    from sagent.cost.tariff import corrections

    return _read(key, corrections().get(key, {}))
