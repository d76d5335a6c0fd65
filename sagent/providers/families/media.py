"""Images, documents and recordings on the wire: base64, their tokens, and replacement texts."""

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import is_
from typing import assert_never

from sagent.lib.json import sha256_hex
from sagent.messages import Document, Image, Message, Part, Text, ToolResult

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_IMAGE_URL = re.compile(r"data:(image/[a-z0-9.+-]{1,40})(?:;[a-z0-9.=-]{1,40}){0,9};base64")
AUDIO = ("audio/wav", "audio/mpeg")
# Tokens reserved for a second of a recording: Gemini counts 32, OpenAI 10, at up to 7 and 17 times the price of text
# tokens, which the reservation has to cover.
_SECOND_TOKENS = 256


def base64_text(data: bytes) -> str:
    """Return base64 in one line."""
    return b2a_base64(data, newline=False).decode()


def data_url(media_type: str, data: bytes) -> str:
    """Bytes as a URL."""
    return f"data:{media_type};base64,{base64_text(data)}"


def image_at(url: str) -> Image | None:
    """Return the image in a data URL; None for any other address or invalid base64."""
    head, _, data = url.partition(",")
    if not (match := _IMAGE_URL.fullmatch(head)):
        return None
    try:
        return Image(match[1], a2b_base64(data))
    except ValueError:
        return None


def made_notes(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return notes on where an answer's images and audio are stored."""
    made = [part for part in parts if isinstance(part, Image | Document)]
    names = ["image" if isinstance(part, Image) else f"sound, {part.name}," for part in made]
    kept = [f"is kept with the session as {sha256_hex(part.data)}" for part in made]
    return tuple(f"the answer's {name} {place}" for name, place in zip(names, kept, strict=True))


def media_tokens(part: Text | Image | Document, image: int, page: int) -> int:
    """Return what to add to a part's encoded size to bound its tokens, given the tokens of an image and a page."""
    if isinstance(part, Text):
        return 0
    encoded = -(-len(part.data) // 3) * 4
    if isinstance(part, Image):
        return image - encoded
    if part.media_type in AUDIO:
        from sagent.lib.audio import count_seconds

        return _SECOND_TOKENS * count_seconds(part.data) - encoded
    if part.media_type != "application/pdf":
        return 0
    from sagent.lib.pdf import count_pages

    return page * count_pages(part.data) - encoded


def in_words(part: Text | Image | Document) -> str:
    """Return a part as text: a text document as itself, anything else by name."""
    match part:
        case Text(text):
            return text
        case Document(media_type, data, name) if media_type.startswith("text/") and data.strip():
            return f"[{name or 'document'}]\n{data.decode('utf-8', 'replace')}"
        case Image() | Document():
            return stand_in(part)
        case _:
            assert_never(part)


def media_in(messages: Iterable[Message]) -> Iterator[Image | Document]:
    """Yield the images and documents of a conversation, tool results included."""
    for part in (part for message in messages for part in message.parts):
        for shown in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(shown, Image | Document):
                yield shown


def without_images(message: Message) -> Message:
    """Return a message with texts in place of its images; unchanged if it has none."""
    parts = tuple(map(_worded, message.parts))
    return message if all(map(is_, parts, message.parts)) else replace(message, parts=parts)


def _worded(part: Part) -> Part:
    if isinstance(part, Image):
        return Text(stand_in(part))
    if isinstance(part, ToolResult) and any(isinstance(each, Image) for each in part.content):
        return replace(
            part, content=tuple(Text(stand_in(one)) if isinstance(one, Image) else one for one in part.content)
        )
    return part


def error_text(text: str) -> str:
    """Return the text of a failed call, for a protocol without a member for failures."""
    return text if text.lower().startswith(("error", "[interrupted")) else f"Error: {text}"


def stand_in(part: Image | Document) -> str:
    """Return the text in place of a part that the model cannot read."""
    what = "image" if isinstance(part, Image) else part.name or "document"
    return f"[{what}: {part.media_type}, {len(part.data)} bytes; it cannot be shown to this model]"
