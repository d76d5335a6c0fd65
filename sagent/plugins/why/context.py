"""The context of an agent's requests: the pieces that each of them carried, and their shares of its cost."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import lru_cache

from sagent.lib.dataclass import dataclass
from sagent.plugins.why.course import BilledRequest, Course, Piece, Span, Subject
from sagent.plugins.why.rates import RateBook, Rates
from sagent.session import contents
from sagent.session.contents import EXECUTOR
from sagent.usage import Charge, Usage

FRAME_CHARS = 40  # of a message without its text, about
_TOKENS_PER_CHAR = (0.05, 1.5)
"""Plausible shares of tokens in characters."""
_QUARTER_SECONDS = 900


@dataclass(slots=True)
class Mark:
    """The context at the time of a request: its size and the pieces that are new in it."""

    place: int
    entry: str
    size: int
    fresh: list[Piece]
    sent: contents.RequestSent | None = None
    late: list[Piece] = field(default_factory=list[Piece])


class Context:
    """The pieces that each request carries. Their shares of the costs are added up by a running cost of each character,
    so that a request costs no time for each of its pieces."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._messages: list[list[Piece]] = []
        self._early: list[Piece] = []  # results that no message has yet
        self._system: Piece | None = None
        self._live: dict[int, Piece] = {}
        self._counts: Counter[int] = Counter()  # live pieces by digest
        self._size = 0
        self._fresh: list[Piece] = []
        self._mark: Mark | None = None
        self._usd = self._tokens = 0.0  # of each character so far, on this day
        self._day = ""
        self._from: dict[int, tuple[float, float]] = {}
        self.is_broken = False  # whether the next request does not continue the last one

    def holds(self, digest: int) -> bool:
        """Return True if a result is in the context."""
        return self._counts[digest] > 0

    def has_result(self, call: str) -> bool:
        """Return True if a result was logged, and waits for its message."""
        return any(piece.call == call for piece in self._early)

    def add(self, message: list[Piece]) -> None:
        """Add a message after those that came before."""
        self.end_results()
        self._messages.append(message)
        for piece in message:
            self._open(piece)

    def answer(self, piece: Piece) -> None:
        """Add a result."""
        self._early.append(piece)
        self._open(piece)

    def end_results(self) -> None:
        """Make a message of the results so far."""
        if self._early:
            self._messages.append(self._early)
            self._early = []

    def prompt(self, piece: Piece) -> None:
        """Replace the system prompt and tools."""
        if self._system is not None:
            self._shut(self._system)
        self._system = piece
        self._open(piece)
        self._span_again()

    def compact(self, compacted: contents.Compacted) -> None:
        """Apply a compaction, as `folds.compact` does to messages."""
        self.end_results()
        messages = self._messages
        for place, call, text in compacted.stubs:
            if 0 <= place < len(messages):
                messages[place] = self._stubbed(messages[place], call, text)
        if compacted.kept is not None:
            kept = set(compacted.kept)
            for place, message in enumerate(messages):
                if place not in kept:
                    for piece in message:
                        self._shut(piece)
            messages[:] = [message for place, message in enumerate(messages) if place in kept]
        if compacted.summary is not None:
            place, text = compacted.summary
            texts = (text, *(note for _, note in compacted.notes))
            made = [[Piece(Subject("summary"), len(each) + FRAME_CHARS)] for each in texts]
            messages[place:place] = made
            for message in made:
                self._open(message[0])
        self.is_broken = True
        self._span_again()

    def _stubbed(self, message: list[Piece], call: str, text: str) -> list[Piece]:
        found: list[Piece] = []
        for piece in message:
            if call and piece.call != call:
                found.append(piece)
                continue
            self._shut(piece)
            found.append(Piece(piece.subject, len(text) + FRAME_CHARS, piece.call, piece.arguments))
            self._open(found[-1])
        return found

    def snapshot(self) -> list[list[Piece]]:
        """Return the messages, for a fork."""
        return [*self._messages, list(self._early)] if self._early else list(self._messages)

    def restore(self, messages: list[list[Piece]]) -> None:
        """Continue from earlier messages."""
        wanted = {id(piece) for message in messages for piece in message}
        for piece in list(self._live.values()):
            if id(piece) not in wanted and piece is not self._system:
                self._shut(piece)
        for message in messages:
            for piece in message:
                if id(piece) not in self._live:
                    self._open(piece)
        self._messages, self._early, self.is_broken = list(messages), [], True
        self._span_again()

    def mark(self, place: int, entry: str, sent: contents.RequestSent | None = None) -> None:
        """Note the context of a request that is billed later; one is known by its entry, or by its reply's."""
        if self._mark is not None and sent is None:
            return
        if self._mark is not None:
            self._fresh = [*self._mark.fresh, *self._fresh]
            self._begin_shares(self._mark.late)
        self._mark = Mark(place, entry, self._size, self._fresh, sent)
        self._fresh = []

    def take_mark(self, entry: str) -> Mark:
        """Return the context of the request that a charge is for."""
        if self._mark is None:
            self.mark(-1, entry)
        mark, self._mark = self._mark, None
        assert mark is not None
        return mark

    def measure(self, mark: Mark, request: BilledRequest, before: BilledRequest | None, *, is_known: bool) -> None:
        """Measure the pieces that are new in a request, by its count and that of the request before."""
        usage = request.charge.usage
        least, most = _TOKENS_PER_CHAR
        ratio = min(max(usage.total_input / max(mark.size, 1), least), most)
        new = [piece for piece in mark.fresh if not piece.tokens]
        replies = [piece for piece in new if piece.subject.what == "reply"]
        rest = [piece for piece in new if piece.subject.what != "reply"]
        size = sum(piece.size for piece in rest)
        follows = before is not None and is_known and not self.is_broken and len(replies) <= 1
        if before is not None and follows and model_of(before.charge) == model_of(request.charge):
            last = before.charge.usage
            said = last.output - last.reasoning
            tokens = usage.total_input - last.total_input - (said if replies else 0)
            if size and least <= tokens / size <= most:
                ratio = tokens / size
                for piece in rest:
                    piece.counted = len(rest) == 1 and not last.reasoning
        for piece in new:
            piece.tokens = max(piece.size * ratio, 1.0)
        end = float(usage.total_input)
        for piece in reversed(mark.fresh):
            end -= piece.tokens
            if piece.spans:
                piece.spans[-1].start = max(end, 0.0)
        self.is_broken = False

    def pay(self, mark: Mark, request: BilledRequest, rates: RateBook) -> None:
        """Divide the cost of a request among what it carried."""
        day = day_of(request.at)
        if day != self._day:
            self._settle_day(day)
        usage, charge = request.charge.usage, request.charge
        if not request.is_copy:
            spent, missed, written = _divided(request, rates)
            usd = self._course.usd_weights.setdefault(day, {})
            tokens = self._course.token_weights.setdefault(day, {})
            _put(usd, Subject("cache"), missed)
            _put(usd, Subject("written"), written)
            _put(tokens, Subject("written"), float(usage.output))
            if mark.size:
                self._usd += spent / mark.size
                self._tokens += usage.total_input / mark.size
            else:
                _put(usd, Subject("other", charge.role or EXECUTOR), spent)
                _put(tokens, Subject("other", charge.role or EXECUTOR), float(usage.total_input))
        self._begin_shares(mark.late)

    def close(self) -> None:
        """End the course."""
        self._settle_day("")
        for piece in self._live.values():
            piece.spans[-1].stop = len(self._course.requests)

    def _settle_day(self, day: str) -> None:
        for piece in self._live.values():
            self._take_share(piece)
        self._day = day

    def _open(self, piece: Piece) -> None:
        number = len(self._course.requests)
        if not piece.spans:
            self._course.pieces.append(piece)
        self._live[id(piece)] = piece
        self._size += piece.size
        self._counts[piece.digest] += bool(piece.digest)
        piece.spans.append(Span(number if self._mark is None else number + 1))
        self._fresh.append(piece)
        self._from[id(piece)] = self._usd, self._tokens
        if self._mark is not None:
            self._mark.late.append(piece)

    def _begin_shares(self, pieces: Iterable[Piece]) -> None:
        """Let pieces that came after a request have no share of it."""
        for piece in pieces:
            if id(piece) in self._live:
                self._from[id(piece)] = self._usd, self._tokens

    def _shut(self, piece: Piece) -> None:
        if self._live.pop(id(piece), None) is None:
            return
        self._take_share(piece)
        self._size -= piece.size
        self._counts[piece.digest] -= bool(piece.digest)
        piece.spans[-1].stop = len(self._course.requests)
        del self._from[id(piece)]
        with suppress(ValueError):
            self._fresh.remove(piece)

    def _take_share(self, piece: Piece) -> None:
        usd, tokens = self._from[id(piece)]
        self._from[id(piece)] = self._usd, self._tokens
        if self._day:
            _put(self._course.usd_weights.setdefault(self._day, {}), piece.subject, piece.size * (self._usd - usd))
            _put(
                self._course.token_weights.setdefault(self._day, {}),
                piece.subject,
                piece.size * (self._tokens - tokens),
            )

    def _span_again(self) -> None:
        """Give every piece a new place: those before it have changed."""
        number = len(self._course.requests)
        ordered = [piece for message in self._messages for piece in message]
        self._fresh = [
            piece for piece in (self._system, *ordered, *self._early) if piece is not None and id(piece) in self._live
        ]
        for piece in self._fresh:
            if piece.spans[-1].first < number:
                piece.spans[-1].stop = number
                piece.spans.append(Span(number))


def day_of(at: datetime) -> str:
    """Return the date of a time on this machine."""
    return _day_of(int(at.timestamp()) // _QUARTER_SECONDS)


@lru_cache(maxsize=4_096)
def _day_of(quarter: int) -> str:
    """Return the date of a quarter of an hour since the epoch: time zones differ by quarters."""
    return datetime.fromtimestamp(quarter * _QUARTER_SECONDS, UTC).astimezone().date().isoformat()


def as_read(usage: Usage, tokens: int) -> Usage:
    """Return a usage in which tokens that were written to the cache, or not cached, were read from it."""
    counts = {"cache_write": usage.cache_write, "cache_write_1h": usage.cache_write_1h, "input": usage.input}
    left = tokens
    for bucket, there in counts.items():
        moved = min(max(there, 0), left)
        counts[bucket] -= moved
        left -= moved
    return replace(usage, **counts, cache_read=usage.cache_read + tokens - left)


def _divided(request: BilledRequest, rates: RateBook) -> tuple[float, float, float]:
    """Return what a request cost: for what it carried, for what it missed in the cache, and for its reply. Without list
    prices, a token of a reply counts as much as four others."""
    charge, usage = request.charge, request.charge.usage
    if charge.usd is None:
        return 0.0, 0.0, 0.0
    usd = float(charge.usd)
    known = rates_of(request, rates)
    if known is None:
        sent, written, extra = float(usage.total_input), 4.0 * usage.output, 0.0
    else:
        whole = known.of_input(usage)
        sent, written = float(whole + known.fixed), float(known.of_output(usage))
        extra = float(whole - known.of_input(as_read(usage, request.missed))) if request.missed else 0.0
    share = usd / (sent + written) if sent + written > 0 else 0.0
    missed = max(extra, 0.0) * share
    return (sent * share - missed if share else usd), missed, written * share


def rates_of(request: BilledRequest, rates: RateBook) -> Rates | None:
    """Return the list prices of a request."""
    charge = request.charge
    asked = request.sent.model if request.sent else charge.model
    names = tuple(dict.fromkeys((charge.model, asked)))
    return rates.rates(charge.provider, names, charge.usage.total_input, request.at, charge.tier)


def _put(weights: dict[Subject, float], subject: Subject, weight: float) -> None:
    if weight > 0:
        weights[subject] = weights.get(subject, 0.0) + weight


def model_of(charge: Charge) -> str:
    """Return the full name of a charge's model."""
    return f"{charge.provider}/{charge.model}"
