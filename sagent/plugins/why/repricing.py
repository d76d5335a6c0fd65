"""The same requests priced again, without a part of what they carried, or with that part in the cache."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from sagent.lib.money import EXACT, ZERO
from sagent.plugins.why.context import as_read
from sagent.plugins.why.course import BilledRequest, Course, Piece
from sagent.plugins.why.rates import RateBook
from sagent.usage import Usage


class Cut(NamedTuple):
    """The end of a piece that is left out, in tokens."""

    piece: Piece
    tokens: float


class Repriced(NamedTuple):
    """A request priced again: the tokens that it does not send, and USD that it would cost less; None if its price is
    unknown."""

    request: BilledRequest
    tokens: int
    usd: Decimal | None


def without(course: Course, cuts: Sequence[Cut], rates: RateBook) -> Iterator[Repriced]:
    """Yield the requests that carried what is cut."""
    begins: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    ends: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for piece, tokens in cuts:
        for span in piece.spans:
            if span.stop > span.first and tokens > 0:
                row = span.start + piece.tokens - tokens, tokens
                begins[span.first].append(row)
                ends[span.stop].append(row)
    active: list[tuple[float, float]] = []
    removed = _Removed()
    for request in course.requests:
        for row in ends.get(request.number, ()):
            active.remove(row)
        if request.number in ends:
            removed = _Removed(active)
        for row in begins.get(request.number, ()):
            is_last = not active or row >= active[-1]
            insort(active, row)
            removed = removed.add(row) if is_last else _Removed(active)
        if active and not request.is_copy and (usage := removed.of(request.charge.usage)) != request.charge.usage:
            tokens = request.charge.usage.total_input - usage.total_input
            yield Repriced(request, tokens, saved(request, usage, rates))


def from_cache(course: Course, rates: RateBook, causes: Iterable[str]) -> Iterator[Repriced]:
    """Yield the requests that missed the cache for one of some causes, as if they had read from it."""
    among = frozenset(causes)
    for request in course.requests:
        if request.missed and request.cause in among and not request.is_copy:
            usage = as_read(request.charge.usage, request.missed)
            yield Repriced(request, request.missed, saved(request, usage, rates))


def kept_an_hour(course: Course, rates: RateBook, life: float) -> Iterator[Repriced]:
    """Yield every request as if what it wrote to the cache were kept for an hour. Those after a pause of at most `life`
    seconds read from it; the others cost more."""
    for request in course.requests:
        usage = request.charge.usage
        if request.is_copy:
            continue
        missed = request.missed if request.cause == "pause" and request.since <= life else 0
        read = as_read(usage, missed)
        kept = replace(read, cache_write=0, cache_write_1h=read.cache_write_1h + read.cache_write)
        if kept != usage:
            yield Repriced(request, missed, saved(request, kept, rates))


def by_another(course: Course, rates: RateBook, provider: str, model: str) -> Iterator[Repriced]:
    """Yield every request at the list price of another model, for as many tokens. `usd` is below zero where it costs
    more."""
    for request in course.requests:
        charge = request.charge
        if request.is_copy or charge.usd is None:
            continue
        known = rates.rates(provider, (model,), charge.usage.total_input, request.at, "")
        usd = None if known is None else EXACT.subtract(charge.usd, known.of(charge.usage))
        yield Repriced(request, 0, usd)


def saved(request: BilledRequest, usage: Usage, rates: RateBook) -> Decimal | None:
    """Return USD that a request would have cost less with another usage: by list price, or by the same share of what
    was billed if that was less. None if a price is unknown."""
    charge = request.charge
    asked = request.sent.model if request.sent else charge.model
    names = tuple(dict.fromkeys((charge.model, asked)))
    if charge.usd is None:
        return None
    before = rates.rates(charge.provider, names, charge.usage.total_input, request.at, charge.tier)
    after = rates.rates(charge.provider, names, usage.total_input, request.at, charge.tier)
    if before is None or after is None:
        return None
    listed = before.of(charge.usage)
    usd = EXACT.subtract(listed, after.of(usage))
    if listed > charge.usd:
        usd = EXACT.divide(EXACT.multiply(usd, charge.usd), listed) if listed else ZERO
    return usd


class _Removed:
    """Stretches of a prompt that are left out, by their places in tokens."""

    def __init__(self, stretches: Sequence[tuple[float, float]] = ()) -> None:
        self._starts: list[float] = []
        self._tokens: list[float] = []
        self._sums = [0.0]
        for stretch in stretches:
            self.add(stretch)

    def add(self, stretch: tuple[float, float]) -> "_Removed":
        """Add a stretch after all others."""
        start, tokens = stretch
        self._starts.append(start)
        self._tokens.append(tokens)
        self._sums.append(self._sums[-1] + tokens)
        return self

    def _before(self, place: float) -> float:
        """Return the removed tokens before a place."""
        number = bisect_left(self._starts, place)
        if not number:
            return 0.0
        last = min(self._tokens[number - 1], place - self._starts[number - 1])
        return self._sums[number - 1] + last

    def of(self, usage: Usage) -> Usage:
        """Return a usage without them: the cache has the beginning of a prompt."""
        written = usage.cache_write + usage.cache_write_1h
        read_end, write_end = usage.cache_read, usage.cache_read + written
        read = min(int(self._before(read_end)), usage.cache_read)
        rest = min(int(self._before(write_end)) - read, written)
        short = min(rest, usage.cache_write)
        plain = min(int(self._before(usage.total_input)) - read - rest, usage.input)
        return replace(
            usage,
            cache_read=usage.cache_read - read,
            cache_write=usage.cache_write - short,
            cache_write_1h=usage.cache_write_1h - (rest - short),
            input=usage.input - max(plain, 0),
        )
