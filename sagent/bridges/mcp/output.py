"""What a server's results and resources are to a model, within what memory and log can take."""

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sagent.lib.json import json_dump
from sagent.messages import Document, Image, Text
from sagent.tool import Media, ToolOutput

if TYPE_CHECKING:
    from mcp.types import BlobResourceContents, CallToolResult, TextResourceContents

MOST_RESULT = 10_000_000  # characters of one text, or bytes of one image or document, in a result


def output_of(result: "CallToolResult", server: str) -> ToolOutput:
    content = [part for block in result.content for part in parts_of(block)]
    if not content and result.structured_content is not None:
        content.append(Text(json_dump(result.structured_content)))
    content = [_bounded(part, server) for part in content]
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
            return (_decoded(block.data, lambda data: Image(block.mime_type, data)),)
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
    kind = held.mime_type or "application/octet-stream"
    return _decoded(held.blob, lambda data: Document(kind, data, str(held.uri)))


def _decoded(text: str, make: Callable[[bytes], Media]) -> Media:
    """A part of data in base64; words where it is none."""
    try:
        return make(base64.b64decode(text))
    except ValueError:
        return Text("(data that is not base64, which cannot be shown)")


def resource_part(held: "TextResourceContents | BlobResourceContents", most: int) -> Media:
    """A resource that a person has mentioned, in at most so many characters."""
    from mcp import types

    if isinstance(held, types.TextResourceContents):
        cut = f"\n[{len(held.text) - most} more characters]" if len(held.text) > most else ""
        return Text(f'\n<resource uri="{held.uri}">\n{held.text[:most]}{cut}\n</resource>')
    if (held.mime_type or "").startswith("image/"):
        kind = held.mime_type or ""
        return _decoded(held.blob, lambda data: Image(kind, data))
    return _embedded(held)


def _bounded(part: Media, server: str) -> Media:
    """A part that memory and log can take; what is left out of it is said in its place."""
    size = len(part.text if isinstance(part, Text) else part.data)
    if size <= MOST_RESULT:
        return part
    if isinstance(part, Text):
        more = f"{size - MOST_RESULT:,} more characters of the MCP server {server} were left out"
        return Text(f"{part.text[:MOST_RESULT]}\n({more})")
    return Text(f"({type(part).__name__.lower()} of {size:,} bytes from the MCP server {server}: too large, left out)")
