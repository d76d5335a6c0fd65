"""Tokens by billed bucket, and other billed items, as counted by a provider."""

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal

from sagent.lib.dataclass import dataclass
from sagent.lib.money import EXACT, ZERO

BUCKETS = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. The four input buckets are disjoint; `output` includes `reasoning`.

    `input` are tokens neither read from nor written to a cache, as Anthropic reports them; adapters of providers whose
    input count includes cached tokens subtract them. `fees` counts additional billed items by kind: calls
    ("web_search", "file_search", ...) and tokens of sound ("audio_input", ...), under the keys of prices.toml.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0  # to the five-minute cache, or to a cache of unknown lifetime
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    fees: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    @property
    def total_input(self) -> int:
        """Every token the model read."""
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cache_write_1h + other.cache_write_1h,
            self.output + other.output,
            self.reasoning + other.reasoning,
            {kind: self.fees.get(kind, 0) + other.fees.get(kind, 0) for kind in (*self.fees, *other.fees)},
        )


@dataclass(frozen=True, slots=True)
class Charge:
    """One model's share of a call, and its price. A call has one charge, or several if the provider ran further models
    in it. A provider's adapter leaves `agent` and `provider` empty; the ledger fills them in.

    `usd` is the provider's own figure or, once the ledger has settled the call, its price; None if it is not known.
    `tier` is the provider's service tier ("" = standard).
    """

    model: str
    usage: Usage
    tier: str = ""
    usd: Decimal | None = None
    estimated: bool = False  # by us, from bytes: the provider reported nothing, or only a part (a cut call)
    role: str = ""  # "executor", "advisor:NAME", "compactor", ...; "advisor" of a model that a provider ran by itself
    provider: str = ""
    agent: str = ""
    at_most: Decimal | None = None  # USD that count towards a budget if the bill is unknown


@dataclass(frozen=True, slots=True)
class Cost:
    """USD spent by a tree of agents, in which roles are "executor", "advisor:NAME" and "compactor".

    `unpriced` names models without a known price: the sums are then a minimum. `unbilled` counts towards a budget in
    addition to the total: the possible cost of lost, cut or interrupted calls.
    """

    total: Decimal = ZERO
    executor: Decimal = ZERO
    advisor: Decimal = ZERO
    other: Decimal = ZERO
    by_model: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    by_agent: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    unpriced: tuple[str, ...] = ()
    by_role: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    unbilled: Decimal = ZERO

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            EXACT.add(self.total, other.total),
            EXACT.add(self.executor, other.executor),
            EXACT.add(self.advisor, other.advisor),
            EXACT.add(self.other, other.other),
            _merge(self.by_model, other.by_model),
            _merge(self.by_agent, other.by_agent),
            tuple(sorted({*self.unpriced, *other.unpriced})),
            _merge(self.by_role, other.by_role),
            EXACT.add(self.unbilled, other.unbilled),
        )


def _merge(first: Mapping[str, Decimal], second: Mapping[str, Decimal]) -> Mapping[str, Decimal]:
    return {name: EXACT.add(first.get(name, ZERO), second.get(name, ZERO)) for name in (*first, *second)}


@dataclass(slots=True)
class Sum:
    """Several charges: their number, tokens and price. `usd` is a minimum if `unpriced` of them have no known price.
    `unbilled` counts towards a budget in addition."""

    charges: int = 0
    usage: Usage = field(default_factory=Usage)
    usd: Decimal = ZERO
    unpriced: int = 0
    unbilled: Decimal = ZERO

    def add(self, charge: Charge) -> None:
        """Add a charge."""
        self.charges += 1
        self.usage += charge.usage
        if charge.usd is None:
            self.unpriced += 1
        else:
            self.usd = EXACT.add(self.usd, charge.usd)
        if charge.at_most is not None:
            self.unbilled = EXACT.add(self.unbilled, EXACT.subtract(charge.at_most, charge.usd or ZERO))

    @property
    def price(self) -> Decimal | None:
        """USD, or None if the price of any charge is unknown."""
        return None if self.unpriced else self.usd


@dataclass(slots=True)
class Totals:
    """Charges in all, and by role, by model ("provider/model") and by agent (its path)."""

    whole: Sum = field(default_factory=Sum)
    by_role: dict[str, Sum] = field(default_factory=dict[str, Sum])
    by_model: dict[str, Sum] = field(default_factory=dict[str, Sum])
    by_agent: dict[str, Sum] = field(default_factory=dict[str, Sum])

    def add(self, charge: Charge) -> None:
        """Add a charge."""
        self.whole.add(charge)
        for sums, key in (
            (self.by_role, charge.role),
            (self.by_model, f"{charge.provider}/{charge.model}"),
            (self.by_agent, charge.agent),
        ):
            if key not in sums:
                sums[key] = Sum()
            sums[key].add(charge)

    def cost(self) -> Cost:
        """Return the prices alone, as they are now."""
        kinds = {"executor": ZERO, "advisor": ZERO, "other": ZERO}
        for role, each in self.by_role.items():
            kind = role.partition(":")[0]
            kind = kind if kind in kinds else "other"
            kinds[kind] = EXACT.add(kinds[kind], each.usd)
        return Cost(
            total=self.whole.usd,
            **kinds,
            by_model={model: each.usd for model, each in self.by_model.items()},
            by_agent={agent: each.usd for agent, each in self.by_agent.items()},
            unpriced=tuple(sorted(model for model, each in self.by_model.items() if each.unpriced)),
            by_role={role: each.usd for role, each in self.by_role.items()},
            unbilled=self.whole.unbilled,
        )


@dataclass(frozen=True, slots=True)
class Saving:
    """Savings of `compactions` in a session: the input tokens and USD without them, minus the actual ones including
    summaries. USD is None if a price is unknown."""

    compactions: int = 0
    tokens: int = 0
    usd: Decimal | None = ZERO

    def __add__(self, other: "Saving") -> "Saving":
        usd = None if self.usd is None or other.usd is None else EXACT.add(self.usd, other.usd)
        return Saving(self.compactions + other.compactions, self.tokens + other.tokens, usd)
