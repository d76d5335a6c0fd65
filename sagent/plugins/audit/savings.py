"""Savings of compactions: the estimated cost of the conversation without them, by its provider's cache rules, minus its
actual cost including summaries. All of it comes from the log."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from sagent.errors import SagentError
from sagent.lib.dataclass import dataclass
from sagent.lib.money import EXACT, ZERO
from sagent.session.contents import COMPACTOR, ChargeEntry, Compacted, RequestSent
from sagent.session.entries import Entry
from sagent.session.log import read_contents
from sagent.session.savings import Price
from sagent.session.view import LogView
from sagent.usage import Charge, Saving, Usage

CACHE_LIFE_SECONDS = 300.0  # assumed lifetime of a provider's cache, if the log shows no reads
MIN_CACHED_TOKENS = 4_096  # some cache no request below that
MEDIA_TOKENS = 1_500  # of an image or a document, about
FRAME_BYTES = 150  # size of an entry of a message or result without its text, about
INSTRUCTION_TOKENS = 215  # of a request for a summary, about
MIN_LEARNT_BYTES = 500  # enough text to derive bytes per token from
MIN_TOKENS_PER_BYTE, MAX_TOKENS_PER_BYTE = 0.1, 0.8
DEFAULT_TOKENS_PER_BYTE = {"said": 0.25, "found": 0.35}  # of prose, and of code and the like
FOLLOWED = ("request", "spent", "message", "result", "compacted", "forked")
"""The kinds of entries that count."""
_MARK = b'"kind":"compacted"'


@dataclass(slots=True)
class ConversationState:
    """State of a conversation: its last request and later events."""

    more: int = 0  # tokens that it would have had without compaction
    model: str = ""  # "provider/model"
    total: int = 0  # tokens it had
    output: int = 0  # tokens of the reply that are sent from then on
    left: float | None = None  # share of the context left after later compactions; None if there were none
    seen: bool = False  # whether the compactor has since read the context from the cache
    other: str = ""  # another model that has summarized since, with nothing in its cache before
    said: int = 0  # bytes of messages to it since
    found: int = 0  # bytes of results
    media: int = 0  # images and documents in them


class Savings:
    """Follows a log and computes its savings so far.

    The conversation is compared with a twin that sends and receives the same messages without compactions. The removed
    part is measured: by the last request before, the messages since, and the first request after.
    """

    def __init__(self, price: Price, more: int = 0) -> None:
        """`more` are tokens that the twin had in addition at its start."""
        self._price, self._more = price, more
        self._compactions, self._tokens = 0, 0
        self._usd: Decimal | None = ZERO
        self._stand = ConversationState(more)
        self._asked: RequestSent | None = None  # the conversation's request whose charges follow
        self._role = ""  # role of these charges, once known
        self._caching: set[str] = set()  # models that have read from or written to a cache
        self._writing: set[str] = set()  # those that have written
        self._stored: dict[str, tuple[int, datetime]] = {}  # tokens of the twin in their caches, and since when
        self._forks: dict[str, ConversationState] = {}  # states at entries that forks continue
        self._counts: dict[tuple[str, str], float] = {}  # tokens of one model per token of another
        self._known: dict[str, tuple[float, int]] = {}  # tokens counted for bytes that were "said", or "found" by tools
        self._last = ""  # the last entry that was counted
        self._tariffs: set[tuple[str, str, str]] = set()  # provider, model and tier of all that was priced

    def follow(self, log: LogView) -> Saving:
        """Return the savings from all current entries. Raises SessionCorrupt and OSError."""
        fresh: list[Entry] = []
        for entry in log.latest(*FOLLOWED) if self._last else ():
            if entry.id == self._last:
                break
            fresh.append(entry)
        if self._last and not any(entry.kind == "forked" for entry in fresh):
            self._add(reversed(fresh))
        else:  # the state at an earlier entry is known only after a fork has continued it
            self.__init__(self._price, self._more)
            self._forks = {entry.parent: ConversationState(self._more) for entry in log.of("forked")}
            self._add(log.of() if self._forks else log.of(*FOLLOWED))
        return Saving(self._compactions, self._tokens, self._usd)

    def _add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.kind == "forked":
                self._stand = replace(self._forks[entry.parent])
            elif entry.kind in ("message", "result"):
                self._hear(entry)
            elif entry.kind in FOLLOWED:
                self._count(entry)
            if entry.id in self._forks:
                self._forks[entry.id] = replace(self._stand)
            if entry.kind in FOLLOWED:
                self._last = entry.id

    def _hear(self, entry: Entry) -> None:
        """Count a message to the model by its size only, because decoding many would take long."""
        line, stand = entry.line, self._stand
        if entry.kind == "message" and b'"role":"user"' not in line:
            return
        self._asked = None
        if b'"type":"tool_result"' in line:  # it carries all results that were logged before
            stand.said, stand.found, stand.media = 0, 0, 0
        start = line.find(b'"body":{' if entry.kind == "message" else b'"result":{')  # after a change that is not sent
        size = max(0, len(line) - start - FRAME_BYTES)
        if entry.kind == "result" or b'"type":"tool_result"' in line:
            stand.found += size
        else:
            stand.said += size
        stand.media += line.count(b'"blob":"')

    def _count(self, entry: Entry) -> None:
        match entry.content:
            case RequestSent() as request:
                self._asked, self._role = None if request.role else request, request.role
            case ChargeEntry(charge) if charge.role == COMPACTOR:
                self._tokens -= charge.usage.total_input
                self._pay(charge.usd, ZERO)
                if (model := _model_of(charge)) == self._stand.model:
                    self._see(charge.usage)
                elif not charge.usage.cache_read:
                    self._stand.other = model
            case ChargeEntry(charge) if self._asked is not None and charge.usage.total_input:
                self._role = self._role or charge.role
                if charge.role == self._role:  # otherwise of a model that the provider ran inside the call
                    self._compare(charge, self._asked, datetime.fromisoformat(entry.at))
            case Compacted() as compacted:
                self._compact(compacted)
            case _:
                pass

    def _see(self, usage: Usage) -> None:
        """Take the size of the whole conversation from the usage of an answered request to sum it up."""
        stand, total = self._stand, usage.total_input - INSTRUCTION_TOKENS
        stand.seen |= usage.cache_read > 0
        much = (
            stand.said + stand.found > 3_000 or stand.media
        )  # otherwise an estimate is better than one from the instruction
        if much and self._role == COMPACTOR and stand.left is None and total >= stand.total + stand.output:
            stand.total, stand.output, stand.said, stand.found, stand.media = total, 0, 0, 0, 0

    def _compact(self, compacted: Compacted) -> None:
        self._compactions += 1
        self._asked = None
        if compacted.kept is not None and compacted.summary is None:  # cleared: the twin forgets it too
            self._stand = ConversationState()
        else:
            left = min(1.0, compacted.after / max(compacted.before, 1))
            self._stand.left = left * (1.0 if self._stand.left is None else self._stand.left)

    def _compare(self, charge: Charge, request: RequestSent, at: datetime) -> None:
        """Compare a request of the conversation with the bill of its twin."""
        usage, stand, model = charge.usage, self._stand, _model_of(charge)
        written = usage.cache_write + usage.cache_write_1h
        self._writing |= {model} if written else set()
        self._caching |= {model} if written or usage.cache_read else set()
        same = model == stand.model
        grown = 1.0 if same else self._compare_counts(stand, model, usage.total_input)
        stand.more = round(stand.more * grown)
        if stand.left is not None:
            without = stand.total + stand.output + self._since(stand)  # its size without compactions
            stand.more += round(grown * without) - usage.total_input
        elif same:
            self._learn(stand, usage.total_input - stand.total - stand.output)
        if stand.more:
            twin = self._twin(usage, stand, model, at)
            self._tokens += stand.more
            self._pay(self._cost(charge, request, usage, at), self._cost(charge, request, twin, at))
        cached = usage.total_input - usage.input if written else usage.total_input
        self._stored[model] = cached + stand.more, at
        output = usage.output - usage.reasoning
        self._stand = ConversationState(stand.more, model, usage.total_input, output)

    def _learn(self, state: ConversationState, tokens: int) -> None:
        """Learn the tokens that a provider has counted for new text."""
        kind, size = ("found", state.found) if state.found else ("said", state.said)
        mixed = state.media or (state.found and state.said)
        if size >= MIN_LEARNT_BYTES and not mixed and MIN_TOKENS_PER_BYTE <= tokens / size <= MAX_TOKENS_PER_BYTE:
            known = self._known.get(kind, (0, 0))
            self._known[kind] = known[0] + tokens, known[1] + size

    def _measure(self, kind: str, size: int) -> int:
        """Estimate the tokens of a number of bytes, by earlier counts of their kind."""
        tokens, known = self._known.get(kind, (DEFAULT_TOKENS_PER_BYTE[kind], 1))
        return round(size * tokens / known)

    def _since(self, state: ConversationState) -> int:
        """Estimate the tokens of the messages since the last request."""
        return self._measure("said", state.said) + self._measure("found", state.found) + state.media * MEDIA_TOKENS

    def _compare_counts(self, state: ConversationState, model: str, total: int) -> float:
        """Return a model's tokens per token of the previous model; learnt when both got the same text."""
        there, back = (state.model, model), (model, state.model)
        if state.left is None and state.total:
            self._counts[there] = total / (state.total + state.output + self._since(state))
        return self._counts[there] if there in self._counts else 1 / self._counts.get(back, 1.0)

    def _twin(self, usage: Usage, state: ConversationState, model: str, at: datetime) -> Usage:
        """Return the twin's bill in place of a request."""
        same, total = model == state.model, usage.total_input + state.more
        stored, since = self._stored.get(model, (0, at))
        soon = model in self._caching and (at - since).total_seconds() <= CACHE_LIFE_SECONDS
        first = state.left is not None
        read = 0 if model == state.other and model not in self._stored else usage.cache_read
        if first or not same or (not read and usage.total_input < MIN_CACHED_TOKENS):
            # the compacted request shares little with its predecessor, the twin's all of it
            if soon or (same and state.seen) or (first and read):
                read = max(read, min(stored, total))
        elif same and 2 * read >= min(state.total, usage.total_input):
            read += state.more
        rest = total - read
        plain = rest if model not in self._writing else min(usage.input, rest)
        if usage.input == usage.total_input and model in self._writing:  # too small to be written; the twin was not
            plain = 0
        hour = rest - plain if usage.cache_write_1h > usage.cache_write else 0
        return replace(usage, input=plain, cache_read=read, cache_write=rest - plain - hour, cache_write_1h=hour)

    def _cost(self, charge: Charge, request: RequestSent, usage: Usage, at: datetime) -> Decimal | None:
        for name in (charge.model, request.model):  # the server's own name, and the requested one
            self._tariffs.add((charge.provider, name, charge.tier))
            usd = self._price(charge.provider, name, usage, at, charge.tier)
            if usd is not None:
                return usd
        return None

    def _pay(self, usd: Decimal | None, twin: Decimal | None) -> None:
        if usd is None or twin is None or self._usd is None:
            self._usd = None
        else:
            self._usd = EXACT.add(self._usd, EXACT.subtract(twin, usd))


def _model_of(charge: Charge) -> str:
    return f"{charge.provider}/{charge.model}"


def add_savings(files: Iterable[Path], price: Price) -> Saving:
    """Add up the savings in several logs of a session. Unreadable logs are left out."""
    found = Saving()
    for file in files:
        with suppress(SagentError, OSError, ValueError), file.open("rb") as lines:
            if any(_MARK in line for line in lines):
                found += Savings(price).follow(read_contents(file))
    return found
