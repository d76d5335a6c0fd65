"""The texts of a conversation as attributes: only on request, without likely secrets, each text cut."""

from collections.abc import Sequence

from sagent.lib.json import Json, json_dump, json_thaw, valid_text
from sagent.messages import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sagent.plugins.telemetry import names
from sagent.transcript.redaction import Redaction

MAX_TEXT_CHARS = 20_000  # of one text


def messages_text(messages: Sequence[Message]) -> str:
    """Messages as the conventions have them: JSON, each with a role and parts."""
    found = [{"role": _role(message), "parts": list(map(_part, message.parts))} for message in messages]
    return _json(Redaction().value(found))


def reply_text(message: Message) -> str:
    """Return a reply with the reason for its end."""
    parts = list(map(_part, message.parts))
    reply = {"role": "assistant", "parts": parts, "finish_reason": names.finish_reason(message.stop)}
    return _json(Redaction().value([reply]))


def system_text(text: str) -> str:
    return _json([{"type": "text", "content": _cut(text)}])


def value_text(value: Json) -> str:
    """Arguments as JSON, or a result."""
    if isinstance(value, str):
        return _cut(value)
    return _cut(json_dump(Redaction().value(json_thaw(value))))


def _json(value: object) -> str:
    """Return JSON that is valid text. An exporter drops an attribute, or a span, with invalid text."""
    return valid_text(json_dump(value))


def _role(message: Message) -> str:
    return "tool" if message.results else message.role


def _part(part: Part) -> dict[str, object]:
    match part:
        case Text(text) | Opaque(text):
            return {"type": "text", "content": _cut(text)}
        case Thinking(text):
            return {"type": "reasoning", "content": _cut(text)}
        case ToolCall():
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": value_text(part.arguments)}
        case ToolResult():
            return {"type": "tool_call_response", "id": part.call_id, "response": _cut(part.text)}
        case Image() | Document():  # how large it is says enough
            size = len(part.data)
            return {"type": "blob", "mime_type": part.media_type, "content": f"({size} bytes, left out)"}


def _cut(text: str) -> str:
    clean = valid_text(Redaction().text(text))
    return (
        clean
        if len(clean) <= MAX_TEXT_CHARS
        else f"{clean[:MAX_TEXT_CHARS]}… ({len(clean) - MAX_TEXT_CHARS} characters more)"
    )
