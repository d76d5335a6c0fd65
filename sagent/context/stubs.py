"""Room in a full context, for free: old tool results, and what was attached to earlier requests, give way to stubs that
say where the whole is kept."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sagent.context.breakdown import part_bytes
from sagent.lib.text import head_and_tail
from sagent.messages import Document, Image, Message, Text, ToolResult
from sagent.tool import Blobs

RECENT = 3  # rounds of results that go only when taking all older ones is not enough
SMALLEST = 1_000  # bytes: taking less out of a context is not worth the stub
STUB = 300  # bytes of one, about
EXCERPT = 4_000  # characters kept of what the model has not read yet
LONG, WORDS = 4_000, 2_000  # bytes of a request that is long, and characters that are left where it must give way
ADVISOR = "advisor"
"""The tool whose results are advice, and the beginning of the sender of advice that is a message."""
_MARK = "[This result was taken out of the context"


class Stub(NamedTuple):
    """What takes the place of a result: of the call `call`, answered in message number `message` of the history.
    Without a call it takes the place of all that the message says."""

    message: int
    call: str
    text: str


class _Found(NamedTuple):
    """A result, or a message with attachments, or one that is too long."""

    message: int
    given: ToolResult | Message
    size: int

    @property
    def call(self) -> str:
        return self.given.call_id if isinstance(self.given, ToolResult) else ""


class _Tiers(NamedTuple):
    """What is worth a stub, in the order in which it goes: of earlier rounds and requests, of the last ones, of the
    round that is not read yet, and what came with the request that is not."""

    old: list[_Found]
    recent: list[_Found]
    unread: list[_Found]
    asked: list[_Found]


def can_shrink(history: Sequence[Message]) -> bool:
    """Whether there is something that a stub may take the place of."""
    return any(map(any, _tiers(history)))


def gain(history: Sequence[Message], words: int) -> int:
    """How many bytes stubs can free, about, without those of what is not read yet. `words` as in `shrink`."""
    tiers = _tiers(history)
    found = {(each.message, each.call): each.size for each in (*tiers.old, *tiers.recent)}
    found |= {(each.message, ""): each.size - WORDS for each in _overlong(history, words)}
    return sum(max(0, size - STUB) for size in found.values())


def shrink(
    history: Sequence[Message], need: int, blobs: Blobs, words: int | None = None, *, all_of_it: bool = True
) -> tuple[Stub, ...]:
    """The stubs that make a history at least `need` bytes smaller, or as much smaller as can be.

    Old readings of a file that was read again since go in any case; and the middle of the longest earlier requests, as
    far as these have more than `words` bytes together. Then the largest results and attachments go first, among those
    of one size the oldest. Those of the last rounds stay unless all older ones do not suffice; of what the model has
    not read yet beginning and end stay, and what came with the request goes only with `all_of_it`. The whole of each is
    kept as a blob that the stub names. Raises OSError when it cannot be.
    """
    again, tiers = _repeated(history), _tiers(history)
    stubs = list[Stub]()
    cut = set[int]()
    for found in [] if words is None else _overlong(history, words):
        stubs.append(Stub(found.message, "", _stub(found.given, blobs, cut=WORDS)))
        need -= found.size - len(stubs[-1].text.encode("utf-8", "replace"))
        cut.add(found.message)
    for age, tier in enumerate(tiers if all_of_it else tiers[:-1]):
        for found in sorted(tier, key=lambda found: (found.call not in again, -found.size, found.message)):
            if need <= 0 and not (age == 0 and found.call in again):
                break
            if not found.call and found.message in cut:
                continue
            text = _stub(found.given, blobs, EXCERPT if age >= 2 else 0)
            stubs.append(Stub(found.message, found.call, text))
            need -= found.size - len(text.encode("utf-8", "replace"))
    return tuple(stubs)


def drop(history: Sequence[Message], tools: Collection[str], blobs: Blobs) -> tuple[Stub, ...]:
    """The stubs for every result of some tools ("*": of all) that the model has read. Raises OSError."""
    tiers = _tiers(history)
    names = {call.id: call.name for message in history for call in message.calls}
    chosen = (found for found in (*tiers.old, *tiers.recent) if "*" in tools or names.get(found.call) in tools)
    return tuple(Stub(each.message, each.call, _stub(each.given, blobs)) for each in chosen if each.call)


def _repeated(history: Sequence[Message]) -> set[str]:
    """The calls about a file that were made again later, word for word: only the last shows how the file is."""
    calls = [call for message in history for call in message.calls if "file_path" in call.arguments]
    last = {(call.name, call.arguments): call.id for call in calls}
    answered = {result.call_id for message in history for result in message.results if not result.is_error}
    return {call.id for call in calls if (again := last[call.name, call.arguments]) != call.id and again in answered}


def _tiers(history: Sequence[Message]) -> _Tiers:
    rounds = [place for place, message in enumerate(history) if message.results]
    answered = bool(rounds) and any(message.role == "assistant" for message in history[rounds[-1] :])
    unread = rounds[-1:] if not answered else []
    recent = [place for place in rounds[-RECENT:] if place not in unread]
    old = [place for place in rounds if place not in recent and place not in unread]
    requests = _requests(history)
    heard = max((place for place, message in enumerate(history) if message.role == "assistant"), default=-1)
    asked = [place for place in requests if place > heard]
    last = requests[-1:] if not asked else []
    earlier = [place for place in requests if place not in (*asked, *last)]
    return _Tiers(
        _results(history, old) + _attached(history, earlier),
        _results(history, recent) + _attached(history, last),
        _results(history, unread),
        _attached(history, asked),
    )


def _requests(history: Sequence[Message]) -> list[int]:
    """What was said to the agent, by whoever: not what sagent itself has put there."""
    return [
        place
        for place, message in enumerate(history)
        if message.role == "user" and not message.results and not message.sender.startswith(("sagent", ADVISOR))
    ]


def _results(history: Sequence[Message], places: Sequence[int]) -> list[_Found]:
    """Those of some messages that are large enough; advice stays, for it holds until the task is done."""
    advice = {call.id for message in history for call in message.calls if call.name == ADVISOR}
    return [
        _Found(place, result, size)
        for place in places
        for result in history[place].results
        if result.call_id
        and not result.text.startswith(_MARK)
        and result.call_id not in advice
        and (size := part_bytes(result)) >= SMALLEST
    ]


def _attached(history: Sequence[Message], places: Sequence[int]) -> list[_Found]:
    """The messages of some that came with large attachments: all that follows their words."""
    return [
        _Found(place, message, size)
        for place in places
        if (message := history[place]) and (size := sum(map(part_bytes, message.parts[_words(message) :]))) >= SMALLEST
    ]


def _words(message: Message) -> int:
    """How many parts of a message are its words: what follows was attached."""
    return int(bool(message.parts) and isinstance(message.parts[0], Text))


def _overlong(history: Sequence[Message], most: int) -> list[_Found]:
    """The longest of the earlier requests, as many as must give way so that the words of all have `most` bytes."""
    sizes = {place: sum(map(part_bytes, history[place].parts[:1])) for place in _requests(history)[:-1]}
    left, found = sum(sizes.values()) - most, list[_Found]()
    for place, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if left <= 0 or size <= LONG:
            break
        left -= size - WORDS
        found.append(_Found(place, history[place], sum(map(part_bytes, history[place].parts))))
    return found


def _stub(given: ToolResult | Message, blobs: Blobs, excerpt: int = 0, cut: int = 0) -> str:
    """What takes the place of a result, or of what was attached to a message; its words are cut to `cut` characters."""
    first = 0 if isinstance(given, ToolResult) else _words(given)
    parts = given.content if isinstance(given, ToolResult) else given.parts
    text = "".join(part.text for part in parts[first:] if isinstance(part, Text))
    kept = [text.encode("utf-8", "replace")] if text else []
    kept += [part.data for part in parts if isinstance(part, Image | Document)]
    where = " and ".join(str(blobs.put(data)) for data in kept)
    if isinstance(given, ToolResult):
        words, stub = "", f"{_MARK}, which was full. It is kept in {where}; read that if it is needed again.]"
    else:
        words = given.content.removesuffix(text)
        stub = f"[What came with this was taken out of the context. It is kept in {where}; read that if it is needed.]"
    if excerpt and len(text) > 2 * excerpt:
        stub = head_and_tail(text, excerpt, f"the context is full; the full text is in {where}")
    if cut and len(words) > cut:
        words = head_and_tail(words, cut, f"all of this message is in {blobs.put(words.encode('utf-8', 'replace'))}")
    return "\n\n".join(filter(None, (words, stub if kept else "")))
