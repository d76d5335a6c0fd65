"""Decides what a full context gives up and what replaces it: stubs, which cost nothing, for old results and
attachments, and a summary for all before the last turns. `engine/compaction.py` carries it out."""

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sagent.context.prompt import CUT, PLACE, SHOWN
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str, canonical_bytes, json_dump
from sagent.lib.regular import read_regular
from sagent.lib.text import head_and_tail, one_line
from sagent.messages import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sagent.model import ToolSpec
from sagent.tool import Blobs, Workspace

HEADINGS = ("Goal", "Decisions", "Done", "Open", "Files", "Commands", "Failed")
_MIN_HEADINGS = 4  # of these; an answer with fewer is not a summary
_MIN_SUMMARY_CHARS = 80
_MAX_LINES = 40  # of each kind in a summary made by code
_CHANGES = ("Write", "Edit")
_ADDED = "mcp"  # reports changes of servers' tools since the last report
_HOLDING = ("plan mode", "sandbox", PLACE, _ADDED)  # senders of lasting messages: the last of each counts
_JOB = re.compile(r" in the background as (job:\d+)\.")
_ENDED = re.compile(r" (?:has (ended|failed)|was (cancelled)) after [\d.]+ s\.")
_MAX_FILES, _MAX_FILE_BYTES = 3, 8_000  # edited files to show again, and bytes of each
_LATEST = 0.8  # of a window, for everything else together with the messages since the last request
_RECENT, _SHARE = 0.15, 0.3  # of it, and of the conversation: last turns, which stay whole
_REQUESTS, _BRIEF = 0.4, 0.05  # of it: earlier requests, which stay verbatim; the second is the least
_SUMMARY = 0.15  # of it: each of a summary made by code, and the files shown after it
_BEFORE = 0.5  # of a summary made by code: the most that an earlier summary may take
HEAD = CUT + "the first request, the latest ones and advice stay word for word.{where} A summary of the rest:)"
KEPT = " All of it is in {path}: Read it there, or search it with Grep, where the summary does not say enough."
RECENT_ROUNDS = 3  # latest rounds of results, which go only if taking all older ones is not enough
MIN_BYTES = 1_000  # taking less out of a context is not worth the stub
STUB_BYTES = 300  # about
EXCERPT_CHARS = 4_000  # to keep of text that the model has not read yet
LONG_REQUEST_BYTES, CUT_REQUEST_CHARS = 4_000, 2_000  # a request longer than the first may be cut to the second
ADVISOR = "advisor"
"""Name of the tool whose results are advice, and the first part of the sender of an advice message."""
_MARK = "[This result was taken out of the context"
BYTES_PER_TOKEN = 3  # of a request, about
STUBBED_SHARE = 0.6  # of the allowed size, which stubs have to reach
_STUBBED_TOLERANCE = 1.1  # of that: accepted without paying for a summary
_MIN_FREED_SHARE = 0.15  # of a context: a summary that would free less is not bought
MAX_SUMMARY_TOKENS, MIN_SUMMARY_TOKENS = 8_192, 1_024  # with less than the minimum no summary is requested
_MAX_LINE_CHARS = 1_900  # Read shows only the beginning of a longer line


def part_bytes(part: Part) -> int:
    """Estimate the bytes of a part: media count as 5,000."""
    match part:
        case Text(text) | Thinking(text) | Opaque(text):
            return len(text.encode("utf-8", "replace"))
        case ToolCall(_, name, arguments):
            return len(name) + len(canonical_bytes(arguments))
        case ToolResult(_, content):
            return sum(map(part_bytes, content))
        case Image() | Document():
            return 5_000


def size_of(message: Message) -> int:
    """Estimate the bytes of a message: media count as 5,000."""
    calls = sum(len(call.name) + len(str(call.arguments)) for call in message.calls)
    return calls + sum(
        part_bytes(part) for part in message.parts if isinstance(part, Text | ToolResult | Image | Document)
    )


def break_down(system: str, specs: Sequence[ToolSpec], history: Sequence[Message], tokens: int) -> Mapping[str, int]:
    """Estimate tokens by kind: `tokens` in all, shared out by bytes."""
    sizes = {"system prompt": len(system.encode("utf-8", "replace"))}
    sizes["tools"] = sum(
        len(spec.description) + len(canonical_bytes(spec.parameters)) for spec in specs if not spec.deferred
    )
    names: dict[str, str] = {}
    for message in history:
        for part in message.parts:
            if isinstance(part, ToolCall):
                names[part.id] = part.name
            kind = _kind(part, message.role, names)
            sizes[kind] = sizes.get(kind, 0) + part_bytes(part)
    total = max(1, sum(sizes.values()))
    return {kind: tokens * size // total for kind, size in sorted(sizes.items(), key=lambda item: -item[1]) if size}


def _kind(part: Part, role: str, names: Mapping[str, str]) -> str:
    match part:
        case ToolResult(call_id):
            return f"results of {names.get(call_id, 'unknown tools')}"
        case ToolCall():
            return "calls"
        case Thinking():
            return "thinking"
        case _:
            return "requests and messages" if role == "user" else "replies"


class RemovableParts:
    """The parts of a conversation that can be removed, decided before anything is.

    `tokens` is the likely size of the next request, `max_input` its largest possible size, and `usable` the model's
    room, None if unknown. Requests come from a person or the agent `above`. `cut` is where to cut so that the last
    turns stay; None if nothing can be left out.
    """

    def __init__(self, history: Sequence[Message], above: str, tokens: int, max_input: int, usable: int | None) -> None:
        self._history, self._tokens, self._max_input = history, tokens, max_input
        self._room = part_budgets(history, (usable or tokens) * BYTES_PER_TOKEN, above)
        self.cut = find_cut(history, self._room.recent, above, self._room.words)

    @property
    def gone(self) -> Sequence[Message]:
        """The messages that a summary replaces."""
        return () if self.cut is None else self.cut.gone(self._history)

    @property
    def can_give_way(self) -> bool:
        """True if anything can be removed."""
        return self.cut is not None or can_shrink(self._history)

    def needs_summary(self, target: int) -> bool:
        """Return True if stubs alone leave far more than `tokens`, and a summary would free enough for its cost."""
        if self._tokens - self._share(freed_bytes(self._history, self._room.words)) <= target * _STUBBED_TOLERANCE:
            return False
        freed = sum(map(size_of, self.gone)) - min(self._room.summary, MAX_SUMMARY_TOKENS * BYTES_PER_TOKEN) // 2
        return self._share(freed) >= _MIN_FREED_SHARE * self._tokens

    def stubs(self, before: int, target: int, blobs: Blobs) -> "Sequence[Stub]":
        """Return the stubs that shrink the conversation from `tokens` to the target, all at once so that the prefix
        changes only once. Raises OSError."""
        need = self._max_input * (before - target) // max(before, 1)
        return shrink(self._history, need, blobs, self._room.words, all_of_it=self.cut is None)

    def summed_up(self, summary: str | None, location: str, cwd: Path) -> "Change":
        """Return the conversation after the cut with a summary, by default one made by code. The removed part is kept
        at the path `location`, "" if only in the log."""
        assert self.cut is not None
        room, gone = self._room.summary, self.gone
        text = summary or sum_up(gone, room, f"the full text is in {location or 'the log'}")
        notes = (*notes_of(self._history, gone), *edited_files(self._history, cwd, room))
        return Change((), self.cut.kept(self._history), (len(self.cut.stay), compose(text, location, 2 * room)), notes)

    def _share(self, size: int) -> int:
        """Estimate the tokens of a part of the history by its bytes."""
        return self._tokens * size // max(1, self._max_input)


class Change(NamedTuple):
    """A change of a conversation: see sagent.session.contents.Compacted."""

    stubs: "Sequence[Stub]" = ()
    kept: tuple[int, ...] | None = None
    summary: tuple[int, str] | None = None
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut of a conversation: everything before `place` is summarized, except the messages at `stay`."""

    place: int
    stay: tuple[int, ...]

    def kept(self, history: Sequence[Message]) -> tuple[int, ...]:
        return (*self.stay, *range(self.place, len(history)))

    def gone(self, history: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages that are summed up."""
        return tuple(message for place, message in enumerate(history[: self.place]) if place not in self.stay)


def find_cut(history: Sequence[Message], recent: int, above: str, words: int | None = None) -> Cut | None:
    """Find a cut that keeps the last turns, up to `recent` bytes, whole; None if nothing would be removed.

    These stay: requests (from a person or the agent `above`), each advisor's last advice, and messages that apply to
    the session. If requests exceed `words` bytes, the first, the last, and as many of the latest as fit stay. Results
    stay with their calls.
    """
    place, left = len(history), recent
    for at in range(len(history) - 1, 0, -1):
        left -= size_of(history[at])
        if left < 0 and place < len(history):
            break
        if not history[at].results:
            place = at
            if left < 0:
                break
    while 0 < place < len(history) - 1 and _is_request(history[place], above):
        place += 1  # the request stays anyway; a cut just before an answer reads better
    if place >= len(history):  # one single open turn: its last round stays
        calls = [at for at, message in enumerate(history) if message.calls]
        place = calls[-1] if calls else len(history)
    stay = _staying(history, place, above, words)
    return Cut(place, stay) if place - len(stay) > 1 else None


def _staying(history: Sequence[Message], place: int, above: str, words: int | None) -> tuple[int, ...]:
    """Return the messages before a place that stay verbatim."""
    requests = [at for at in range(place) if _is_request(history[at], above)]
    senders = ((at, history[at].sender) for at in range(place))
    kept = ((at, sender) for at, sender in senders if sender in _HOLDING or sender.startswith(ADVISOR))
    stay = {(sender, at * (sender == _ADDED)): at for at, sender in kept}.values()
    left = sys.maxsize if words is None else words - sum(size_of(history[at]) for at in requests[:1])
    latest = list[int]()
    for at in reversed(requests[1:]):
        size = size_of(history[at]) if latest else 0  # the last always has room
        if size <= left or not latest:
            left -= size
            latest.append(at)
    return tuple(sorted((*requests[:1], *latest, *stay)))


class PartBudgets(NamedTuple):
    """Bytes for the parts of a smaller context: the last turns, earlier requests, and a summary made by code."""

    recent: int
    words: int
    summary: int


def part_budgets(history: Sequence[Message], window: int, above: str) -> PartBudgets:
    """Return the budgets within a total, which excludes the messages since the last request: they stay."""
    last = max((at for at, message in enumerate(history) if _is_request(message, above)), default=len(history))
    left = max(0, int(window * _LATEST) - sum(map(size_of, history[last:])))
    recent = min(int(sum(map(size_of, history)) * _SHARE), int(window * _RECENT), left // 4)
    words = max(int(window * _BRIEF), min(int(window * _REQUESTS), left // 2))
    return PartBudgets(recent, words, max(1_000, min(int(window * _SUMMARY), left // 4)))


def instruction(hints: str) -> str:
    """Return the request for a summary; `hints` say what is important."""
    wanted = f"\n\nThe person says what matters: {hints.strip()}" if hints.strip() else ""
    return Path(__file__).with_name("summary.md").read_text("utf-8").strip().format(hints=wanted)


def is_summary(text: str) -> bool:
    """Return True if an answer is a summary: it has most headings, and text under them."""
    found = {heading for heading in HEADINGS if re.search(rf"^[^\w\n]*{heading}\b", text, re.MULTILINE | re.IGNORECASE)}
    return len(text.strip()) >= _MIN_SUMMARY_CHARS and len(found) >= _MIN_HEADINGS


def sum_up(history: Sequence[Message], max_chars: int = 30_000, location: str = "") -> str:
    """Return a summary made by code, without judgement or invention. It includes an earlier summary. A text longer than
    `max_chars` characters keeps its beginning and end, with `location` to find the rest."""
    calls = {call.id: call for message in history for call in message.calls}
    results = {result.call_id: result for message in history for result in message.results}
    failed = {call: result for call, result in results.items() if result.is_error}
    news = {message.sender: message.content for message in history if message.sender.startswith("job:")}
    reads: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    commands: list[str] = []
    for call in calls.values():
        path, command = as_str(call.arguments.get("file_path")), as_str(call.arguments.get("command"))
        if command and call.whole:
            commands.append(f"- {one_line(command, 200)}: {_outcome(results.get(call.id), news)}")
        elif path and call.name in _CHANGES and call.id not in failed:
            changes[path] += 1
        elif path and call.id not in failed:
            reads[path] += 1
    errors = [f"- {calls[call].name}: {one_line(result.text, 200)}" for call, result in failed.items() if call in calls]
    said = [message.content for message in history if message.role == "assistant" and message.content.strip()]
    asked = [one_line(message.content, 200) for message in history if _is_request(message, "")][-_MAX_LINES:]
    sections = {
        "Goal": "\n- ".join(("as the requests above say" + "; these were asked too:" * bool(asked), *asked)),
        "Done": "\n\n".join(text if len(text) <= 1_500 else f"{text[:1_000]} … {text[-480:]}" for text in said[-3:]),
        "Files": "\n".join(
            [f"- changed {path} ({count} times)" for path, count in changes.most_common(_MAX_LINES)]
            + [f"- read {path}" for path, _ in reads.most_common(_MAX_LINES) if path not in changes]
        ),
        "Commands": "\n".join(commands[-_MAX_LINES:]),
        "Failed": "\n".join(errors[-_MAX_LINES:]),
    }
    text = "\n".join(f"## {name}\n{text or 'none'}" for name, text in sections.items())
    own = (message.content for message in history if message.sender == "sagent")
    summaries = (text.partition("\n\n")[2] for text in own if text.startswith(CUT))
    if earlier := "\n\n".join(summaries).strip():
        earlier = head_and_tail(earlier, int(max_chars * _BEFORE), location)
        text = f"{earlier}\n\nWhat came after that:\n{text}"
    return head_and_tail(text, max_chars, location)


def _outcome(result: ToolResult | None, news: Mapping[str, str]) -> str:
    """Name the end of a command, in the background by what its job's message says."""
    if result is None or result.is_error:
        return "failed"
    if (job := _JOB.search(result.text[:200])) is None:
        return "done"
    ended = _ENDED.search(news.get(job[1], ""))
    return f"goes on as {job[1]}" if ended is None else "done" if ended[1] == "ended" else ended[1] or ended[2]


def edited_files(history: Sequence[Message], cwd: Path, max_bytes: int = _MAX_FILE_BYTES) -> list[tuple[str, str]]:
    """Return the latest edited text files, unless they are long, as messages with sender and text."""
    from sagent.lib.encoding import text_in

    found: list[tuple[str, str]] = []
    for path in edited(history, _MAX_FILES):
        with suppress(OSError, ValueError):
            text = text_in(read_regular(Path(cwd, path), max_bytes=min(max_bytes, _MAX_FILE_BYTES)))
            if text is None:
                continue
            found.append((f"{SHOWN}{path}", f"{path}, as it is now:\n{text}"))
            max_bytes -= len(text)
    return found


def edited(history: Sequence[Message], limit: int) -> tuple[str, ...]:
    """Return the files changed last, latest first, including those that an earlier compaction has shown."""
    failed = {result.call_id for message in history for result in message.results if result.is_error}
    paths: dict[str, None] = {}
    for message in reversed(history):
        calls = (call for call in reversed(message.whole_calls) if call.name in _CHANGES and call.id not in failed)
        paths |= dict.fromkeys(filter(None, (as_str(call.arguments.get("file_path")) for call in calls)))
        if message.sender.startswith(SHOWN):
            paths[message.sender.removeprefix(SHOWN)] = None
    return tuple(paths)[:limit]


def notes_of(history: Sequence[Message], gone: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """Return removed notes that stay verbatim, as messages with sender and text: advice, plan, and to-do list."""
    from sagent.context import plan, todo

    return (*advice_in(gone), *plan.plan_note(history, gone), *todo.list_note(history, gone))


def advice_in(history: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """Return the last thing that each advisor answered a call with, as messages with sender and text."""
    asked = {
        call.id: as_str(call.arguments.get("name")) for each in history for call in each.calls if call.name == ADVISOR
    }
    found: dict[str, str] = {}
    for result in (result for message in history for result in message.results):
        if result.call_id in asked and not result.is_error:
            found[":".join(filter(None, (ADVISOR, asked[result.call_id])))] = result.text
    return tuple(found.items())


def compose(summary: str, location: str = "", max_chars: int = sys.maxsize) -> str:
    """Return the message that replaces the cut part, which is kept at the path `location`; a summary over `max_chars`
    characters keeps beginning and end."""
    summary = head_and_tail(summary.strip(), max_chars, "it was too long")
    return f"{HEAD.format(where=KEPT.format(path=location) if location else '')}\n\n{summary}"


def _is_request(message: Message, above: str) -> bool:
    return message.role == "user" and not message.results and message.sender in ("", above)


def forget_files(history: Sequence[Message], workspace: Workspace) -> None:
    """Mark the files of a cleared conversation as unread, except those shown in the messages that are left."""
    shown = {message.sender.removeprefix(SHOWN) for message in history if message.sender.startswith(SHOWN)}
    kept = {workspace.resolve(path).resolve() for path in shown}
    for path in [path for path in workspace.known_files if path not in kept]:
        del workspace.known_files[path]


def last_request(history: Sequence[Message], above: str) -> tuple[int, ...]:
    """Return the places that stay when a conversation is cleared: an unanswered last request of a person or the agent
    above with the messages that sagent added to it, and open calls."""
    last = history[-1] if history else None
    if last is None or (last.role == "assistant" and not last.calls and last.stop != "interrupted"):
        return ()
    asked = [place for place, message in enumerate(history) if message.role == "user" and not message.results]
    own = [place for place in asked if history[place].sender in ("", above)] or asked[-1:]
    later = [place for place in asked if own and place > own[-1]]
    added = [place for place in later if f"{history[place].sender}:".startswith(SHOWN)]  # its own words, and files
    return (*own[-1:], *added, *([len(history) - 1] if last.calls else []))


class Stub(NamedTuple):
    """A stub that replaces the result of call `call`, in message number `message` of the history. Without a call it
    replaces all text of the message."""

    message: int
    call: str
    text: str


class _Found(NamedTuple):
    """A result, a message with attachments, or a long message."""

    message: int
    item: ToolResult | Message
    size: int

    @property
    def call(self) -> str:
        return self.item.call_id if isinstance(self.item, ToolResult) else ""


class _Tiers(NamedTuple):
    """The parts worth a stub, in order of removal: those of earlier rounds and requests, of the last ones, of the
    unread round, and attachments of the unread request."""

    old: list[_Found]
    recent: list[_Found]
    unread: list[_Found]
    asked: list[_Found]


def can_shrink(history: Sequence[Message]) -> bool:
    """Return True if a stub may replace any part."""
    return any(map(any, _tiers(history)))


def freed_bytes(history: Sequence[Message], words: int) -> int:
    """Estimate the bytes that stubs can free, apart from unread parts. `words` as in `shrink`."""
    tiers = _tiers(history)
    found = {(each.message, each.call): each.size for each in (*tiers.old, *tiers.recent)}
    found |= {(each.message, ""): each.size - CUT_REQUEST_CHARS for each in _overlong(history, words)}
    return sum(max(0, size - STUB_BYTES) for size in found.values())


def shrink(
    history: Sequence[Message], need: int, blobs: Blobs, words: int | None = None, *, all_of_it: bool = True
) -> tuple[Stub, ...]:
    """Return the stubs that make a history at least `need` bytes smaller, or as much smaller as possible.

    Always replaced are older readings of a file that was read again, and the middle of the longest earlier requests
    while these have more than `words` bytes together. Then the largest results and attachments go first, older ones
    before newer of the same size. Those of the last rounds stay unless all older ones are not enough. Unread parts keep
    beginning and end, and attachments of the unread request go only with `all_of_it`. A blob named in the stub keeps
    the whole. Raises OSError if it cannot be written.
    """
    again, tiers = _repeated(history), _tiers(history)
    stubs = list[Stub]()
    cut = set[int]()
    for found in [] if words is None else _overlong(history, words):
        stubs.append(Stub(found.message, "", _stub(found.item, blobs, cut=CUT_REQUEST_CHARS)))
        need -= found.size - len(stubs[-1].text.encode("utf-8", "replace"))
        cut.add(found.message)
    for age, tier in enumerate(tiers if all_of_it else tiers[:-1]):
        for found in sorted(tier, key=lambda found: (found.call not in again, -found.size, found.message)):
            if need <= 0 and not (age == 0 and found.call in again):
                break
            if not found.call and found.message in cut:
                continue
            text = _stub(found.item, blobs, EXCERPT_CHARS if age >= 2 else 0)
            stubs.append(Stub(found.message, found.call, text))
            need -= found.size - len(text.encode("utf-8", "replace"))
    return tuple(stubs)


def drop(history: Sequence[Message], tools: Collection[str], blobs: Blobs) -> tuple[Stub, ...]:
    """Return the stubs for every result of some tools ("*": of all) that the model has read. Raises OSError."""
    tiers = _tiers(history)
    names = {call.id: call.name for message in history for call in message.calls}
    chosen = (found for found in (*tiers.old, *tiers.recent) if "*" in tools or names.get(found.call) in tools)
    return tuple(Stub(each.message, each.call, _stub(each.item, blobs)) for each in chosen if each.call)


def _repeated(history: Sequence[Message]) -> set[str]:
    """Return calls about a file that were repeated later verbatim: only the last shows the file's present state."""
    calls = [call for message in history for call in message.calls if "file_path" in call.arguments]
    last = {(call.name, call.arguments): call.id for call in calls}
    answered = {result.call_id for message in history for result in message.results if not result.is_error}
    return {call.id for call in calls if (again := last[call.name, call.arguments]) != call.id and again in answered}


def _tiers(history: Sequence[Message]) -> _Tiers:
    rounds = [place for place, message in enumerate(history) if message.results]
    answered = bool(rounds) and any(message.role == "assistant" for message in history[rounds[-1] :])
    unread = rounds[-1:] if not answered else []
    recent = [place for place in rounds[-RECENT_ROUNDS:] if place not in unread]
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
    """Return the places of messages from anyone to the agent, without those that sagent added."""
    return [
        place
        for place, message in enumerate(history)
        if message.role == "user" and not message.results and not message.sender.startswith(("sagent", ADVISOR))
    ]


def _results(history: Sequence[Message], places: Sequence[int]) -> list[_Found]:
    """Return the large results in some messages. Advice is left out: it applies until the task is done."""
    advice = {call.id for message in history for call in message.calls if call.name == ADVISOR}
    return [
        _Found(place, result, size)
        for place in places
        for result in history[place].results
        if result.call_id
        and not result.text.startswith(_MARK)
        and result.call_id not in advice
        and (size := part_bytes(result)) >= MIN_BYTES
    ]


def _attached(history: Sequence[Message], places: Sequence[int]) -> list[_Found]:
    """Return messages with large attachments, meaning all parts after their text."""
    return [
        _Found(place, message, size)
        for place in places
        if (message := history[place]) and (size := sum(map(part_bytes, message.parts[_words(message) :]))) >= MIN_BYTES
    ]


def _words(message: Message) -> int:
    """Count the parts of a message that are its own text; the rest are attachments."""
    return int(bool(message.parts) and isinstance(message.parts[0], Text))


def _overlong(history: Sequence[Message], max_bytes: int) -> list[_Found]:
    """Return the longest earlier requests, as many as must be cut so that the text of all has `max_bytes` bytes."""
    sizes = {place: sum(map(part_bytes, history[place].parts[:1])) for place in _requests(history)[:-1]}
    left, found = sum(sizes.values()) - max_bytes, list[_Found]()
    for place, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if left <= 0 or size <= LONG_REQUEST_BYTES:
            break
        left -= size - CUT_REQUEST_CHARS
        found.append(_Found(place, history[place], sum(map(part_bytes, history[place].parts))))
    return found


def _stub(item: ToolResult | Message, blobs: Blobs, excerpt: int = 0, cut: int = 0) -> str:
    """Return the stub of a result or of a message's attachments; the message's own text is cut to `cut` characters."""
    first = 0 if isinstance(item, ToolResult) else _words(item)
    parts = item.content if isinstance(item, ToolResult) else item.parts
    text = "".join(part.text for part in parts[first:] if isinstance(part, Text))
    kept = [text.encode("utf-8", "replace")] if text else []
    kept += [part.data for part in parts if isinstance(part, Image | Document)]
    where = " and ".join(str(blobs.put(data)) for data in kept)
    if isinstance(item, ToolResult):
        words, stub = "", f"{_MARK}, which was full. It is kept in {where}; read that if it is needed again.]"
    else:
        words = item.content.removesuffix(text)
        stub = f"[What came with this was taken out of the context. It is kept in {where}; read that if it is needed.]"
    if excerpt and len(text) > 2 * excerpt:
        stub = head_and_tail(text, excerpt, f"the context is full; the full text is in {where}")
    if cut and len(words) > cut:
        words = head_and_tail(words, cut, f"all of this message is in {blobs.put(words.encode('utf-8', 'replace'))}")
    return "\n\n".join(filter(None, (words, stub if kept else "")))


def keep_transcript(messages: Sequence[Message], blobs: Blobs) -> str:
    """Store messages as one text; return its path. Raises OSError."""
    lines = (
        piece
        for number, message in enumerate(messages, 1)
        for part in message.parts
        for line in f"[{number}] {_show(message, part, blobs)}".split("\n")
        for piece in _fold(line)
    )
    return str(blobs.put("\n".join(lines).encode("utf-8", "replace")))


def _show(message: Message, part: Part, blobs: Blobs) -> str:
    match part:
        case Text(text) | Opaque(text):
            return f"{message.sender or ('model' if message.role == 'assistant' else 'person')}: {text}"
        case Thinking(text):
            return f"model, thinking: {text}"
        case ToolCall(call_id, name, arguments, malformed):
            items = arguments.items()
            said = (f"{key}: {value if isinstance(value, str) else json_dump(value)}" for key, value in items)
            return "\n".join((f"call {call_id} of {name}", *said, *([malformed] if malformed else [])))
        case ToolResult(call_id, content, is_error):
            shown = "\n".join(_show(message, each, blobs) for each in content if not isinstance(each, Text))
            return f"{'error' if is_error else 'result'} of {call_id}: {part.text}{shown}"
        case Image(media_type, data) | Document(media_type, data):
            return f"({media_type}, {len(data)} bytes, kept in {blobs.put(data)})"


def _fold(line: str) -> Iterator[str]:
    """Yield a line in pieces that can be read."""
    for start in range(0, max(1, len(line)), _MAX_LINE_CHARS):
        yield line[start : start + _MAX_LINE_CHARS]
