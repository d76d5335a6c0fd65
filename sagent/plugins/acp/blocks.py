"""A prompt's content blocks as a message."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sagent.lib.json import as_object, valid_text
from sagent.messages import Message, Part, Text, user
from sagent.plugins.hosting.jsonrpc import INVALID_PARAMS, RpcError


def read_prompt(blocks: Sequence[object]) -> Message | Callable[[], Message]:
    """Return the message of a prompt, or, if it has images or documents, a slower function that makes it. Both raise
    RpcError for an invalid prompt, or content that no model accepts."""
    fields = map(as_object, blocks)
    slow = any(field.get("type") == "image" or "blob" in as_object(field.get("resource")) for field in fields)
    return partial(_read, blocks) if slow else _read(blocks)


def _read(blocks: Sequence[object]) -> Message:
    parts = [part for number, block in enumerate(blocks) for part in _parts(as_object(block), number)]
    if not any(not isinstance(part, Text) or part.text.strip() for part in parts):
        raise RpcError(INVALID_PARAMS, "The prompt is empty.")
    return user("", *parts)


def _parts(block: Mapping[str, object], number: int) -> Iterator[Part]:
    where = f"prompt[{number}]"
    match block.get("type"):
        case "text":
            yield Text(valid_text(_needed(block, "text", where)))
        case "image":
            yield _media(_needed(block, "data", where), "the image", where)
        case "resource_link":
            yield Text(f"[{_needed(block, 'name', where)}]({_shown(_needed(block, 'uri', where))})")
        case "resource":
            yield from _resource(as_object(block.get("resource")), where)
        case "audio":
            raise RpcError(INVALID_PARAMS, f"{where} is audio, which sagent does not support (see promptCapabilities).")
        case other:
            raise RpcError(INVALID_PARAMS, f"{where} has the type {other!r}: text, image, resource_link or resource.")


def _resource(resource: Mapping[str, object], location: str) -> Iterator[Part]:
    """Yield the parts of a file or a selection that a client has put in: its text, or an image or PDF."""
    uri = _shown(_needed(resource, "uri", f"{location}.resource"))
    if isinstance(text := resource.get("text"), str):
        yield Text(f'\n<context uri="{uri}">\n{valid_text(text)}\n</context>\n')
    elif isinstance(blob := resource.get("blob"), str):
        yield Text(f"[{uri}]")
        yield _media(blob, uri, location)
    else:
        raise RpcError(INVALID_PARAMS, f"{location}.resource has neither a text nor a blob.")


def _media(data: str, name: str, location: str) -> Part:
    from sagent.tools.media import media_in

    plain = "".join(data.partition(",")[2].split() if data.startswith("data:") else data.split())
    try:
        found = media_in(b64decode(plain, validate=True), name)
    except (NotBase64, ValueError) as error:
        raise RpcError(INVALID_PARAMS, f"{location} cannot be used: {error}") from error
    if found is None:
        raise RpcError(INVALID_PARAMS, f"{location} is not a PNG, JPEG, GIF or WebP image or a PDF.")
    return found


def _shown(uri: str) -> str:
    """Return the local path of a file's URI, for tools; any other URI unchanged."""
    uri = valid_text(uri)
    if not uri.startswith("file://"):
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:  # it names no host as a URI does
        return uri
    lines = f"#{parts.fragment}" if parts.fragment else ""
    return f"{Path(unquote(parts.path))}{lines}"


def _needed(block: Mapping[str, object], name: str, location: str) -> str:
    if not isinstance(found := block.get(name), str):
        raise RpcError(INVALID_PARAMS, f"{location}.{name} is missing or not a string.")
    return found
