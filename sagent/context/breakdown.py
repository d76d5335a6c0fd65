"""What the tokens of a context are, by kind."""

from collections.abc import Mapping, Sequence

from sagent.lib.json import canonical_bytes
from sagent.messages import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sagent.model import ToolSpec


def break_down(system: str, specs: Sequence[ToolSpec], history: Sequence[Message], tokens: int) -> Mapping[str, int]:
    """Tokens by kind, estimated: of so many in all, each kind has its share by its bytes."""
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


def part_bytes(part: Part) -> int:
    """Bytes of a part, about: media count as 5,000."""
    match part:
        case Text(text) | Thinking(text) | Opaque(text):
            return len(text.encode("utf-8", "replace"))
        case ToolCall(_, name, arguments):
            return len(name) + len(canonical_bytes(arguments))
        case ToolResult(_, content):
            return sum(map(part_bytes, content))
        case Image() | Document():
            return 5_000
