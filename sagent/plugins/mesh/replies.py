"""Matches answers to messages of a session: a turn may read several, and answer some before others."""

from dataclasses import replace

from sagent.events import Event, Failure, Received, ReplyFinished, Result
from sagent.messages import Message, Text
from sagent.plugins.mesh.records import SessionRecord, encode

_ROOT = "root"
_MAX_KEPT_MESSAGES = 50  # messages whose answers a record keeps
_MAX_KEPT_BYTES = 64 << 10  # of an answer kept after the next one
_TOO_LARGE = "Its answer is in the session's log, and too large to be kept for longer: sagent attach SESSION."


class Replies:
    """Observes the root's replies. A message's answer is the last reply before the next message is read, or the result
    of the run that read it; a lost reader's messages are answered by the next result."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Message, int]] = []
        self._read: list[int] = []
        self._said: Message | None = None  # last reply with which a turn could have ended
        self._found: dict[int, Result] = {}

    def expect(self, message: Message, number: int) -> None:
        """Expect the agent to read a message with a number of the inbox."""
        self._waiting.append((message, number))

    def refuse(self, number: int, failure: Failure) -> None:
        """Record the failure of a message that will not be read."""
        self._found[number] = Result("", (), "error", failure)

    def on_event(self, event: Event) -> None:
        match event:
            case ReplyFinished(agent=agent, message=said) if agent == _ROOT:
                self._said = None if said.calls or said.stop == "pause" else said
            case Received(agent=agent, message=message) if agent == _ROOT:
                self._hear_read(message)
            case _:
                pass

    def _hear_read(self, message: Message) -> None:
        numbers = [number for each, number in self._waiting if each is message]
        if not numbers:
            return
        self._waiting = [item for item in self._waiting if item[0] is not message]
        if (said := self._said) is not None:
            parts = tuple(part for part in said.parts if isinstance(part, Text))
            self.settle(Result(said.content, parts, said.stop or "end", model=said.model))
        self._said = None
        self._read += numbers

    def settle(self, result: Result) -> None:
        """Record the result of the messages that were read so far."""
        self._found |= dict.fromkeys(self._read, result)
        self._read = []

    def restate(self, result: Result, now: Result) -> Result:
        """Return a result in place of another one with less information."""
        self._found = {number: now if found is result else found for number, found in self._found.items()}
        return now

    def changes(self, before: SessionRecord, message_numbers: set[int], result: Result) -> dict[str, object]:
        """Return the new members of a record: `result` is the last one, for all messages without another. A limited
        number is kept."""
        answered = tuple(sorted(message_numbers))[-_MAX_KEPT_MESSAGES:]
        earlier = {} if before.result is None else dict.fromkeys(before.answered, before.result)
        others = {number: found for number, found in self._found.items() if found is not result}
        known = {**earlier, **before.answers, **others}
        kept = {number: _short(known[number], before.id) for number in answered if number in known}
        return {"result": result, "answered": answered, "answers": kept}


def _short(result: Result, session: str) -> Result:
    found = replace(result, session_id=session)
    if len(encode(found)) <= _MAX_KEPT_BYTES:
        return found
    return Result("", (), "error", Failure("too_large", _TOO_LARGE.replace("SESSION", session)), session_id=session)
