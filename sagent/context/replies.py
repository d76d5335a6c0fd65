"""What a reply needs before it enters the history."""

from dataclasses import replace

from sagent.messages import Message, Part, ToolCall


def distinct_calls(message: Message) -> Message:
    """Give every call of a reply an id of its own: servers send empty and repeated ones, and results are told apart
    by them."""
    seen: set[str] = set()
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            new = part.id if part.id and part.id not in seen else f"{part.id or 'call'}_{len(parts)}"
            seen.add(new)
            parts.append(part if new == part.id else replace(part, id=new))
        else:
            parts.append(part)
    return replace(message, parts=tuple(parts))
