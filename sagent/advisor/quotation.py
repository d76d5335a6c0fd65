"""An agent's conversation as text for somebody who only reads it. The same messages always give the same text."""

import json
from collections.abc import Callable, Iterable, Sequence

from sagent.lib.json import json_thaw
from sagent.lib.secrets import redact
from sagent.messages import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from sagent.model import ToolSpec

HEAD, TAIL = 1_600, 800  # characters kept of a long result, or of long arguments
_SYSTEM = 2_000  # characters of the executor's system prompt
Keep = Callable[[str], str]
"""Keeps the whole of a text that is shown in part, and returns the name by which it is found."""


def quote_setting(system: str, tools: Sequence[ToolSpec]) -> str:
    """What the agent was told before anything was said: its system prompt in short, and what it can call."""
    listed = "\n".join(f"- {tool.name}: {_first_sentence(tool.description)}" for tool in tools) or "- none"
    return f"Its instructions, in short:\n{_cut(_clean(system), _SYSTEM, 400)}\n\nIts tools:\n{listed}"


def quote(messages: Iterable[Message], first: int, keep: Keep, asking: str) -> str:
    """The messages, the first of them numbered `first`. Calls of the tool `asking` and their results are left out:
    what an advisor said it has before it anyway."""
    own: set[str] = set()
    lines: list[str] = []
    for number, message in enumerate(messages, first):
        own |= {call.id for call in message.calls if call.name == asking}
        lines += _quote_message(number, message, keep, own, asking)
    return "\n".join(lines)


def _quote_message(number: int, message: Message, keep: Keep, own: set[str], asking: str) -> list[str]:
    who = "executor" if message.role == "assistant" else message.sender or "person"
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text(text) | Opaque(text):
                if text.strip():
                    lines.append(f"[{number}] {who}: {_clean(text)}")
            case ToolCall(call_id, name) if name != asking:
                lines.append(f"[{number}] call {call_id}: {name} {_shorten(_arguments(part), keep)}")
            case ToolResult(call_id, _, is_error) if call_id not in own:
                lines.append(f"[{number}] {'error' if is_error else 'result'} of {call_id}: {_result(part, keep)}")
            case Image() | Document():
                lines.append(f"[{number}] {who}: {_media(part)}")
            case ToolCall() | ToolResult() | Thinking():
                pass
    if message.stop == "interrupted":
        lines.append(f"[{number}] (interrupted here)")
    return lines


def _arguments(call: ToolCall) -> str:
    if call.malformed is not None:
        return f"(malformed) {call.malformed}"
    return json.dumps(json_thaw(call.arguments), ensure_ascii=False, default=str)


def _result(result: ToolResult, keep: Keep) -> str:
    media = [_media(part) for part in result.content if isinstance(part, Image | Document)]
    return " ".join([_shorten(result.text, keep), *media]).strip() or "(nothing)"


def _media(part: Image | Document) -> str:
    kind = "image" if isinstance(part, Image) else "document"
    return f"({kind}, {part.media_type}, {len(part.data)} bytes)"


def _shorten(text: str, keep: Keep) -> str:
    """A text; of a long one head and tail, and where the whole is."""
    clean = _clean(text)  # before it is cut: half a key is still a key
    left = len(clean) - HEAD - TAIL
    if left <= 200:
        return clean
    return f"{clean[:HEAD]}\n[{left} characters are left out here; the whole is {keep(text)}]\n{clean[-TAIL:]}"


def _clean(text: str) -> str:
    return redact(text.strip())[0]


def _cut(text: str, head: int, tail: int) -> str:
    return text if len(text) <= head + tail + 100 else f"{text[:head]}\n[...]\n{text[-tail:]}"


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]
