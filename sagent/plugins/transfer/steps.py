"""A transcript of any program as neutral steps: messages in order, compactions, sub-agents, and a list of parts that
were left out."""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.context.todo import STATES, State, Task
from sagent.lib.dataclass import dataclass
from sagent.lib.image import image_type, measure_image
from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str, json_load, valid_text
from sagent.messages import Document, Image, Message, Part, StopReason, Text, Thinking, ToolCall, ToolResult
from sagent.session.contents import json_text
from sagent.usage import Usage

Program: TypeAlias = Literal["claude", "codex", "gemini", "opencode", "pi"]
PROGRAMS: Mapping[Program, str] = {
    "claude": "Claude Code",
    "codex": "codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "pi": "pi",
}
MAX_DEPTH = 5
"""Sub-agents within sub-agents that are taken over."""
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DOCUMENT = "application/pdf"
_PDF_HEAD_BYTES = 1024
_DATA_URL = re.compile(r"data:([\w.+/-]{1,100})(?:;[\w=.-]{1,100})*;base64,", re.ASCII)
_STATES: Mapping[str, State] = {state: state for state in STATES}
_WORD = re.compile(r"[\w.:/-]{1,40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Said:
    """A message; `number` is its place in the transcript, the same for a reply and the results of its calls."""

    number: int
    message: Message
    at: str = ""


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction: only messages with the numbers `kept` stay, after the summary. Sizes are in tokens, 0 if
    unknown."""

    summary: str
    kept: frozenset[int] = frozenset()
    before: int = 0
    after: int = 0


@dataclass(frozen=True, slots=True)
class Spent:
    """The bill of one model call in the other program; `usd` is None if it named no price."""

    provider: str
    model: str
    usage: Usage
    usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Child:
    """A sub-agent: its transcript, and the call that started it ("" if unknown)."""

    name: str
    call_id: str
    transcript: "Transcript"


Step: TypeAlias = Said | Compaction


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole conversation with a program. `left_out` counts the parts that were not taken over, by reason."""

    program: Program
    id: str
    file: Path
    steps: Sequence[Step]
    cwd: str = ""
    title: str = ""
    version: str = ""
    spent: Sequence[Spent] = ()
    todo: Sequence[Task] = ()
    children: Sequence[Child] = ()
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def messages(self) -> int:
        return sum(isinstance(step, Said) for step in self.steps)


@dataclass(slots=True)
class _Draft:
    """A message that is still being put together. `results` are those of a reply's calls, by id."""

    role: Literal["user", "assistant"]
    parts: list[Part]
    sender: str = ""
    model: str = ""
    stop: StopReason | None = None
    at: str = ""
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])


class Draft:
    """A transcript under construction. `own` says that its prompts are of the person who runs sagent; others have the
    program as their sender, so that they never count as this person's words, and so have those of a sub-agent, whose
    `depth` is above 0."""

    def __init__(self, program: Program, *, own: bool, depth: int = 0) -> None:
        self.program: Program = program
        self.left_out: Counter[str] = Counter()
        self.spent: list[Spent] = []
        self._person = program if depth else "" if own else f"{program}-user"
        self._steps: list[_Draft | Compaction] = []
        self._by_key: dict[str, int] = {}
        self._calls: dict[str, int] = {}

    def leave_out(self, reason: str, times: int = 1) -> None:
        """Record parts that are not taken over; `reason` has no text of the transcript but words from `word`."""
        self.left_out[reason] += times

    def say(self, parts: Sequence[Part], at: str = "", key: str = "") -> int:
        """Add a message of the person; return its number, -1 for an empty one."""
        return self._add(_Draft("user", list(parts), self._person, at=at), key)

    def tell(self, parts: Sequence[Part], at: str = "", key: str = "") -> int:
        """Add a message that the program inserted for the model; return its number, -1 for an empty one."""
        return self._add(_Draft("user", list(parts), self.program, at=at), key)

    def reply(
        self, parts: Sequence[Part], model: str = "", stop: StopReason | None = None, at: str = "", key: str = ""
    ) -> int:
        """Add a model's reply, or parts to the one with this key; return its number, -1 for an empty one."""
        at_place = self._by_key.get(key, -1) if key else -1
        known = self._steps[at_place] if at_place >= 0 else None
        if isinstance(known, _Draft) and known.role == "assistant":
            known.parts += parts
            known.stop = stop or known.stop
        else:
            at_place = self._add(_Draft("assistant", list(parts), "", valid_text(model), stop, at), key)
        if at_place >= 0:
            self._calls |= {part.id: at_place for part in parts if isinstance(part, ToolCall)}
        return at_place

    def result(self, result: ToolResult) -> int:
        """Add the result of an earlier call; return the number of its reply, -1 if no call has this id."""
        place = self._calls.get(result.call_id, -1)
        step = self._steps[place] if place >= 0 else None
        if not isinstance(step, _Draft):
            self.leave_out("a result without its call")
            return -1
        if result.call_id in step.results:
            self.leave_out("a second result of a call")
        else:
            step.results[result.call_id] = result
        return place

    def interrupt(self) -> None:
        """Mark the last reply as interrupted, if no call of it was answered."""
        last = self._steps[-1] if self._steps else None
        if isinstance(last, _Draft) and last.role == "assistant" and not last.results:
            last.stop = "interrupted"

    def take_back(self, turns: int) -> None:
        """Drop the last prompts of the person and all that followed them, as the program did."""
        asked = [place for place, step in enumerate(self._steps)
                 if isinstance(step, _Draft) and (step.role, step.sender) == ("user", self._person)]  # fmt: skip
        place = asked[-turns] if 0 < turns <= len(asked) else 0 if turns > 0 else len(self._steps)
        self.leave_out("a message of a turn that was taken back", len(self._steps) - place)
        del self._steps[place:]
        self._by_key = {key: number for key, number in self._by_key.items() if number < place}
        self._calls = {call: number for call, number in self._calls.items() if number < place}

    def compact(self, summary: str, kept: Iterable[int] = (), before: int = 0, after: int = 0) -> None:
        """Add a compaction, if it has a summary."""
        if summary.strip():
            self._steps.append(Compaction(valid_text(summary), frozenset(kept), max(before, 0), max(after, 0)))
        else:
            self.leave_out("a compaction without a readable summary: its messages stay")

    def alias(self, key: str, number: int) -> None:
        """Give the message of a number another key."""
        if key:
            self._by_key[key] = number

    def number_of(self, key: str) -> int:
        """Return the number of the message with this key, -1 for none."""
        return self._by_key.get(key, -1)

    def numbers_since(self, key: str) -> Iterable[int]:
        """Return the numbers from the message with this key on; none for an unknown key."""
        place = self._by_key.get(key, -1)
        return range(place, len(self._steps)) if place >= 0 else ()

    @property
    def size(self) -> int:
        """The number of the next message."""
        return len(self._steps)

    def steps(self) -> Sequence[Step]:
        """Return the steps: each reply is followed by the results of its calls, in their order."""
        steps: list[Step] = []
        for number, step in enumerate(self._steps):
            if isinstance(step, Compaction):
                steps.append(step)
                continue
            parts = tuple(step.parts)
            calls = {part.id for part in parts if isinstance(part, ToolCall)}
            stop = step.stop
            if stop is None and step.role == "assistant":
                stop = "tool_use" if calls else "end"
            steps.append(Said(number, Message(step.role, parts, step.sender, step.model, stop), step.at))
            answers = tuple(step.results[call] for call in dict.fromkeys(_ids(parts)) if call in step.results)
            if answers:
                steps.append(Said(number, Message("user", answers), step.at))
        return steps

    def _add(self, draft: _Draft, key: str) -> int:
        if not draft.parts:
            return -1
        self._steps.append(draft)
        if key:
            self._by_key[key] = len(self._steps) - 1
        return len(self._steps) - 1

    # -- parts, read leniently

    def blocks(self, content: object) -> Sequence[Mapping[str, object]]:
        """Return content as blocks: a text is one of the type `text`; other values than a list are left out."""
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        items = as_array(content)
        if not items and content not in (None, []):
            self.leave_out("content that is neither a text nor a list")
        return [*map(as_object, items)]

    def text(self, value: object) -> list[Part]:
        """Return a text as parts; none for a blank one, and another value is left out."""
        if value is not None and not isinstance(value, str):
            self.leave_out("a text that is of another type")
        return [Text(valid_text(value))] if isinstance(value, str) and value.strip() else []

    def thinking(self, value: object, signature: object = None) -> list[Part]:
        """Return shown thinking as parts. A signature stays behind: it is valid only where it was made."""
        if signature:
            self.leave_out("a signature of thinking, which is valid only where it was made")
        return [Thinking(valid_text(value))] if isinstance(value, str) and value.strip() else []

    def media(self, media_type: object, data: object, name: str = "") -> list[Part]:
        """Return an image or PDF from base64 as parts; others are left out."""
        kind = as_str(media_type).lower()
        if kind not in (*_IMAGES, _DOCUMENT):
            self.leave_out(f"a file of the type {word(kind)}")
            return []
        try:
            raw = a2b_base64(as_str(data).encode("ascii"), strict_mode=True)
        except (Base64Error, ValueError):
            raw = b""
        if kind == _DOCUMENT and b"%PDF-" in raw[:_PDF_HEAD_BYTES]:
            return [Document(kind, raw, valid_text(name))]
        if (found := image_type(raw)) in _IMAGES and measure_image(raw, found) is not None:
            return [Image(found, raw)]
        self.leave_out("an image or document whose data are damaged or missing")  # a provider would refuse all of it
        return []

    def media_url(self, url: object, name: str = "") -> list[Part]:
        """Return the image or PDF of a data URL as parts; an address elsewhere is left out and never fetched."""
        text = as_str(url)
        if (head := _DATA_URL.match(text)) is None:
            self.leave_out("a file that the transcript only names")
            return []
        return self.media(head[1], text[head.end() :], name)

    def call(self, call_id: object, name: object, arguments: object) -> list[Part]:
        """Return a call as parts; `arguments` is an object, or JSON text."""
        given: object = arguments
        malformed: str | None = None
        if isinstance(arguments, str):
            try:
                given = json_load(arguments) if arguments.strip() else EMPTY
            except ValueError:
                malformed = valid_text(arguments)
        try:
            frozen = JsonObject(_clean_object(given))
        except (TypeError, ValueError, RecursionError):
            frozen = JsonObject()
            self.leave_out("arguments of a call that JSON cannot express")
        if malformed is None and given is not None and not isinstance(given, Mapping):
            malformed = valid_text(json_text(given))
        named = valid_text(as_str(call_id)) or f"call_{len(self._calls) + 1}"
        return [ToolCall(named, valid_text(as_str(name)) or "unknown", frozen, malformed)]

    def answer(self, call_id: object, parts: Sequence[Part], *, failed: bool = False) -> int:
        """Add a result; see `result`."""
        content = tuple(part for part in parts if isinstance(part, Text | Image | Document))
        return self.result(ToolResult(valid_text(as_str(call_id)), content, is_error=failed))

    def is_answered(self, call_id: str) -> bool:
        """Return True if a call has a result."""
        step = self._steps[self._calls[call_id]] if call_id in self._calls else None
        return isinstance(step, _Draft) and call_id in step.results


def _ids(parts: Iterable[Part]) -> Iterable[str]:
    return (part.id for part in parts if isinstance(part, ToolCall))


def _clean_object(value: object) -> Mapping[str, object]:
    """Return an object with valid Unicode throughout; empty for another value."""
    return {valid_text(name): _clean(member) for name, member in as_object(value).items()}


def _clean(value: object) -> object:
    if isinstance(value, str):
        return valid_text(value)
    if items := as_array(value):
        return [_clean(item) for item in items]
    return _clean_object(value) if hasattr(value, "keys") else value


def word(value: object) -> str:
    """Return a name from a transcript if it is short and plain, so that it can be printed in a reason."""
    text = as_str(value)
    return text if _WORD.fullmatch(text) else "another kind"


def tasks(items: object, text: str, state: str = "status") -> tuple[Task, ...]:
    """Return a to-do list from objects, with the names of their members."""
    found: list[Task] = []
    for item in map(as_object, as_array(items)):
        said = " ".join(valid_text(as_str(item.get(text))).split())
        status = as_str(item.get(state)).replace("-", "_")
        known = _STATES.get(status, "pending")
        if status in ("cancelled", "deleted", "blocked"):
            said = f"{said} ({status})" if said else ""
            known = "completed" if status != "blocked" else "pending"
        found += [Task(said, known)] if said else []
    return tuple(found)


def iso_time(milliseconds: object) -> str:
    """Return milliseconds since 1970 as UTC, ISO 8601; "" for another value."""
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool):
        try:
            return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        except (ValueError, OverflowError, OSError):
            return ""
    return ""
