"""Reads the course of an agent from its log, in one pass."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.lib.json import as_array, as_object
from sagent.lib.regular import open_given
from sagent.plugins.why.clock import Clock
from sagent.plugins.why.context import FRAME_CHARS, Context, day_of, model_of
from sagent.plugins.why.course import BilledRequest, Cause, Consultation, Course, Piece, State, Subject, ToolUse
from sagent.plugins.why.rates import RateBook
from sagent.session import contents
from sagent.session.contents import COMPACTOR, EXECUTOR, StoredCall, StoredMessage, StoredResult
from sagent.session.entries import Entry
from sagent.session.folds import LOST
from sagent.session.log import read_log
from sagent.usage import Charge

CACHE_SECONDS, LONG_CACHE_SECONDS = 300, 3_600
"""Lifetimes of providers' caches: the usual one, and that of entries that were written for an hour."""
MIN_REPEATED_CHARS = 200  # of a result, to count as a repeated one
MIN_CACHED_TOKENS = 1_024
MEDIA_CHARS = 5_000  # of an image or a document, about
MAX_TOKENS = 10**15
MAX_SECONDS = 10**9  # of a call
_YEARS = range(1970, 2200)
_ADVISOR = "advisor"
_FORKED = b',"kind":"forked","parent":"'


def read_course(agent: str, file: Path, rates: RateBook, seen: set[str] | None = None) -> Course:
    """Return the course of an agent. Entries whose ids are in `seen` are another session's, and count for nothing; the
    ids of those that count are added. What follows damage is left out, and `problem` says so. Raises OSError."""
    reader = _Reader(agent, rates, _continued(file), seen)
    try:
        for place, entry in enumerate(read_log(file)):
            reader.read(place, entry)
    except SessionCorrupt as error:
        reader.course.problem = str(error)
    reader.close()
    return reader.course


def read_entries(agent: str, entries: Iterable[Entry], rates: RateBook) -> Course:
    """Return the course of an agent from entries in memory. Raises SessionCorrupt."""
    entries = tuple(entries)
    reader = _Reader(agent, rates, {entry.parent for entry in entries if entry.kind == "forked"})
    for place, entry in enumerate(entries):
        reader.read(place, entry)
    reader.close()
    return reader.course


def _continued(file: Path) -> set[str]:
    """Return the ids of the entries that forks continue."""
    found: set[str] = set()
    with suppress(OSError), open_given(file) as lines:  # the log's own reader says what is wrong
        for line in lines:
            if (place := line.rfind(_FORKED)) >= 0 and place > len(line) - 150:
                found.add(line[place + len(_FORKED) : -3].decode("ascii", "replace"))
    return found


def _time_of(entry: Entry) -> datetime:
    """Return the time of an entry. Raises SessionCorrupt for one that no clock had."""
    try:
        at = datetime.fromisoformat(entry.at)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or at.year not in _YEARS:
        raise SessionCorrupt(f"entry {entry.id[:8]} has a time that cannot be: it and what follows do not count.")
    return at


def _check_counts(entry: Entry, content: contents.Content) -> None:
    """Raise SessionCorrupt for a bill of more tokens than any model reads or writes."""
    match content:
        case contents.ChargeEntry(charge) | contents.Reserved(charge):
            usage = charge.usage
        case contents.ConsultationEntry(advice):
            usage = advice.usage
        case _:
            return
    counts = (usage.input, usage.cache_read, usage.cache_write, usage.cache_write_1h, usage.output, usage.reasoning)
    if not all(0 <= number <= MAX_TOKENS for number in counts):
        raise SessionCorrupt(f"entry {entry.id[:8]} has counts that cannot be: it and what follows do not count.")


class _Reader:
    def __init__(self, agent: str, rates: RateBook, continued: AbstractSet[str], seen: set[str] | None = None) -> None:
        self.course = Course(agent)
        self._rates, self._seen = rates, seen
        self._rest: State = "idle" if "/" in agent else "person"
        self._clock = Clock(self.course, self._rest)
        self._context = Context(self.course)
        self._snapshots: dict[str, list[list[Piece]] | None] = dict.fromkeys(continued)
        self._calls: dict[str, StoredCall] = {}
        self._reserved: dict[str, tuple[str, Charge]] = {}
        self._prompt: contents.PromptEntry | None = None
        self._changes: list[tuple[Cause, str]] = []  # since the last request
        self._model: str = ""
        self._effort: str = ""
        self._last: dict[str, BilledRequest] = {}  # by model
        self._caching: set[str] = set()
        self._writing: set[str] = set()

    def read(self, place: int, entry: Entry) -> None:
        content = entry.content
        is_copy = self._seen is not None and entry.id in self._seen
        if self._seen is not None:
            self._seen.add(entry.id)
        at = _time_of(entry)
        _check_counts(entry, content)
        self._clock.read(at, content, self._calls, is_copy=is_copy)
        match content:
            case contents.MessageEntry(message):
                self._message(place, entry, message)
            case contents.PromptEntry() as prompt:
                self._prompted(entry, prompt)
            case contents.RequestSent(role="") as sent:
                self._context.mark(place, entry.id, sent)
            case contents.ResultEntry() as result:
                self._result(result, at, is_copy=is_copy)
            case contents.Compacted() as compacted:
                self.course.compactions += not is_copy
                self._context.compact(compacted)
            case contents.Forked():
                self._context.restore(self._snapshots.get(entry.parent) or [])
            case contents.SwitchedEntry() | contents.ConsultationEntry() | contents.AdviceOutcome():
                self._turn(entry, at, content, is_copy=is_copy)
            case _:
                self._charge(entry, at, content, is_copy=is_copy)
        if entry.id in self._snapshots:
            self._snapshots[entry.id] = self._context.snapshot()

    def _turn(self, entry: Entry, at: datetime, content: contents.Content, *, is_copy: bool) -> None:
        """Note a switch, or a consultation and its outcome."""
        match content:
            case contents.SwitchedEntry(model=model, effort=effort, advisor=""):
                if effort != self._effort and model in ("", self._model):
                    self._changes.append(("effort", entry.id))
                self._model, self._effort = model or self._model, effort
            case contents.ConsultationEntry(advice):
                if not is_copy and advice.usage.total_input:
                    tokens = advice.usage.total_input + advice.usage.output
                    self.course.consultations[entry.id] = Consultation(
                        day_of(at), entry.id, advice.advisor, advice.trigger, tokens, advice.usd
                    )
            case contents.AdviceOutcome(of=of, outcome=outcome):
                if (consultation := self.course.consultations.get(of)) is not None:
                    consultation.outcome = outcome
            case _:
                pass

    def close(self) -> None:
        """End the course: calls without a known end count with their worst case."""
        self._context.close()
        self.course.asides += [(day, entry, charge) for entry, (day, charge) in self._reserved.items()]

    def _message(self, place: int, entry: Entry, message: StoredMessage) -> None:
        context = self._context
        if message.role == "assistant":
            context.mark(place, entry.id)
            self._calls |= {call.id: call for call in message.calls}
            called = sum(len(call.arguments) + len(call.name) for call in message.calls)
            size = sum(map(len, message.texts("text", "thinking", "opaque"))) + called
            context.add([Piece(Subject("reply"), size + FRAME_CHARS)])
            return
        for part in map(as_object, _parts_of(message)):
            if part.get("type") == "tool_result":
                result = StoredResult(part)
                if not context.has_result(result.call_id):
                    context.answer(self._piece_of(result))
        size = len(message.text) + MEDIA_CHARS * len(message.media)
        if message.has_results and not size:
            context.end_results()
            return
        sender = message.sender.partition(":")[0]
        subject = Subject("advice") if sender == _ADVISOR else Subject("message" if sender else "person")
        context.add([Piece(subject, size + FRAME_CHARS)])

    def _prompted(self, entry: Entry, prompt: contents.PromptEntry) -> None:
        before, self._prompt = self._prompt, prompt
        if before == prompt:
            return
        size = len(prompt.system or "") + sum(len(tool.description) + len(tool.schema) for tool in prompt.tools)
        self._context.prompt(Piece(Subject("system"), size + FRAME_CHARS))
        if before is not None:
            self._changes.append(("tools" if before.tools != prompt.tools else "system prompt", entry.id))

    def _result(self, entry: contents.ResultEntry, at: datetime, *, is_copy: bool) -> None:
        piece = self._piece_of(entry.result)
        self._context.answer(piece)
        if is_copy:
            return
        call = self._calls.get(entry.result.call_id)
        uses = self.course.tools.setdefault(day_of(at), {})
        use = ToolUse(1, int(entry.result.is_error), min(max(entry.seconds, 0.0), MAX_SECONDS))
        uses.setdefault(call.name if call else "", ToolUse()).add(use)

    def _piece_of(self, result: StoredResult) -> Piece:
        call = self._calls.get(result.call_id, StoredCall(result.call_id, "", ""))
        text = result.text
        digest = hash((call.name, call.arguments, text)) if len(text) >= MIN_REPEATED_CHARS else 0
        subject = Subject("result", call.name)
        if call.name == _ADVISOR:
            subject = Subject("advice")
        elif digest and self._context.holds(digest):
            subject = Subject("again", call.name)
        elif result.is_error:
            subject = Subject("failed", call.name)
        size = len(text) + MEDIA_CHARS * len(result.media) + FRAME_CHARS
        return Piece(subject, size, result.call_id, call.arguments, digest)

    def _charge(self, entry: Entry, at: datetime, content: contents.Content, *, is_copy: bool) -> None:
        match content:
            case contents.Reserved(charge):
                if not is_copy:
                    self._reserved[entry.id] = day_of(at), charge
            case contents.Released(of):
                self._reserved.pop(of, None)
            case contents.ChargeEntry(charge, of):
                self._reserved.pop(of, None)
                if charge.role in ("", EXECUTOR):
                    self._request(entry, at, charge, is_copy=is_copy)
                elif not is_copy:
                    self.course.asides.append((day_of(at), entry.id, charge))
            case contents.Repaired(has_lost_cost=True):
                if not is_copy:
                    self.course.asides.append((day_of(at), entry.id, replace(LOST, agent=self.course.agent)))
            case _:
                pass

    def _request(self, entry: Entry, at: datetime, charge: Charge, *, is_copy: bool) -> None:
        mark = self._context.take_mark(entry.id)
        request = BilledRequest(len(self.course.requests), mark.place, mark.entry, at, charge, mark.sent)
        before = self.course.requests[-1] if self.course.requests else None
        usage = charge.usage
        self._find_cause(request, before)
        self._context.measure(mark, request, before, is_known=not self._changes)
        self.course.requests.append(request)
        self._changes.clear()
        self._last[model_of(charge)] = request
        if usage.cache_read or usage.cache_write or usage.cache_write_1h:
            self._caching.add(model_of(charge))
        if usage.cache_write or usage.cache_write_1h:
            self._writing.add(model_of(charge))
        request.is_copy = is_copy
        self._context.pay(mark, request, self._rates)

    def _find_cause(self, request: BilledRequest, before: BilledRequest | None) -> None:
        """Find the tokens that could have been read from the cache, and why they were not."""
        usage, model = request.charge.usage, model_of(request.charge)
        earlier = self._last.get(model)
        if before is not None:
            request.since = (request.at - before.at).total_seconds()
        if earlier is None or self._context.is_broken or model not in self._caching:
            return
        last = earlier.charge.usage
        written = last.cache_write + last.cache_write_1h
        stored = last.cache_read + written if model in self._writing else last.total_input
        missed = min(stored, usage.total_input) - usage.cache_read
        if stored < MIN_CACHED_TOKENS or 2 * usage.cache_read >= min(stored, usage.total_input) or missed <= 0:
            return
        request.missed = missed
        life = LONG_CACHE_SECONDS if last.cache_write_1h else CACHE_SECONDS
        if earlier is not before:
            request.cause = "model"
        elif self._changes:
            request.cause, request.changed = self._changes[0]
        else:
            request.cause = "pause" if request.since > life else "unknown"


def subject_of(role: str) -> Subject:
    """Return what a charge of another role than the executor's goes to."""
    if role == COMPACTOR:
        return Subject("compactor")
    kind, _, name = role.partition(":")
    return Subject("advisor", name) if kind == "advisor" else Subject("other", role)


def _parts_of(message: StoredMessage) -> Iterator[object]:
    return iter(as_array(message.encoded.get("parts")))
