"""What a server's results and resources are to a model, within what memory and log can take."""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sagent.lib.json import json_dump
from sagent.messages import Document, Text
from sagent.tool import Media, ToolOutput

if TYPE_CHECKING:
    from mcp.types import BlobResourceContents, CallToolResult, TextResourceContents

MOST_RESULT = 10_000_000  # characters of one text, or bytes of one image or document, in a result
MOST_MEDIA = 20  # images and documents of a result: providers take a hundred in all


def output_of(result: "CallToolResult", server: str) -> ToolOutput:
    content = [part for block in result.content for part in parts_of(block)]
    if not content and result.structured_content is not None:
        content.append(Text(json_dump(result.structured_content)))
    content = _few([_bounded(part, server) for part in content], server)
    summary = " ".join(words_in(content).split())[:80] or "done"
    return ToolOutput(tuple(content) or (Text("(nothing)"),), is_error=bool(result.is_error), summary=summary)


def words_in(content: Sequence[Media]) -> str:
    return next((part.text[:1_000] for part in content if isinstance(part, Text)), "")


def parts_of(block: object) -> Sequence[Media]:
    """A block of a result as a model is shown it."""
    from mcp import types

    match block:
        case types.TextContent():
            return (Text(block.text),)
        case types.ImageContent():
            return (_decoded(block.data, block.mime_type, "an image"),)
        case types.EmbeddedResource():
            return (_embedded(block.resource),)
        case types.ResourceLink():
            return (Text(f"{block.name}: {block.uri}"),)
        case _:
            return (Text(f"({type(block).__name__}, which cannot be shown)"),)


def _embedded(held: "TextResourceContents | BlobResourceContents") -> Media:
    from mcp import types

    if isinstance(held, types.TextResourceContents):
        return Text(f"{held.uri}:\n{held.text}")
    return _decoded(held.blob, held.mime_type or "application/octet-stream", str(held.uri))


def _decoded(text: str, kind: str, name: str) -> Media:
    """Data in base64 that a server says is of a kind. What no provider would take is words: once it is in a
    conversation, that would be refused for ever."""
    from sagent.tools.media import media_in

    try:
        data = base64.b64decode(text)
    except ValueError:
        return Text("(data that is not base64, which cannot be shown)")
    try:
        found = media_in(data, name)
    except ValueError as error:
        return Text(f"({error})")
    if found is None and kind.startswith(("image/", "application/pdf")):
        return Text(f"({name}: {kind}, {len(data)} bytes, which cannot be shown)")
    return found or Document(kind, data, name)


def resource_part(held: "TextResourceContents | BlobResourceContents", most: int) -> Media:
    """A resource that a person has mentioned, in at most so many characters."""
    from mcp import types

    if isinstance(held, types.TextResourceContents):
        cut = f"\n[{len(held.text) - most} more characters]" if len(held.text) > most else ""
        return Text(f'\n<resource uri="{held.uri}">\n{held.text[:most]}{cut}\n</resource>')
    return _embedded(held)


def _few(content: Sequence[Media], server: str) -> list[Media]:
    """The parts without those images and documents that are too many."""
    media = [number for number, part in enumerate(content) if not isinstance(part, Text)]
    out = {*media[MOST_MEDIA:]}
    kept = [part for number, part in enumerate(content) if number not in out]
    more = Text(f"({len(out)} more images and documents of the MCP server {server} were left out)")
    return [*kept, more] if out else kept


def _bounded(part: Media, server: str) -> Media:
    """A part that memory and log can take; what is left out of it is said in its place."""
    size = len(part.text if isinstance(part, Text) else part.data)
    if size <= MOST_RESULT:
        return part
    if isinstance(part, Text):
        more = f"{size - MOST_RESULT:,} more characters of the MCP server {server} were left out"
        return Text(f"{part.text[:MOST_RESULT]}\n({more})")
    return Text(f"({type(part).__name__.lower()} of {size:,} bytes from the MCP server {server}: too large, left out)")
