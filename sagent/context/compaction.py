"""A conversation cut short: what stays word for word, what is summed up, and how, by a model or by code."""

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sagent.context.breakdown import part_bytes
from sagent.context.prompt import SHOWN
from sagent.context.stubs import ADVISOR
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str
from sagent.lib.regular import read_regular
from sagent.lib.text import head_and_tail, one_line
from sagent.messages import Document, Image, Message, Text, ToolResult
from sagent.tool import Workspace

HEADINGS = ("Goal", "Decisions", "Done", "Open", "Files", "Commands", "Failed")
_NEEDED = 4  # of these, without which an answer is not a summary
_LEAST = 80  # characters
_LINES = 40  # of each kind in a summary made by code
_CHANGES = ("Write", "Edit")
_ADDED = "mcp"  # says what tools of servers have changed: each time, what is other than before
_HOLDING = ("plan mode", "sandbox", _ADDED)  # senders of what holds for the session: the last counts
_JOB = re.compile(r" in the background as (job:\d+)\.")
_ENDED = re.compile(r" (?:has (ended|failed)|was (cancelled)) after [\d.]+ s\.")
_FILES, _FILE_BYTES = 3, 8_000  # that are being edited and are shown again, and how much of each
_LATEST = 0.8  # of a window: what everything else may take, together with what was said since the last request
_RECENT, _SHARE = 0.15, 0.3  # of it, and of the conversation: the last turns, that stay whole
_REQUESTS, _BRIEF = 0.4, 0.05  # of it: what earlier requests, which stay word for word, may take; and in any case
_SUMMARY = 0.15  # of it: a summary made by code, and the files shown after it, each
_BEFORE = 0.5  # of a summary made by code: what an earlier summary has of it at most
_HEAD = "(From sagent: the conversation before this point was cut; "
HEAD = _HEAD + "the first request, the latest ones and advice stay word for word.{where} A summary of the rest:)"
KEPT = " All of it is in {path}: Read it there, or search it with Grep, where the summary does not say enough."


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a conversation is cut: what is before `place` is summed up, but for the messages at `stay`."""

    place: int
    stay: tuple[int, ...]

    def kept(self, history: Sequence[Message]) -> tuple[int, ...]:
        return (*self.stay, *range(self.place, len(history)))

    def gone(self, history: Sequence[Message]) -> tuple[Message, ...]:
        """What is summed up."""
        return tuple(message for place, message in enumerate(history[: self.place]) if place not in self.stay)


def find_cut(history: Sequence[Message], recent: int, above: str, words: int | None = None) -> Cut | None:
    """Where to cut so that the last turns, up to `recent` bytes, stay whole; None where nothing would go.

    Requests, which are what a person or the agent `above` said, stay, the last advice of each advisor, and what holds
    for the session; of requests with more than `words` bytes the first, the last, and the latest of those that fit.
    Results stay with the calls they answer.
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
        place += 1  # what was asked for stays anyway; a cut before an answer reads better, but not after all
    if place >= len(history):  # all of it is one turn still open: its last round stays
        calls = [at for at, message in enumerate(history) if message.calls]
        place = calls[-1] if calls else len(history)
    stay = _staying(history, place, above, words)
    return Cut(place, stay) if place - len(stay) > 1 else None


def _staying(history: Sequence[Message], place: int, above: str, words: int | None) -> tuple[int, ...]:
    """The messages before a place that stay word for word."""
    requests = [at for at in range(place) if _is_request(history[at], above)]
    senders = ((at, history[at].sender) for at in range(place))
    kept = ((at, sender) for at, sender in senders if sender in _HOLDING or sender.startswith(ADVISOR))
    stay = {(sender, at * (sender == _ADDED)): at for at, sender in kept}.values()
    left = sys.maxsize if words is None else words - sum(size_of(history[at]) for at in requests[:1])
    latest = list[int]()
    for at in reversed(requests[1:]):
        size = size_of(history[at]) if latest else 0  # for the last there is room, whatever else goes
        if size <= left or not latest:
            left -= size
            latest.append(at)
    return tuple(sorted((*requests[:1], *latest, *stay)))


class Room(NamedTuple):
    """Bytes that parts of a context may have when it is made smaller: the last turns, earlier requests, and a summary
    made by code."""

    recent: int
    words: int
    summary: int


def room_in(history: Sequence[Message], window: int, above: str) -> Room:
    """What there is room for in so many bytes, in addition to what was said since the last request, which stays."""
    last = max((at for at, message in enumerate(history) if _is_request(message, above)), default=len(history))
    left = max(0, int(window * _LATEST) - sum(map(size_of, history[last:])))
    recent = min(int(sum(map(size_of, history)) * _SHARE), int(window * _RECENT), left // 4)
    words = max(int(window * _BRIEF), min(int(window * _REQUESTS), left // 2))
    return Room(recent, words, max(1_000, min(int(window * _SUMMARY), left // 4)))


def size_of(message: Message) -> int:
    """Bytes of a message, about: media count as 5,000."""
    calls = sum(len(call.name) + len(str(call.arguments)) for call in message.calls)
    return calls + sum(
        part_bytes(part) for part in message.parts if isinstance(part, Text | ToolResult | Image | Document)
    )


def instruction(hints: str) -> str:
    """What the model is asked for; `hints` say what matters."""
    wanted = f"\n\nThe person says what matters: {hints.strip()}" if hints.strip() else ""
    return Path(__file__).with_name("summary.md").read_text("utf-8").strip().format(hints=wanted)


def is_summary(text: str) -> bool:
    """Whether an answer is what was asked for: most headings are there, and something under them."""
    found = {heading for heading in HEADINGS if re.search(rf"^[^\w\n]*{heading}\b", text, re.MULTILINE | re.IGNORECASE)}
    return len(text.strip()) >= _LEAST and len(found) >= _NEEDED


def sum_up(history: Sequence[Message], most: int = 30_000, where: str = "") -> str:
    """A summary made by code: nothing is judged, nothing invented. What an earlier summary says is in it; of what does
    not fit in `most` characters beginning and end, and `where` the rest is."""
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
    asked = [one_line(message.content, 200) for message in history if _is_request(message, "")][-_LINES:]
    sections = {
        "Goal": "\n- ".join(("as the requests above say" + "; these were asked too:" * bool(asked), *asked)),
        "Done": "\n\n".join(text if len(text) <= 1_500 else f"{text[:1_000]} … {text[-480:]}" for text in said[-3:]),
        "Files": "\n".join(
            [f"- changed {path} ({count} times)" for path, count in changes.most_common(_LINES)]
            + [f"- read {path}" for path, _ in reads.most_common(_LINES) if path not in changes]
        ),
        "Commands": "\n".join(commands[-_LINES:]),
        "Failed": "\n".join(errors[-_LINES:]),
    }
    text = "\n".join(f"## {name}\n{text or 'none'}" for name, text in sections.items())
    summaries = (message.content.partition("\n\n")[2] for message in history if _is_summary(message))
    if earlier := "\n\n".join(summaries).strip():
        earlier = head_and_tail(earlier, int(most * _BEFORE), where)
        text = f"{earlier}\n\nWhat came after that:\n{text}"
    return head_and_tail(text, most, where)


def _outcome(result: ToolResult | None, news: Mapping[str, str]) -> str:
    """How a command ended, in the background by what its job's message says."""
    if result is None or result.is_error:
        return "failed"
    if (job := _JOB.search(result.text[:200])) is None:
        return "done"
    ended = _ENDED.search(news.get(job[1], ""))
    return f"goes on as {job[1]}" if ended is None else "done" if ended[1] == "ended" else ended[1] or ended[2]


def _is_summary(message: Message) -> bool:
    """Whether a message is a summary, or says that the conversation was cut."""
    return message.sender == "sagent" and message.content.startswith(_HEAD)


def edited_files(history: Sequence[Message], cwd: Path, most: int = _FILE_BYTES) -> list[tuple[str, str]]:
    """The latest files that were edited, as messages with sender and text: those that are text and not long."""
    from sagent.lib.encoding import text_in

    found: list[tuple[str, str]] = []
    for path in edited(history, _FILES):
        with suppress(OSError, ValueError):
            text = text_in(read_regular(Path(cwd, path), most=min(most, _FILE_BYTES)))
            if text is None:
                continue
            found.append((f"{SHOWN}{path}", f"{path}, as it is now:\n{text}"))
            most -= len(text)
    return found


def edited(history: Sequence[Message], most: int) -> tuple[str, ...]:
    """The files changed last, the latest first; also those that an earlier compaction has shown."""
    failed = {result.call_id for message in history for result in message.results if result.is_error}
    paths: dict[str, None] = {}
    for message in reversed(history):
        calls = (call for call in reversed(message.whole_calls) if call.name in _CHANGES and call.id not in failed)
        paths |= dict.fromkeys(filter(None, (as_str(call.arguments.get("file_path")) for call in calls)))
        if message.sender.startswith(SHOWN):
            paths[message.sender.removeprefix(SHOWN)] = None
    return tuple(paths)[:most]


def notes_of(history: Sequence[Message], gone: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """What stays word for word of what goes, as messages with sender and text: advice, the plan, and the list of what
    is to be done."""
    from sagent.context import plan, todo

    return (*advice_in(gone), *plan.note_of(history, gone), *todo.note_of(history, gone))


def advice_in(history: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """The last thing that each advisor answered a call with, as messages with sender and text."""
    asked = {
        call.id: as_str(call.arguments.get("name")) for each in history for call in each.calls if call.name == ADVISOR
    }
    found: dict[str, str] = {}
    for result in (result for message in history for result in message.results):
        if result.call_id in asked and not result.is_error:
            found[":".join(filter(None, (ADVISOR, asked[result.call_id])))] = result.text
    return tuple(found.items())


def compose(summary: str, where: str = "", most: int = sys.maxsize) -> str:
    """The message that takes the place of what was cut, and is kept at the path `where`; of a summary with more than
    `most` characters beginning and end."""
    summary = head_and_tail(summary.strip(), most, "it was too long")
    return f"{HEAD.format(where=KEPT.format(path=where) if where else '')}\n\n{summary}"


def _is_request(message: Message, above: str) -> bool:
    return message.role == "user" and not message.results and message.sender in ("", above)


def forget_files(history: Sequence[Message], workspace: Workspace) -> None:
    """Let files count as unread that a cleared conversation had; those stay that were given with what is left of it."""
    shown = {message.sender.removeprefix(SHOWN) for message in history if message.sender.startswith(SHOWN)}
    kept = {workspace.resolve(path).resolve() for path in shown}
    for path in [path for path in workspace.seen if path not in kept]:
        del workspace.seen[path]


def _is_added(message: Message) -> bool:
    """Return True for what sagent adds to a request: its own words, and the files that it names."""
    return message.sender == "sagent" or message.sender.startswith(SHOWN)


def last_request(history: Sequence[Message], above: str) -> tuple[int, ...]:
    """The places that stay when a conversation is cleared: the last request of a person or of the agent above, with
    what sagent added to it, and the calls that are still open. A request that was answered need not stay."""
    last = history[-1] if history else None
    if last is None or (last.role == "assistant" and not last.calls and last.stop != "interrupted"):
        return ()
    asked = [place for place, message in enumerate(history) if message.role == "user" and not message.results]
    own = [place for place in asked if history[place].sender in ("", above)] or asked[-1:]
    added = [place for place in asked if place > own[-1] and _is_added(history[place])] if own else []
    return (*own[-1:], *added, *([len(history) - 1] if last.calls else []))
