"""Tokens by billed bucket and what else is billed, as counted by a provider."""

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal

from sagent.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. The four input buckets are disjoint; `output` includes `reasoning`.

    `input` is what was neither read from nor written to a cache, as Anthropic reports it; adapters of providers whose
    input count includes cached tokens subtract them. `fees` counts what is billed by the call and not by the token, by
    kind: "web_search", "file_search", "code_container", ... (the keys of prices.toml).
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0  # to the five-minute cache, or to a cache whose life the provider does not name
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
    """What one model did inside one call. A call has one charge, or several where a provider ran further models in it.

    `usd` is the provider's own figure where it reports one; `tier` its service tier ("" = standard).
    """

    model: str
    usage: Usage
    tier: str = ""
    usd: Decimal | None = None
    estimated: bool = False  # the provider reported nothing (a cut or cancelled call): counted from bytes
    role: str = ""  # of a model that a provider ran by itself: "advisor"


@dataclass(frozen=True, slots=True)
class Cost:
    """USD spent by a tree of agents, in which roles are "executor", "advisor:NAME" and "compactor".

    `unpriced` names models without a known price: the sums are then a minimum.
    """

    total: Decimal = Decimal(0)
    executor: Decimal = Decimal(0)
    advisor: Decimal = Decimal(0)
    other: Decimal = Decimal(0)
    by_model: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    by_agent: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    unpriced: tuple[str, ...] = ()
    by_role: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])


@dataclass(frozen=True, slots=True)
class Saving:
    """What compactions have saved in a session: tokens that were not sent, and USD at the price of cache reads, less
    what the summaries cost; None where a price is not known. `compactions` counts them."""

    compactions: int = 0
    tokens: int = 0
    usd: Decimal | None = Decimal(0)
