"""Budgets of a tree or of an agent with an allowance; and the number of tokens in a call: bounds, estimates, and
plausible counts of providers."""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import field
from decimal import ROUND_CEILING, Decimal
from time import monotonic
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from sagent.errors import BudgetExceeded
from sagent.lib.dataclass import dataclass
from sagent.lib.money import EXACT, ZERO, show, total
from sagent.messages import Text, ToolResult
from sagent.model import Model, Reply, Request
from sagent.usage import BUCKETS, Charge, Usage

if TYPE_CHECKING:
    from sagent.cost.tariff import Ceiling

_CENT = Decimal("0.01")
T = TypeVar("T")
R = TypeVar("R")

MAX_TOKEN_CHARACTERS = 64
"""Most characters that a token represents on average. A count with fewer tokens was no count."""
MAX_TOKEN_BYTES = 1_024
"""Most bytes of a request that a token represents: there are images in it, and its framing is bounded generously."""

MAX_EXCESS = 8
"""Largest factor by which a provider's figures exceed what was sent and requested: hidden text is billed."""
MAX_HIDDEN_TOKENS, MAX_TOOL_TOKENS = 1_000_000, 10_000_000
"""Tokens beyond that: added by a provider, and by rounds with tools that it runs inside a call."""
MAX_FEES = 1_000  # most units of one kind of fee in a call
MAX_HIDDEN_USD, MAX_CALL_USD = Decimal(10), Decimal(1_000)  # hidden in a stated price; of a call without a known price

Source: TypeAlias = Literal["provider", "bytes"]


@dataclass(frozen=True, slots=True)
class InputBound:
    """The most tokens of a request's input, and the source: the provider counted the request, or its beginning while
    the rest is bounded by bytes; or all of it is."""

    tokens: int
    source: Source = "bytes"


def is_number(usage: Usage) -> bool:
    """Return True if every bucket is a whole number of tokens of at least 0: a model's code may give anything."""
    counts: list[object] = [getattr(usage, bucket) for bucket in BUCKETS]
    return all(isinstance(count, int) and count >= 0 for count in counts)


def is_count(usage: Usage, received: int, max_input: int = 0) -> bool:
    """Return True if a usage is a plausible count for a call: a request of at most `max_input` tokens, and a reply of
    which `received` characters came. Zero is no count, and neither is a number too low for any tokenizer."""
    return usage.total_input > max_input // MAX_TOKEN_BYTES and usage.output * MAX_TOKEN_CHARACTERS >= received


MAX_DROP = 16
"""Largest factor by which an input's count is below the estimate from earlier counts, because providers leave old
thoughts out. Less is a part of the count, such as the uncached tokens."""


MAX_DISCOUNT = 256
"""Times that a price is smaller at most than the list price of the input: cached, in a batch, of the lowest tier."""


def is_stated(charges: Iterable[Charge], received: int, ask: "Ask", request: Request | None = None) -> bool:
    """Return True if a provider has stated the price of a reply, or counted its tokens itself, with plausible figures.
    The `request` is the one that was sent."""
    told = tuple(charges)
    if not all(map(ask.can_be, told)):
        return False
    own = sum((charge.usage for charge in told if not charge.role), Usage())
    prices = [charge.usd for charge in told if not charge.role and charge.usd is not None]
    if prices:
        least = ZERO if ask.ceiling is None else ask.ceiling.cost(ask.likely, 0)
        return EXACT.multiply(total(prices), MAX_DISCOUNT) >= least
    return is_count(own, received, ask.input_bound.tokens) and own.total_input >= _least_input(ask, request)


def _least_input(ask: "Ask", request: Request | None) -> int:
    """Return the fewest tokens that the input can have, by earlier counts or by its text."""
    if ask.input_bound.source == "provider":
        return ask.likely // MAX_DROP
    return 0 if request is None else _text_size(request) // MAX_TOKEN_CHARACTERS


def _text_size(request: Request) -> int:
    """Return how many characters of text a request has, without what its images and documents hold."""
    parts = (part for message in request.messages for part in message.parts)
    results = (part.content if isinstance(part, ToolResult) else (part,) for part in parts)
    texts = (each for content in results for each in content)
    return len(request.system) + sum(len(text.text) for text in texts if isinstance(text, Text))


def counted_input(reply: Reply, ask: "Ask", request: Request) -> int:
    """Return the input tokens that the provider counted for a reply; 0 if any were estimated, or if a stated price
    comes with implausible counts."""
    tokens = reply.usage.total_input
    named = any(charge.usd is not None for charge in reply.charges)
    false = named and not (is_count(reply.usage, 0, ask.input_bound.tokens) and tokens >= _least_input(ask, request))
    return 0 if false or any(charge.estimated for charge in reply.charges) else tokens


@dataclass(slots=True, eq=False)
class Budget(Generic[T, R]):
    """Money for the agents from `path` down, "" for all. `cap` None is no limit.

    `counted` is spent money, with the worst case of calls without a certain bill; `held` is for calls in flight,
    `held_below` for those within allowances further down; `allotted` is set aside for these. Calls without money wait
    in `queue`. If the outer budget has a cap, this one's cap is set aside there: nobody else can spend it, and it can
    be spent completely.
    """

    path: str
    cap: Decimal | None
    outer: "Budget[T, R] | None" = None
    counted: Decimal = ZERO
    held: Decimal = ZERO
    held_below: Decimal = ZERO
    allotted: Decimal = ZERO
    claim: Decimal = ZERO
    queue: deque[tuple[T, asyncio.Future[R]]] = field(default_factory=deque[tuple[T, asyncio.Future[R]]])
    heir: "Budget[T, R] | None" = None  # received its money when it was closed

    def __post_init__(self) -> None:
        self._stake()

    @property
    def room(self) -> Decimal:
        """USD that a new call may reserve; only with a cap."""
        assert self.cap is not None
        return EXACT.subtract(self.free, self.held)

    @property
    def free(self) -> Decimal:
        """USD that a new call could reserve if all calls in flight cost nothing. Allowances stay reserved."""
        assert self.cap is not None
        return EXACT.subtract(self.cap, EXACT.add(self.counted, self.allotted))

    def reserve(self, usd: Decimal) -> None:
        """Add the worst case of a starting call; subtract it when it has ended."""
        self.held = EXACT.add(self.held, usd)
        self._stake()
        self._add_held_above(usd)

    def count(self, usd: Decimal) -> None:
        """Add to the spent money."""
        self.counted = EXACT.add(self.counted, usd)
        self._stake()

    def allot(self, usd: Decimal) -> None:
        """Add an allowance further down, or an increase of it; subtract returned money."""
        self.allotted = EXACT.add(self.allotted, usd)
        self._stake()

    def close(self) -> None:
        """Return the rest to the outer budget, together with the calls in flight."""
        outer = self.outer
        assert outer is not None
        self._add_held_above(self.held.copy_negate())
        outer.allot(self.claim.copy_negate())
        outer.count(self.counted)
        outer.reserve(self.held)
        outer.allot(self.allotted)
        outer.queue.extend(self.queue)
        self.queue.clear()
        self.heir = outer

    def living(self) -> "Budget[T, R]":
        """Return the current budget: this one, or the one that took over."""
        budget = self
        while budget.heir is not None:
            budget = budget.heir
        return budget

    def _add_held_above(self, usd: Decimal) -> None:
        """Report to the budgets above that more is held here."""
        above = self.outer
        while above is not None:
            above = above.living()
            above.held_below = EXACT.add(above.held_below, usd)
            above = above.outer

    def _stake(self) -> None:
        """Update the amount set aside in the outer budget: the cap, or more if a provider billed more."""
        if self.outer is None or self.heir is not None:
            return
        self.outer = self.outer.living()
        used = EXACT.add(EXACT.add(self.counted, self.held), self.allotted)
        claim = max(self.cap or ZERO, used)
        if claim != self.claim:
            more = EXACT.subtract(claim, self.claim)
            self.claim = claim
            self.outer.allot(more)


@dataclass(slots=True, eq=False)
class Ask:
    """A call that needs money: with at most `input_bound` tokens of input, and with `requested_output` tokens of
    output, but no less than `min_output`. `likely` is our own estimate of the input: it decides whether a call is
    worthwhile, and bounds nothing. `extra_usd` is for models and tools that the provider runs by itself."""

    agent: str
    role: str
    provider: str
    model: str
    input_bound: InputBound
    requested_output: int
    min_output: int
    extra_usd: Decimal
    likely: int = 0
    at: float = field(default_factory=monotonic)
    counted: bool = False  # the input was counted by the provider
    ceiling: "Ceiling | None" = None
    cached_an_hour: bool = False
    max_usage: int = 0  # tokens of either kind that a provider can mean

    def can_be(self, charge: Charge) -> bool:
        """Return True if a charge is plausible for such a call; the provider erred if it is far beyond the request."""
        usage, usd, most = charge.usage, charge.usd, self.max_usage
        if not is_number(usage) or max(usage.total_input, usage.output) > most:
            return False
        fees: list[tuple[str, object]] = [*usage.fees.items()]
        for kind, count in fees:
            highest = most if kind.endswith(("_input", "_output")) else MAX_FEES
            if not (isinstance(count, int) and 0 <= count <= highest):
                return False
        if usd is None:
            return True
        most_usd = MAX_CALL_USD
        if self.ceiling is not None:
            worst = EXACT.add(self.ceiling.cost(self.input_bound.tokens, self.requested_output), self.extra_usd)
            most_usd = EXACT.fma(worst, MAX_EXCESS, MAX_HIDDEN_USD)
        return usd.is_finite() and 0 <= usd <= most_usd


def refusal_of(ask: Ask, budget: Budget[T, R]) -> BudgetExceeded | None:
    """Return the error to raise if a call could not be paid even if all calls in flight turned out to be free."""
    name, cap = f"{ask.provider}/{ask.model}", budget.cap or ZERO
    whose = f"the allowance of {budget.path}" if budget.path else "the budget"
    if ask.ceiling is None:
        return BudgetExceeded(
            f"{name} has no known price, so {whose} of {show(cap)} cannot be kept: "
            f"give its price in the settings (prices, {name!r}: input and output, in USD per million tokens) "
            "or, in a program, in the ledger (Ledger(budget, PriceBook({...}))), or run without a budget"
        )
    bound, output = ask.input_bound, ask.min_output
    if ask.ceiling.affordable(bound.tokens, EXACT.subtract(budget.free, ask.extra_usd), output) >= output:
        return None
    worst = EXACT.add(ask.ceiling.cost(bound.tokens, output), ask.extra_usd)
    left = max(EXACT.subtract(budget.free, budget.held), ZERO)
    whom = "for models and tools that the provider runs by itself"
    extra = f" ({show(ask.extra_usd)} of it {whom})" if ask.extra_usd else ""
    parts = [f"{show(budget.counted)} counts as spent"]
    parts += [f"{show(budget.allotted)} is set aside for other agents"] if budget.allotted else []
    parts += [f"{show(budget.held)} is reserved by calls in flight"] if budget.held else []
    fits = _largest_input(ask, ask.ceiling, EXACT.subtract(left, ask.extra_usd))
    share = int(EXACT.divide_int(left.scaleb(2, EXACT), worst))
    gone = EXACT.add(EXACT.add(budget.counted, budget.allotted), budget.held)
    # Rounded up, with a tenth for the next prompt, so that a person who raises it to this is not refused again.
    more = show(EXACT.add(gone, EXACT.multiply(worst, Decimal("1.1"))).quantize(_CENT, ROUND_CEILING, EXACT))
    how = "" if budget.path else " (max_budget_usd)"
    ways = [
        f"raise it to {more}{how}",
        *([f"shorten the input to {fits} tokens (sagent sessions compact)"] if fits else []),
    ]
    who = "as the provider counts" if bound.source == "provider" else "by its bytes"
    cheaper = f"use a model at {share} % of the price" if share else "use a cheaper model"
    return BudgetExceeded(
        f"a call to {name} was not made, as {ask.role} of {ask.agent}: with up to {bound.tokens} tokens of input "
        f"({who}) and {output} of output it could cost {show(worst)}{extra}; {whose} is {show(cap)}, and "
        f"{show(left)} of it is left ({', '.join(parts)}). To continue, {', '.join(ways)} or {cheaper}"
    )


def _largest_input(ask: Ask, ceiling: "Ceiling", usd: Decimal) -> int:
    """Return the most tokens of input that a call with the least output can have."""
    from bisect import bisect_right

    sizes = range(1, ask.input_bound.tokens + 1)
    return bisect_right(sizes, usd, key=lambda tokens: ceiling.cost(tokens, ask.min_output))


@runtime_checkable
class Adapting(Protocol):
    """A Model whose protocol changes while it is used."""

    def protocol_of(self, request: Request) -> str:
        """Return the name of the protocol used for a request."""
        ...


@dataclass(slots=True)
class Meter:
    """The size of a conversation in tokens: the provider's last count, and the bytes of what came since.

    `max_input` is what `Model.max_input_tokens` returns for a request. Money is reserved by `bound`, never by
    `estimate`.
    """

    max_input: int = 0  # of the last request that was counted
    counted: int = 0  # the provider's last count
    window: int | None = None  # as an overflow error stated it
    max_output: int | None = None  # largest output limit, as a refusal stated it
    parts: tuple[object, ...] = ()  # of the counted request; none if the conversation was made smaller

    def bound(self, request: Request, max_input: int, model: Model | None = None) -> InputBound:
        """Return the most input tokens of a request: by the count, if it begins with the counted part, else by its
        bytes. After a change of protocol the model reads a different text."""
        begins = bool(self.parts) and _parts(request, model)[: len(self.parts)] == self.parts
        if not begins or max_input < self.max_input:
            return InputBound(max_input)
        return InputBound(min(max_input, self.counted + max_input - self.max_input), "provider")

    def estimate(self, max_input: int) -> int:
        """Return how many tokens it likely has; text has three to four bytes to a token."""
        if not self.counted:
            return max_input // 3
        if not self.parts or max_input < self.max_input:
            return self.counted * max_input // self.max_input
        return self.counted + (max_input - self.max_input) // 3

    def learn(self, request: Request, max_input: int, counted: int, model: Model | None = None) -> None:
        """Record the provider's count; 0 if it made none."""
        if counted > 0:
            self.max_input, self.counted, self.parts = max_input, counted, _parts(request, model)


def _parts(request: Request, model: Model | None) -> tuple[object, ...]:
    spoken = model.protocol_of(request) if isinstance(model, Adapting) else ""
    return spoken, request.system, request.tools, request.output_schema, *request.messages
