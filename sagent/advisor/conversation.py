"""The conversation of one advisor, with everything it has read and answered: it only grows, so that its provider's
cache is used."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from operator import is_

from sagent.advisor.quotation import Keep, Reader, asking_calls, clean, cut, quote, quote_setting
from sagent.events import Advice
from sagent.lib.dataclass import dataclass
from sagent.lib.json import sha256_hex
from sagent.messages import Message, assistant, user
from sagent.model import Request
from sagent.session.contents import ConsultationEntry

TOOL = "advisor"
"""The name of the executor's tool."""
HELD = "Not done yet: an advisor was asked first, and its advice follows. Make the call again if you still want it."
_HOLDS = "Not done yet: "
_BYTES_PER_TOKEN = 3  # of text, about
_MIN_MESSAGE_BYTES = 400  # always shown, however little fits
_SMALLER = "(The executor's own context was compacted here.)"


@dataclass(frozen=True, slots=True)
class Asking:
    """The parts of a consultation: the executor's next request, its task, and the request to the advisor.

    `room` is the number of tokens that fit; None if unknown.
    """

    executor: Request
    task: str
    closing: str
    keep: Keep
    room: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A consultation as it goes out: the messages, and what of the executor's history they quote."""

    messages: tuple[Message, ...]
    quoted: tuple[Message, ...]
    task: str
    epoch: int
    left_out: int = 0  # messages of the executor's that did not fit

    def entry(self, advice: Advice) -> ConsultationEntry:
        """Return the log entry of an advice, without the texts that were sent."""
        last = mark(self.quoted[-1]) if self.quoted else ""
        return ConsultationEntry(advice, "", "", self.epoch, len(self.quoted), last, self.left_out)


@dataclass(slots=True)
class Conversation:
    """The conversation of one advisor. A consultation that failed leaves no trace in it."""

    name: str
    messages: list[Message] = field(default_factory=list[Message])
    epoch: int = 0  # number of restarts because it no longer fitted
    _task: str = ""
    _seen: tuple[Message, ...] = ()

    def news(self, history: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages of the executor's history that this advisor has not read."""
        if self._follows(history):
            return tuple(history[len(self._seen) :])
        known = Counter(map(_key, self._seen))
        found: list[Message] = []
        for message in history:
            key = _key(message)
            if known[key]:
                known[key] -= 1
            else:
                found.append(message)
        return tuple(found)

    def evidence(self, history: Sequence[Message]) -> bool:
        """Return True if something has happened since: a result, or a message of anyone but executor and advisors."""
        own = asking_calls(history, TOOL)
        return any(
            any(result.call_id not in own and not is_held(result.text) for result in message.results)
            or (message.role == "user" and not message.results and not message.sender.startswith((TOOL, "sagent")))
            for message in self.news(history)
        )

    def ask(self, asking: Asking) -> Asked:
        """Return the next consultation, ending in the request; it mentions left-out parts."""
        history = tuple(asking.executor.messages)
        before = self._next(asking) if self.messages else f"{_opening(asking)}\n\nThe conversation so far:\n"
        new = self.news(history)
        reader = Reader(self.name if self.messages else "", asking_calls(history, TOOL))
        quoted = quote(new, len(history) - len(new) + 1, asking.keep, reader) or "(Nothing was said.)"
        messages = (*self.messages, user(f"{before}{quoted}\n\n{asking.closing}"))
        if asking.room is None or sum(_bytes(each.content) for each in messages) <= asking.room * _BYTES_PER_TOKEN:
            return Asked(messages, history, asking.task, self.epoch)
        return self._anew(asking, asking.room * _BYTES_PER_TOKEN)

    def answer(self, question: Asked, text: str) -> None:
        """Add a consultation and its answer."""
        self.messages = [*question.messages, assistant(text)]
        self._seen, self._task, self.epoch = question.quoted, question.task, question.epoch

    def restore(self, entry: ConsultationEntry, text: str, history: Sequence[Message]) -> None:
        """Restore a consultation of an earlier process: its log entry, and the sent text."""
        if entry.epoch != self.epoch:
            self.messages, self.epoch = [], entry.epoch
        self.messages += [user(text), assistant(entry.advice.text)]
        seen = tuple(history[: entry.quoted])
        same = bool(seen) and mark(seen[-1]) == entry.last  # not if the history was cut or left since
        self._seen = seen if same else ()

    def _next(self, asking: Asking) -> str:
        task = f'The task has changed: "{cut(clean(asking.task), 300, 100)}"\n' if asking.task != self._task else ""
        smaller = "" if self._follows(asking.executor.messages) else f"{_SMALLER}\n"
        return f"{task}Since then:\n{smaller}"

    def _anew(self, asking: Asking, max_bytes: int) -> Asked:
        """Start again with the last part of the history, in half of the room, so that the next consultations fit too.
        The advisor's own answers are quoted like everything else."""
        history = tuple(asking.executor.messages)
        reader = Reader("", frozenset())
        opening = fit(_opening(asking), max(max_bytes // 4, _MIN_MESSAGE_BYTES))
        left = max_bytes // 2 - _bytes(opening) - _bytes(asking.closing) - _MIN_MESSAGE_BYTES
        pieces: list[str] = []
        place = len(history)
        while place:
            piece = quote(history[place - 1 : place], place, asking.keep, reader)
            if not any(pieces):
                piece = fit(piece, max(left, _MIN_MESSAGE_BYTES))
            left -= _bytes(piece) + 1
            if left < 0 and any(pieces):
                break
            pieces.insert(0, piece)
            place -= 1
        gone = f"(The first {place} messages are left out here: they do not fit.)\n" if place else ""
        quoted = "\n".join(filter(None, pieces))
        message = user(f"{opening}\n\nThe conversation so far:\n{gone}{quoted}\n\n{asking.closing}")
        return Asked((message,), history, asking.task, self.epoch + 1, place)

    def _follows(self, history: Sequence[Message]) -> bool:
        return len(history) >= len(self._seen) and all(map(is_, self._seen, history))


def fit(text: str, size: int) -> str:
    """Cut a text to its head and tail in about so many bytes. Remove secrets before: they might be cut in two."""
    data = text.encode("utf-8", "replace")
    if len(data) <= size:
        return text
    head, tail = data[: size * 2 // 3], data[len(data) - size // 3 :]
    return f"{head.decode('utf-8', 'ignore')}\n[...]\n{tail.decode('utf-8', 'ignore')}"


def held_without(reason: str) -> str:
    """Return the answer to a call that waits for advice that nobody can give."""
    return f"{_HOLDS}it may destroy something for good, and {reason}. Make the call again if you still want it."


def is_held(text: str) -> bool:
    """Return True if a call was answered that it has to wait."""
    return text.startswith(_HOLDS)


def mark(message: Message) -> str:
    """Return a fingerprint that identifies a message."""
    return sha256_hex(repr(_key(message)).encode("utf-8", "replace"))[:16]


def _opening(asking: Asking) -> str:
    executor = asking.executor
    return f"{quote_setting(executor.system, executor.tools)}\n\nThe task:\n{cut(clean(asking.task), 4_000, 1_900)}"


def _key(message: Message) -> tuple[object, ...]:
    """Return a key that identifies a message, even if it is read from a log again or its results were removed."""
    calls, results = tuple(call.id for call in message.calls), tuple(result.call_id for result in message.results)
    return (message.role, message.sender, calls, results, "" if calls or results else message.content)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
