"""Room in a full context, for free: old tool results give way to stubs that say where the whole is kept."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sagent.context.breakdown import part_bytes
from sagent.context.truncation import head_and_tail
from sagent.messages import Document, Image, Message, ToolResult
from sagent.tool import Blobs

RECENT = 3  # rounds of results that go only when taking all older ones is not enough
SMALLEST = 1_000  # bytes: taking less out of a context is not worth the stub
EXCERPT = 4_000  # characters kept of a result that the model has not read yet
ADVISOR = "advisor"
"""The tool whose results are advice."""
_MARK = "[This result was taken out of the context"


class Stub(NamedTuple):
    """What takes the place of a result: of the call `call`, answered in message number `message` of the history."""

    message: int
    call: str
    text: str


class _Found(NamedTuple):
    message: int
    result: ToolResult
    size: int


def can_shrink(history: Sequence[Message]) -> bool:
    """Whether there is a result that a stub may take the place of."""
    return any(any(tier) for tier in _tiers(history))


def shrink(history: Sequence[Message], need: int, blobs: Blobs) -> tuple[Stub, ...]:
    """The stubs that make a history at least `need` bytes smaller, or as much smaller as can be.

    Old readings of a file that was read again since go in any case. Then the largest results go first, among those of
    one size the oldest. Those of the last rounds stay unless all older ones do not suffice; of the very last round,
    which the model has not read yet, beginning and end stay. The whole of each is kept as a blob that the stub names.
    Raises OSError when it cannot be.
    """
    stubs: list[Stub] = []
    again = _repeated(history)
    for age, tier in zip(("old", "recent", "unread"), _tiers(history), strict=True):
        for found in sorted(tier, key=lambda found: (found.result.call_id not in again, -found.size, found.message)):
            if need <= 0 and not (age == "old" and found.result.call_id in again):
                break
            text = _stub(found.result, blobs, EXCERPT if age == "unread" else 0)
            stubs.append(Stub(found.message, found.result.call_id, text))
            need -= found.size - len(text.encode("utf-8", "replace"))
    return tuple(stubs)


def drop(history: Sequence[Message], tools: Collection[str], blobs: Blobs) -> tuple[Stub, ...]:
    """The stubs for every result of some tools ("*": of all) that the model has read. Raises OSError."""
    old, recent, _ = _tiers(history)
    names = {call.id: call.name for message in history for call in message.calls}
    chosen = (found for found in (*old, *recent) if "*" in tools or names.get(found.result.call_id) in tools)
    return tuple(Stub(found.message, found.result.call_id, _stub(found.result, blobs, 0)) for found in chosen)


def _repeated(history: Sequence[Message]) -> set[str]:
    """The calls about a file that were made again later, word for word: only the last shows how the file is."""
    calls = [call for message in history for call in message.calls if "file_path" in call.arguments]
    last = {(call.name, call.arguments): call.id for call in calls}
    answered = {result.call_id for message in history for result in message.results if not result.is_error}
    return {call.id for call in calls if (again := last[call.name, call.arguments]) != call.id and again in answered}


def _tiers(history: Sequence[Message]) -> tuple[list[_Found], list[_Found], list[_Found]]:
    """The results worth a stub: the old ones, those of the last rounds, those of the round that is not read yet."""
    rounds = [place for place, message in enumerate(history) if message.results]
    answered = bool(rounds) and any(message.role == "assistant" for message in history[rounds[-1] :])
    unread = rounds[-1:] if not answered else []
    recent = [place for place in rounds[-RECENT:] if place not in unread]
    old = [place for place in rounds if place not in recent and place not in unread]
    return _results(history, old), _results(history, recent), _results(history, unread)


def _results(history: Sequence[Message], places: Sequence[int]) -> list[_Found]:
    """Those of some messages that are large enough; advice stays, for it holds until the task is done."""
    advice = {call.id for message in history for call in message.calls if call.name == ADVISOR}
    return [
        _Found(place, result, size)
        for place in places
        for result in history[place].results
        if not result.text.startswith(_MARK)
        and result.call_id not in advice
        and (size := part_bytes(result)) >= SMALLEST
    ]


def _stub(result: ToolResult, blobs: Blobs, excerpt: int) -> str:
    kept = [result.text.encode("utf-8", "replace")] if result.text else []
    kept += [part.data for part in result.content if isinstance(part, Image | Document)]
    where = " and ".join(str(blobs.put(data)) for data in kept)
    if excerpt and len(result.text) > 2 * excerpt:
        return head_and_tail(result.text, excerpt, f"the context is full; the whole is in {where}")
    return f"{_MARK}, which was full. It is kept in {where}; read that if it is needed again.]"
