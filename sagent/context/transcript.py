"""A part of a conversation as text that is kept and that the model can read again: nothing is left out."""

from collections.abc import Iterator, Sequence

from sagent.lib.json import json_dump
from sagent.messages import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sagent.tool import Blobs

_WIDTH = 1_900  # characters of a line: of longer ones Read shows only the beginning


def keep_transcript(messages: Sequence[Message], blobs: Blobs) -> str:
    """Keep messages as one text; its path. Raises OSError."""
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
    """A line in pieces that can be read."""
    for start in range(0, max(1, len(line)), _WIDTH):
        yield line[start : start + _WIDTH]
