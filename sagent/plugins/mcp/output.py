"""Convert an MCP server's results and resources for a model, within the limits of memory and log."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sagent.lib.json import as_array, as_object, as_str, json_dump, json_freeze
from sagent.lib.text import one_line, printable
from sagent.messages import Document, Text
from sagent.tool import Media, ToolOutput

if TYPE_CHECKING:
    from mcp.types import BlobResourceContents, CallToolResult, TextResourceContents

MAX_RESULT_SIZE = 10_000_000  # characters of one text, or bytes of one image or document, in a result
_MAX_STARTS = 20  # positions in a text at which to try to parse JSON
_MAX_SMALL_CHARS = 20_000  # characters
_JSON = json.JSONDecoder()
MAX_MEDIA = 20  # images and documents in one result; providers accept about a hundred in a request


def output_of(result: "CallToolResult", server: str) -> ToolOutput:
    """Convert a result: its blocks, and its structured content unless a text already holds the same JSON."""
    content = [part for block in result.content for part in parts_of(block)]
    if (data := result.structured_content) is not None and not is_said(data, content):
        content.append(Text(json_dump(json_freeze(data))))
    content = _drop_excess_media([_bounded(part, server) for part in content], server)
    summary = " ".join(words_in(content).split())[:80] or "done"
    return ToolOutput(tuple(content) or (Text("(nothing)"),), is_error=bool(result.is_error), summary=summary)


def is_small(blocks: Sequence[object]) -> bool:
    """Return True if blocks are short texts, which are quick to convert; others are converted in a thread."""
    return (
        sum(len(as_str(getattr(block, "text", None))) or _MAX_SMALL_CHARS + 1 for block in blocks) <= _MAX_SMALL_CHARS
    )


def is_said(data: object, content: Sequence[Media]) -> bool:
    """Return True if the texts contain the structured content as JSON, alone or between other words. If a server wraps
    a value as {"result": value}, the value alone is enough, and for a list one text per item."""
    texts = [part.text for part in content if isinstance(part, Text)]
    fields = as_object(data)
    wrapped = tuple(fields.values()) if {*fields} == {"result"} else ()
    if any(_holds(text, wanted) for text in texts for wanted in (data, *wrapped)):
        return True
    items = [as_array(each) for each in (data, *wrapped)]
    return any(item and len(item) == len(texts) and all(map(_holds, texts, item)) for item in items)


def _holds(text: str, wanted: object) -> bool:
    """Return True if a text is the wanted value or contains it."""
    if isinstance(wanted, str):
        return text.strip() == wanted.strip() or _parsed(text.strip()) == [wanted]
    starts = (found.start() for found in re.finditer(r"[\[{]", text))
    return any(
        is_same(value, wanted)
        for start in (0, *islice(starts, _MAX_STARTS))
        for value in _parsed(text[start:].lstrip())
    )


def _parsed(text: str) -> list[object]:
    """Return the JSON value at the start of a text as a list of one; [] if there is none."""
    try:
        return [_JSON.raw_decode(text)[0]]
    except (ValueError, RecursionError):
        return []


def is_same(left: object, right: object) -> bool:
    """Return True if two values are equal in JSON, where 1 equals 1.0 but not true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if all(isinstance(each, Mapping) for each in (left, right)):
        first, second = as_object(left), as_object(right)
        return {*first} == {*second} and all(is_same(value, second[name]) for name, value in first.items())
    if all(isinstance(each, list | tuple) for each in (left, right)):
        items, others = as_array(left), as_array(right)
        return len(items) == len(others) and all(map(is_same, items, others))
    return left == right


def words_in(content: Sequence[Media]) -> str:
    return next((part.text[:1_000] for part in content if isinstance(part, Text)), "")


def parts_of(block: object) -> Sequence[Media]:
    """Convert a block of a result to message parts."""
    from mcp import types

    match block:
        case types.TextContent():
            return (Text(block.text),)
        case types.ImageContent():
            return (_decoded(block.data, block.mime_type, "an image"),)
        case types.AudioContent():
            return (_decoded(block.data, block.mime_type, "a recording"),)
        case types.EmbeddedResource():
            return (_embedded(block.resource),)
        case types.ResourceLink():
            about = ", ".join(one_line(printable(each), 300) for each in (block.mime_type, block.description) if each)
            return (Text(f"{block.name}: {block.uri}" + (f" ({about})" if about else "")),)
        case _:
            return (Text(f"({type(block).__name__}, which cannot be shown)"),)


def _embedded(held: "TextResourceContents | BlobResourceContents") -> Media:
    from mcp import types

    if isinstance(held, types.TextResourceContents):
        return Text(f"{held.uri}:\n{held.text}")
    return _decoded(held.blob, held.mime_type or "application/octet-stream", str(held.uri))


def _decoded(text: str, kind: str, name: str) -> Media:
    """Decode a server's base64 data of a stated type. Media that no provider accepts become text, because once in a
    conversation they would make every later request fail."""
    from sagent.lib.encoding import text_in
    from sagent.tools.media import media_in

    try:
        data = _bytes_of(text)
    except ValueError:
        return Text(f"({name}: {kind}, whose data is not base64, which cannot be shown)")
    try:
        found = media_in(data, name)
    except ValueError as error:
        return Text(f"({error})")
    if kind.startswith("image/svg") and (drawn := text_in(data)):
        return Text(f"({name}: {kind}, as text)\n{drawn}")
    if found is None and kind.startswith(("image/", "application/pdf")):
        return Text(f"({name}: {kind}, {len(data)} bytes, which cannot be shown)")
    return found or Document(kind, data, name)


def _bytes_of(text: str) -> bytes:
    """Decode base64 of either alphabet, padded or not, or a data URL. Raises ValueError."""
    text = text.partition(",")[2] if text.startswith("data:") else text
    plain = "".join(text.split()).translate(str.maketrans("-_", "+/")).rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def resource_part(held: "TextResourceContents | BlobResourceContents", max_chars: int) -> Media:
    """Convert a resource that a person has mentioned; a text is cut to `max_chars` characters."""
    from mcp import types

    if isinstance(held, types.TextResourceContents):
        cut = f"\n[{len(held.text) - max_chars} more characters]" if len(held.text) > max_chars else ""
        return Text(f'\n<resource uri="{held.uri}">\n{held.text[:max_chars]}{cut}\n</resource>')
    return _embedded(held)


def _drop_excess_media(content: Sequence[Media], server: str) -> list[Media]:
    """Remove images and documents beyond MAX_MEDIA."""
    media = [number for number, part in enumerate(content) if not isinstance(part, Text)]
    out = {*media[MAX_MEDIA:]}
    kept = [part for number, part in enumerate(content) if number not in out]
    more = Text(f"({len(out)} more images and documents of the MCP server {server} were left out)")
    return [*kept, more] if out else kept


def _bounded(part: Media, server: str) -> Media:
    """Cut a part to MAX_RESULT_SIZE and say how much was left out."""
    size = len(part.text if isinstance(part, Text) else part.data)
    if size <= MAX_RESULT_SIZE:
        return part
    if isinstance(part, Text):
        more = f"{size - MAX_RESULT_SIZE:,} more characters of the MCP server {server} were left out"
        return Text(f"{part.text[:MAX_RESULT_SIZE]}\n({more})")
    return Text(f"({type(part).__name__.lower()} of {size:,} bytes from the MCP server {server}: too large, left out)")
