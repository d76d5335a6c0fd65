"""Prices of models: the user's own, then the corrections shipped here, then the data of genai-prices."""

from collections.abc import Container, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from sagent.lib.money import EXACT, ZERO
from sagent.usage import Charge, Usage

if TYPE_CHECKING:
    from sagent.cost.genai import Listing
    from sagent.cost.genai.types import Provider
    from sagent.cost.tariff import Ceiling, Tariff

LOCAL = frozenset({"ollama", "lmstudio", "llamacpp", "vllm", "selfhosted"})
"""Providers that run on the user's own machines: their calls cost nothing. Rows say so with `free`."""

# Our names where genai-prices has another. An unknown name stays unknown: that a server speaks OpenAI's protocol
# ("openai-compatible") says nothing about what it charges.
_THEIR_NAMES = {
    "moonshot": "moonshotai",
    "xai": "x-ai",
    "gemini": "google",
    "z.ai": "zai",
    "bedrock": "aws",
    "foundry": "azure",
    "vertex": "google",
    "vertex-anthropic": "google",
    "anthropic-cli": "anthropic",
    "openai-subscription": "openai",
}
# OpenRouter lists one host's price and may route a call to a dearer one: recorded bills for open models reached 1.6
# times the list. The bill is what counts; this only makes what is held for a call large enough to cover it.
# Anthropic bills the regions of _REGIONS dearer, and a workspace's settings may choose one without the request.
_MARGINS = {"openrouter": Decimal(2), "anthropic": Decimal("1.1")}
# By which every token's price is multiplied where inference is kept in a region; a charge's tier then ends in its name
# (platform.claude.com, data residency: 1.1 for "us", Opus 4.6 and later).
_REGIONS = {"us": Decimal("1.1")}
# By which a service tier multiplies the price of tokens where the data know nothing of it (ai.google.dev, optimization:
# half, and "75% to 100% more", of which the dearer stands).
_GEMINI_TIERS = {"flex": Decimal("0.5"), "priority": Decimal(2)}
_STANDARD_TIERS = frozenset({"", "standard", "default", "auto", "on_demand"})


class KnownModel(NamedTuple):
    """A row of the catalogue. `window` is in tokens; prices are USD per million tokens, for the smallest input."""

    id: str
    window: int | None
    input: Decimal
    output: Decimal


class PriceBook:
    """What calls cost. Loads its data (about 12 ms) when first asked; safe to warm from another thread."""

    def __init__(
        self, overrides: Mapping[str, Mapping[str, object]] | None = None, *, free: Container[str] = LOCAL
    ) -> None:
        """`overrides`: "provider/model" -> USD per million tokens, as in prices.toml. Raises ConfigError.

        `free` names the providers whose calls cost nothing.
        """
        self._own = _read_rows(overrides) if overrides else {}
        self._own_fees = _read_fees(overrides) if overrides else {}
        self._free = free
        self._shipped: Mapping[str, Tariff] = {}
        self._shipped_fees: Mapping[str, Mapping[str, Decimal]] = {}
        self._windows: Mapping[str, int] = {}
        self._providers: Mapping[str, Provider] = {}
        self._found: dict[tuple[str, str], Tariff | Listing | None] = {}
        self._ceilings: dict[tuple[str, str, str | None], tuple[object, Ceiling | None]] = {}
        self._warm = False
        self._lock = Lock()

    @property
    def is_warm(self) -> bool:
        """Whether a price can be told without loading the data first."""
        return self._warm

    def warm(self) -> None:
        """Load the data now, so that the first price need not wait for it; from any thread, as often as you like."""
        with self._lock:
            if not self._warm:
                from sagent.cost.genai import load

                self._shipped, self._windows, self._shipped_fees = _read_shipped()
                self._providers = load()
                self._warm = True

    def price(
        self, provider: str, model: str, usage: Usage, at: datetime | None = None, tier: str = ""
    ) -> Decimal | None:
        """USD of one call made at a time (now) on a service tier, by list price; None where the price is unknown.

        That is so too where the usage has a fee of unknown price. A tier may end in a region: "priority+us", "us".
        """
        from sagent.cost.tariff import cost

        tier, region = _tier(tier)
        tariff = self._tariff(provider, model, at or datetime.now(UTC), tier)
        if tariff is None:
            return None
        usd = EXACT.multiply(EXACT.multiply(cost(tariff, usage), region), self._factor(provider, model, tier))
        rates: Mapping[str, Decimal] = self.fees(provider, model, at) if usage.fees else {}
        for kind, count in usage.fees.items():
            if count > 0 and kind not in rates:
                return None
            usd = EXACT.fma(rates.get(kind, ZERO), max(count, 0), usd)
        return usd

    def fees(self, provider: str, model: str, at: datetime | None = None) -> Mapping[str, Decimal]:
        """USD per call, by kind, of what is billed by the call (`Usage.fees`), as far as known.

        The prices are those beyond what a provider gives away each day or month.
        """
        self.warm()
        entry = self._entry(provider, model)
        known = None if entry is None or isinstance(entry, tuple) else entry.fees(at or datetime.now(UTC))
        names = [model.lower(), *_undated(model.lower())]
        keys = [provider, *(f"{provider}/{name}" for name in reversed(names))]
        shipped = [self._shipped_fees[key] for key in keys if key in self._shipped_fees]
        own = [self._own_fees[key] for key in keys if key in self._own_fees]
        rates: dict[str, Decimal] = {}
        for source in (*shipped, *([known] if known else ()), *own):  # the last one to name a price has it
            rates |= source
        return rates

    def bill(self, provider: str, charge: Charge, at: datetime | None = None) -> Decimal | None:
        """USD of a charge: the provider's own figure where it gave a sensible one, else the list price."""
        if charge.usd is not None and charge.usd.is_finite() and charge.usd >= 0:
            return charge.usd
        return self.price(provider, charge.model, charge.usage, at, charge.tier)

    def worst(
        self, provider: str, model: str, input_tokens: int, output_tokens: int, *, tier: str | None = None
    ) -> Decimal | None:
        """USD that no call with at most so many tokens can pass by list price, made today; None where unknown.

        Whatever the split over buckets, size band and time of day; twice the list for OpenRouter, whose hosts differ.
        `tier` None: whichever service tier the provider picks by itself; "fast" speed and Gemini's "priority" cost more
        and count only when named.
        """
        ceiling = self.ceiling(provider, model, tier=tier)
        return None if ceiling is None else ceiling.cost(input_tokens, output_tokens)

    def ceiling(self, provider: str, model: str, *, tier: str | None = None) -> "Ceiling | None":
        """The bound behind `worst`, which also tells the largest output that a sum of money affords."""
        from sagent.cost.tariff import Ceiling, scale

        key = (provider, model, tier if tier is None else _tier(tier)[0])
        now = datetime.now(UTC)
        day, ceiling = self._ceilings.get(key, (None, None))
        if day != now.date():
            entry = self._entry(provider, model)
            tariffs = (entry,) if isinstance(entry, tuple) else entry.tariffs(now, key[2]) if entry else None
            margin = EXACT.multiply(_MARGINS.get(provider, Decimal(1)), self._factor(provider, model, key[2] or ""))
            ceiling = Ceiling([scale(tariff, margin) for tariff in tariffs]) if tariffs else None
            self._ceilings[key] = (now.date(), ceiling)
        return ceiling

    def known_models(self, provider: str) -> tuple[KnownModel, ...]:
        """The provider's priced text models that are not retired, by id."""
        from sagent.cost.genai import chat_models

        self.warm()
        ids = [model for model, _ in chat_models(self._providers, _THEIR_NAMES.get(provider, provider))]
        prefix = f"{provider}/"
        ids += [key.removeprefix(prefix) for key in (*self._shipped, *self._own) if key.startswith(prefix)]
        rows = {model.lower(): row for model in ids if (row := self._row(provider, model))}
        return tuple(rows[key] for key in sorted(rows))

    def _row(self, provider: str, model: str) -> KnownModel | None:
        tariff = self._tariff(provider, model, datetime.now(UTC), "")
        if tariff is None:
            return None
        entry = self._entry(provider, model)
        listed = None if entry is None or isinstance(entry, tuple) else entry.window
        window = self._windows.get(f"{provider}/{model}".lower(), listed)
        return KnownModel(model, window, tariff[0].input.scaleb(6, EXACT), tariff[0].output.scaleb(6, EXACT))

    def _tariff(self, provider: str, model: str, at: datetime, tier: str) -> "Tariff | None":
        entry = self._entry(provider, model)
        if entry is None or isinstance(entry, tuple):
            return entry
        return entry.tariff(at if at.tzinfo else at.replace(tzinfo=UTC), tier)

    def _factor(self, provider: str, model: str, tier: str) -> Decimal:
        """By which the price found is multiplied for a tier, which is in it where the data tell the tier's own."""
        entry = self._entry(provider, model)
        known = entry is not None and not isinstance(entry, tuple) and entry.has_tier(tier)
        gemini = _THEIR_NAMES.get(provider, provider) == "google" and model.lower().startswith("gemini")
        return _GEMINI_TIERS.get(tier, Decimal(1)) if gemini and not known else Decimal(1)

    def _entry(self, provider: str, model: str) -> "Tariff | Listing | None":
        key = (provider, model)
        if key not in self._found:
            self._found[key] = self._look_up(provider, model.lower())
        return self._found[key]

    def _look_up(self, provider: str, model: str) -> "Tariff | Listing | None":
        from sagent.cost.genai import find
        from sagent.cost.tariff import FREE

        names = [model, *_undated(model)]
        for name in names:
            if own := self._own.get(f"{provider}/{name}"):
                return own
        if provider in self._free or (provider == "openrouter" and model.endswith(":free")):
            return FREE
        self.warm()
        for name in names:
            if shipped := self._shipped.get(f"{provider}/{name}"):
                return shipped
            if listing := find(self._providers, _THEIR_NAMES.get(provider, provider), name):
                return listing
        return None


def _tier(name: str) -> tuple[str, Decimal]:
    """A tier without its region, "" for the standard one, and what the region multiplies prices by."""
    tier, _, region = name.rpartition("+")
    if region not in _REGIONS:
        tier, region = name, ""
    return "" if tier in _STANDARD_TIERS else tier, _REGIONS.get(region, Decimal(1))


def _undated(model: str) -> list[str]:
    """Other spellings of a dated model id: with dashes in the date, and without the date."""
    import re

    dated = re.search(r"[-@](20\d\d)-?([01]\d)-?([0-3]\d)$", model)
    return ["-".join((model[: dated.start()], *dated.groups())), model[: dated.start()]] if dated else []


def _read_rows(rows: Mapping[str, Mapping[str, object]]) -> dict[str, "Tariff"]:
    from sagent.cost.tariff import read_tariff

    tariffs = {key.lower(): read_tariff(key, row) for key, row in rows.items()}
    return {key: tariff for key, tariff in tariffs.items() if tariff}


def _read_fees(rows: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, Decimal]]:
    from sagent.cost.tariff import read_fees

    return {key.lower(): fees for key, row in rows.items() if (fees := read_fees(key, row))}


def _read_shipped() -> tuple[dict[str, "Tariff"], dict[str, int], dict[str, Mapping[str, Decimal]]]:
    import tomllib
    from pathlib import Path

    text = Path(__file__).with_name("prices.toml").read_text(encoding="utf-8")
    rows: dict[str, dict[str, object]] = tomllib.loads(text, parse_float=Decimal)
    windows = {key: row["window"] for key, row in rows.items() if isinstance(row.get("window"), int)}
    sizes = {key: window for key, window in windows.items() if isinstance(window, int)}
    return _read_rows(rows), sizes, _read_fees(rows)
