"""An agent's conversation as text for a reader. The same messages always give the same text."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sagent.lib.json import Thawed, json_thaw, valid_text
from sagent.lib.secrets import redact
from sagent.messages import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from sagent.model import ToolSpec

MAX_HEAD_CHARS, MAX_TAIL_CHARS = 1_600, 800  # of a long result or long arguments to quote
_MAX_SYSTEM_CHARS = 2_000  # of the executor's system prompt
Keep = Callable[[str], str]
"""Keeps the whole of a text that is shown in part, and returns the name by which it is found."""


class Reader(NamedTuple):
    """The reader of a quotation, who has their own words already. `asked` are the calls by which advisors are asked."""

    name: str = ""
    asked: frozenset[str] = frozenset()


def asking_calls(messages: Iterable[Message], tool: str) -> frozenset[str]:
    """Return the ids of the calls of a tool."""
    return frozenset(call.id for message in messages for call in message.calls if call.name == tool)


def quote_setting(system: str, tools: Sequence[ToolSpec]) -> str:
    """Quote the agent's initial knowledge: its shortened system prompt, and its tools."""
    known = [tool for tool in tools if not tool.deferred]
    listed = "\n".join(f"- {tool.name}: {clean(_first_sentence(tool.description))}" for tool in known) or "- none"
    return f"Its instructions, in short:\n{cut(clean(system), _MAX_SYSTEM_CHARS, 400)}\n\nIts tools:\n{listed}"


def quote(messages: Iterable[Message], first: int, keep: Keep, reader: Reader) -> str:
    """Return the messages, numbered from `first`, without the calls by which advisors are asked."""
    return "\n".join(
        line for number, message in enumerate(messages, first) for line in _quote_message(number, message, keep, reader)
    )


def _quote_message(number: int, message: Message, keep: Keep, reader: Reader) -> list[str]:
    who = "executor" if message.role == "assistant" else message.sender or "person"
    if reader.name and message.sender == f"advisor:{reader.name}":
        return []
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text(text) | Opaque(text):
                if text.strip():
                    lines.append(f"[{number}] {who}: {clean(text)}")
            case ToolCall(call_id, name) if call_id not in reader.asked:
                lines.append(f"[{number}] call {call_id}: {name} {_shorten(_arguments(part), keep)}")
            case ToolResult(call_id, _, is_error) if not _is_own(part, reader):
                lines.append(f"[{number}] {'error' if is_error else 'result'} of {call_id}: {_result(part, keep)}")
            case Image() | Document():
                lines.append(f"[{number}] {who}: {_media(part)}")
            case ToolCall() | ToolResult() | Thinking():
                pass
    if message.stop == "interrupted":
        lines.append(f"[{number}] (interrupted here)")
    return lines


def _is_own(result: ToolResult, reader: Reader) -> bool:
    return bool(reader.name) and result.call_id in reader.asked and result.text.startswith(f"{reader.name} ")


def _arguments(call: ToolCall) -> str:
    if call.malformed is not None:
        return f"(malformed) {call.malformed}"
    return json.dumps(_cleaned(json_thaw(call.arguments)), ensure_ascii=False, default=str)


def _cleaned(value: Thawed) -> Thawed:
    """Remove secrets from every text in it, before JSON escapes the text around them."""
    match value:
        case str():
            return redact(value)[0]
        case list():
            return [_cleaned(item) for item in value]
        case dict():
            return {redact(name)[0]: _cleaned(item) for name, item in value.items()}
        case _:
            return value


def _result(result: ToolResult, keep: Keep) -> str:
    media = [_media(part) for part in result.content if isinstance(part, Image | Document)]
    return " ".join([_shorten(result.text, keep), *media]).strip() or "(nothing)"


def _media(part: Image | Document) -> str:
    kind = "image" if isinstance(part, Image) else "document"
    return f"({kind}, {part.media_type}, {len(part.data)} bytes)"


def _shorten(text: str, keep: Keep) -> str:
    """Return a text; a long one is cut to head and tail, with the name of the whole."""
    cleaned = clean(text)  # before it is cut: half a key is still a key
    left = len(cleaned) - MAX_HEAD_CHARS - MAX_TAIL_CHARS
    if left <= 200:
        return cleaned
    note = f"[{left} characters are left out here; the full text is {keep(text)}]"
    return f"{cleaned[:MAX_HEAD_CHARS]}\n{note}\n{cleaned[-MAX_TAIL_CHARS:]}"


def clean(text: str) -> str:
    """Return a text without secrets, and as valid Unicode."""
    return redact(valid_text(text.strip()))[0]


def cut(text: str, head: int, tail: int) -> str:
    """Head and tail of a long text, in characters."""
    return text if len(text) <= head + tail + 100 else f"{text[:head]}\n[...]\n{text[-tail:]}"


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]
