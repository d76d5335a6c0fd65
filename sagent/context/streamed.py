"""A model's call as it comes, each piece valid text by itself, whoever wrote the model."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from sagent.lib.json import LONE, valid_text, whole_text
from sagent.messages import Part, Text, Thinking
from sagent.model import Delta, Model, Reply, Request, TextPart, ThinkingPart


async def valid_stream(model: Model, request: Request) -> AsyncGenerator[Delta | Reply]:
    """Make the call. Half of a surrogate pair at the end of a delta waits for the next delta of its kind; lone halves
    are replaced, in deltas and in the reply. Closing it closes the model's stream. Raises ModelError."""
    halves: dict[type[TextPart | ThinkingPart], str] = {}
    items = model.stream(request)
    try:
        async for item in items:
            if isinstance(item, TextPart | ThinkingPart):
                kind = type(item)
                text, half = whole_text(halves.pop(kind, "") + item.text)
                if half:
                    halves[kind] = half
                if text or not item.text:
                    yield item if text == item.text else kind(text)
            else:
                for kind in halves if isinstance(item, Reply) else ():
                    yield kind(LONE)
                yield _valid(item) if isinstance(item, Reply) else item
    finally:
        if hasattr(items, "aclose"):
            await items.aclose()  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType] -- a generator


def _valid(reply: Reply) -> Reply:
    """The same reply where its texts are valid, as nearly always."""
    message = reply.message
    parts = tuple(map(_valid_part, message.parts))
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return reply if same else replace(reply, message=replace(message, parts=parts))


def _valid_part(part: Part) -> Part:
    if isinstance(part, Text | Thinking) and not part.text.isascii() and (text := valid_text(part.text)) != part.text:
        return replace(part, text=text)
    return part
