"""What an agent's context holds, by kind: where the tokens are."""

from collections.abc import Mapping

from sagent.engine.state import AgentState
from sagent.lib.json import canonical_bytes
from sagent.messages import Document, Image, Opaque, Part, Text, Thinking, ToolCall, ToolResult

_MEDIA = 5_000  # bytes that an image or document stands for


def context_breakdown(state: AgentState) -> Mapping[str, int]:
    """Tokens by kind, estimated: the whole by what the provider counted, its parts by their bytes."""
    sizes = {"system prompt": len(state.system.encode("utf-8", "replace"))}
    sizes["tools"] = sum(len(spec.description) + len(canonical_bytes(spec.parameters)) for spec in state.specs)
    names: dict[str, str] = {}
    for message in state.history:
        for part in message.parts:
            if isinstance(part, ToolCall):
                names[part.id] = part.name
            kind = _kind(part, message.role, names)
            sizes[kind] = sizes.get(kind, 0) + _size(part)
    whole = state.meter.estimate(state.model.max_input_tokens(state.request()))
    total = max(1, sum(sizes.values()))
    return {kind: whole * size // total for kind, size in sorted(sizes.items(), key=lambda item: -item[1]) if size}


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


def _size(part: Part) -> int:
    match part:
        case Text(text) | Thinking(text) | Opaque(text):
            return len(text.encode("utf-8", "replace"))
        case ToolCall(_, name, arguments):
            return len(name) + len(canonical_bytes(arguments))
        case ToolResult(_, content):
            return sum(_size(each) for each in content)
        case Image() | Document():
            return _MEDIA
