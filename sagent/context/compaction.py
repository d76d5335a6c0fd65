"""A conversation cut short: what stays word for word, what is summed up, and how, by a model or by code."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sagent.context.breakdown import part_bytes
from sagent.context.stubs import ADVISOR
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str
from sagent.lib.regular import read_regular
from sagent.lib.text import one_line
from sagent.messages import Image, Message, Text, ToolResult

HEADINGS = ("Goal", "Decisions", "Done", "Open", "Files", "Commands", "Failed")
_NEEDED = 4  # of these, without which an answer is not a summary
_LEAST = 80  # characters
_LINES = 40  # of each kind in a summary made by code
_CHANGES = ("Write", "Edit")
_FILES, _FILE_BYTES = 3, 8_000  # that are being edited and are shown again, and how much of each
HEAD = (
    "(From sagent: the conversation before this point was cut; the requests above are word for word. A summary of it:)"
)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a conversation is cut: what is before `place` is summed up, but for the messages at `requests`."""

    place: int
    requests: tuple[int, ...]

    def kept(self, history: Sequence[Message]) -> tuple[int, ...]:
        return (*self.requests, *range(self.place, len(history)))


def find_cut(history: Sequence[Message], recent: int, above: str) -> Cut | None:
    """Where to cut so that the last turns, up to `recent` bytes, stay whole; None where nothing would go.

    Requests are what a person, or the agent `above`, said. Results stay with the calls they answer.
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
    requests = tuple(at for at in range(place) if _is_request(history[at], above))
    return Cut(place, requests) if place - len(requests) > 1 else None


def size_of(message: Message) -> int:
    """Bytes of a message, about: media count as 5,000."""
    calls = sum(len(call.name) + len(str(call.arguments)) for call in message.calls)
    return calls + sum(part_bytes(part) for part in message.parts if isinstance(part, Text | ToolResult | Image))


def instruction(hints: str) -> str:
    """What the model is asked for; `hints` say what matters."""
    wanted = f"\n\nThe person says what matters: {hints.strip()}" if hints.strip() else ""
    return Path(__file__).with_name("summary.md").read_text("utf-8").strip().format(hints=wanted)


def is_summary(text: str) -> bool:
    """Whether an answer is what was asked for: most headings are there, and something under them."""
    found = {heading for heading in HEADINGS if re.search(rf"^\W*{heading}\b", text, re.MULTILINE | re.IGNORECASE)}
    return len(text.strip()) >= _LEAST and len(found) >= _NEEDED


def sum_up(history: Sequence[Message]) -> str:
    """A summary made by code: nothing is judged, nothing invented."""
    calls = {call.id: call for message in history for call in message.calls}
    failed = {result.call_id: result for message in history for result in message.results if result.is_error}
    reads: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    commands: list[str] = []
    for call in calls.values():
        path, command = as_str(call.arguments.get("file_path")), as_str(call.arguments.get("command"))
        if command:
            commands.append(f"- {one_line(command, 200)}: {'failed' if call.id in failed else 'done'}")
        elif path and call.name in _CHANGES and call.id not in failed:
            changes[path] += 1
        elif path and call.id not in failed:
            reads[path] += 1
    errors = [f"- {calls[call].name}: {one_line(result.text, 200)}" for call, result in failed.items() if call in calls]
    said = [message.content for message in history if message.role == "assistant" and message.content.strip()]
    sections = {
        "Goal": "as the requests above say",
        "Done": "\n\n".join(text if len(text) <= 1_500 else f"{text[:1_000]} … {text[-480:]}" for text in said[-3:]),
        "Files": "\n".join(
            [f"- changed {path} ({count} times)" for path, count in changes.most_common(_LINES)]
            + [f"- read {path}" for path, _ in reads.most_common(_LINES) if path not in changes]
        ),
        "Commands": "\n".join(commands[-_LINES:]),
        "Failed": "\n".join(errors[-_LINES:]),
    }
    return "\n".join(f"## {name}\n{text or 'none'}" for name, text in sections.items())


def edited_files(history: Sequence[Message], cwd: Path) -> list[tuple[str, str]]:
    """The latest files that were edited, with what they hold: those that are text and not long."""
    found: list[tuple[str, str]] = []
    for path in edited(history, _FILES):
        with suppress(OSError, ValueError):
            found.append((path, read_regular(Path(cwd, path), most=_FILE_BYTES).decode()))
    return found


def edited(history: Sequence[Message], most: int) -> tuple[str, ...]:
    """The files changed last, the latest first."""
    failed = {result.call_id for message in history for result in message.results if result.is_error}
    calls = (call for message in reversed(history) for call in reversed(message.calls))
    paths = (
        as_str(call.arguments.get("file_path")) for call in calls if call.name in _CHANGES and call.id not in failed
    )
    return tuple(dict.fromkeys(filter(None, paths)))[:most]


def advice_in(history: Sequence[Message]) -> tuple[str, ...]:
    """The last thing each advisor said."""
    asked = {call.id for message in history for call in message.calls if call.name == ADVISOR}
    results = (result for message in history for result in message.results)
    found = [result.text for result in results if result.call_id in asked and not result.is_error]
    found += [message.content for message in history if message.sender.startswith(f"{ADVISOR}:")]
    return tuple(found[-2:])


def compose(summary: str, advice: Sequence[str], contents: Sequence[tuple[str, str]]) -> str:
    """The message that takes the place of what was cut."""
    parts = [HEAD, summary.strip()]
    parts += [f"Advice that was given:\n{text}" for text in advice]
    parts += [f"{path}, as it is now:\n{text}" for path, text in contents]
    return "\n\n".join(parts)


def _is_request(message: Message, above: str) -> bool:
    return message.role == "user" and not message.results and message.sender in ("", above)


def last_request(history: Sequence[Message], above: str) -> tuple[int, ...]:
    """The places that stay when a conversation is cleared: the last request of a person or of the agent above, with
    what sagent added to it, and the calls that are still open. A request that was answered need not stay."""
    last = history[-1] if history else None
    if last is None or (last.role == "assistant" and not last.calls and last.stop != "interrupted"):
        return ()
    asked = [place for place, message in enumerate(history) if message.role == "user" and not message.results]
    own = [place for place in asked if history[place].sender in ("", above)] or asked[-1:]
    added = [place for place in asked if place > own[-1] and history[place].sender == "sagent"] if own else []
    return (*own[-1:], *added, *([len(history) - 1] if last.calls else []))
