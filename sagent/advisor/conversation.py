"""What one advisor has been told and has answered: it only grows, so that its provider's cache is hit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

from sagent.advisor.quotation import Keep, quote, quote_setting
from sagent.lib.json import as_int, as_str
from sagent.messages import Message, assistant, user
from sagent.model import Request

TOOL = "advisor"
"""The name by which an executor asks."""
_BYTES = 3  # of text to a token, about
_SMALLER = "(The executor's own context was made smaller here.)"


@dataclass(frozen=True, slots=True)
class Asked:
    """A consultation as it goes out: the messages, and what of the executor's history they quote."""

    messages: tuple[Message, ...]
    seen: tuple[Message, ...]
    epoch: int
    left_out: int = 0  # messages of the executor's that did not fit


@dataclass(slots=True)
class Conversation:
    """One advisor's side. A consultation that came to nothing leaves no trace in it."""

    messages: list[Message] = field(default_factory=list[Message])
    epoch: int = 0  # times it was begun anew because it no longer fitted
    _seen: tuple[Message, ...] = ()

    def news(self, history: Sequence[Message]) -> tuple[Message, ...]:
        """What the executor's history has that this advisor has not read."""
        if self._follows(history):
            return tuple(history[len(self._seen) :])
        known = {_key(message) for message in self._seen}
        return tuple(message for message in history if _key(message) not in known)

    def evidence(self, history: Sequence[Message]) -> bool:
        """Whether something has happened since: a result, or a word of somebody else than the executor."""
        own = {call.id for message in history for call in message.calls if call.name == TOOL}
        return any(
            any(result.call_id not in own for result in message.results)
            or (message.role == "user" and not message.results and not message.sender.startswith(TOOL))
            for message in self.news(history)
        )

    def ask(self, executor: Request, closing: str, keep: Keep, room: int | None) -> Asked:
        """The next consultation, ending in `closing`. `room` is how many tokens fit; what does not is declared."""
        history = tuple(executor.messages)
        first = "" if self.messages else f"{_opening(executor)}\n\nThe conversation so far:\n"
        smaller = "" if self._follows(history) else f"{_SMALLER}\n"
        new = self.news(history)
        quoted = quote(new, len(history) - len(new) + 1, keep, TOOL) or "(Nothing was said.)"
        told = f"{first or 'Since then:'}\n{smaller}{quoted}".strip()
        messages = (*self.messages, user(f"{told}\n\n{closing}"))
        if room is None or _size(messages) <= room * _BYTES:
            return Asked(messages, history, self.epoch)
        return self._anew(executor, closing, keep, room)

    def answer(self, asked: Asked, text: str) -> None:
        """Take over a consultation and what it came to."""
        self.messages = [*asked.messages, assistant(text)]
        self._seen, self.epoch = asked.seen, asked.epoch

    def restore(self, body: Mapping[str, object], told: str, history: Sequence[Message]) -> None:
        """Take up one of an earlier process: its log entry, and the text that was sent."""
        if as_int(body.get("epoch")) != self.epoch:
            self.messages, self.epoch = [], as_int(body.get("epoch"))
        self.messages += [user(told), assistant(as_str(body.get("text")))]
        self._seen = tuple(history[: as_int(body.get("quoted"))])

    def _anew(self, executor: Request, closing: str, keep: Keep, room: int) -> Asked:
        """Begin again with the last part of the history, so that the next consultations fit too."""
        history = tuple(executor.messages)
        opening = _opening(executor)
        left = room * _BYTES // 2 - len(opening.encode()) - len(closing.encode())
        pieces: list[str] = []
        place = len(history)
        while place:
            piece = quote(history[place - 1 : place], place, keep, TOOL)
            left -= len(piece.encode("utf-8", "replace")) + 1
            if left < 0 and pieces:
                break
            pieces.insert(0, piece)
            place -= 1
        gone = f"(The first {place} messages are left out here: they do not fit.)\n" if place else ""
        quoted = "\n".join(filter(None, pieces))
        message = user(f"{opening}\n\nThe conversation so far:\n{gone}{quoted}\n\n{closing}")
        return Asked((message,), history, self.epoch + 1, place)

    def _follows(self, history: Sequence[Message]) -> bool:
        return len(history) >= len(self._seen) and all(map(is_, self._seen, history))


def _opening(executor: Request) -> str:
    task = next((m.content for m in executor.messages if m.role == "user" and m.content and not m.sender), "")
    short = task if len(task) <= 6_000 else f"{task[:4_000]}\n[...]\n{task[-1_900:]}"
    return f"{quote_setting(executor.system, executor.tools)}\n\nThe task:\n{redact_text(short)}"


def redact_text(text: str) -> str:
    """The text without secrets."""
    from sagent.lib.secrets import redact

    return redact(text)[0]


def _key(message: Message) -> tuple[object, ...]:
    """What tells a message from others, be it read from a log again or its results taken out."""
    calls, results = tuple(call.id for call in message.calls), tuple(result.call_id for result in message.results)
    return (message.role, message.sender, calls, results, "" if calls or results else message.content)


def _size(messages: Sequence[Message]) -> int:
    return sum(len(message.content.encode("utf-8", "replace")) for message in messages)
