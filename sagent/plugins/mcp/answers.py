"""Repairs a server's answers to calls, prompts and readings before the SDK parses them.

The SDK rejects a whole answer for one block that the protocol does not define. Here such a block becomes a line of text
that names it, and optional invalid members are removed.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING

from sagent.lib.json import as_array, as_object, as_str, json_dump, json_freeze
from sagent.lib.text import one_line, printable

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.types import CallToolResult

MAX_SHOWN_CHARS = 500  # characters of a block that cannot be shown
COMPLETE: Mapping[str, object] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Members that each answer has in the newest revision."""
_WORDS = {"true": True, "false": False, "1": True, "0": False}
_KEPT = {  # informative members of a block, by its type
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("resource",),
    "resource_link": ("uri", "name", "title", "description", "mimeType"),
}

_MAX_DEPTH, _MIN_DATA = 3, 40
_TYPES = ("mimeType", "mime_type", "media_type", "mediaType")
_DATA = ("data", "blob", "base64", "b64_json", "bytes", "image", "audio", "file_data")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.=+-]+)*;base64,", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_=\r\n-]+")
_INCOMPLETE = ("input_required", "task")  # types of answers to a call that are no result yet
_OF_CALL = frozenset(("content", "structuredContent", "isError", "_meta", "toolResult", *COMPLETE))
_MEDIA = {"image": "image/png", "audio": "audio/wav"}  # default media types of blocks


def mend_answer(result: MutableMapping[str, object], version: str, *, of_call: bool = False) -> None:
    """Repair the answer to a call, a prompt or a reading for the SDK. Other answers are unchanged."""
    if "toolResult" in result and "content" not in result:  # how the first revision had it
        result["structuredContent"] = result.pop("toolResult")
    if of_call and result.get("resultType") not in _INCOMPLETE:
        _keep_unknown(result)
    if not result.keys().isdisjoint(("content", "structuredContent", "isError")):
        _mend_call(result, version)
    elif isinstance(result.get("messages"), list):
        result["messages"] = [_message(message, version) for message in as_array(result["messages"])]
    elif isinstance(result.get("contents"), list):
        result["contents"] = [_resource(content, version) for content in as_array(result["contents"])]


def _keep_unknown(result: MutableMapping[str, object]) -> None:
    """Show undefined members of an answer to a call: whole if there is nothing else, by name beside other content."""
    unknown = {name: value for name, value in result.items() if name not in _OF_CALL}
    if (kind := result.get("resultType", "complete")) != "complete":  # another kind of result
        result["resultType"] = "complete"
        unknown |= {"resultType": kind} if kind else {}
    content, structured = result.get("content"), result.get("structuredContent")
    if content in (None, [], "") and structured is None:
        result["content"] = [_text(_shown(unknown))] if unknown else []
    elif unknown:
        blocks = as_array(content) or (() if content in (None, [], "") else (content,))
        names = one_line(printable(", ".join(unknown)), MAX_SHOWN_CHARS)
        result["content"] = [*blocks, _text(f"(members of the answer that cannot be shown: {names})")]


def tolerate_output(session: "ClientSession") -> None:
    """Report results that do not match the output schema of their tool, instead of rejecting them."""
    from mcp.types import TextContent

    strict = session.validate_tool_result

    async def validate(name: str, result: "CallToolResult") -> None:
        try:
            await strict(name, result)
        except RuntimeError as error:
            said = f"({one_line(printable(str(error)), MAX_SHOWN_CHARS)})"
            result.content.append(TextContent(type="text", text=said))

    session.validate_tool_result = validate


def _mend_call(result: MutableMapping[str, object], version: str) -> None:
    content, structured = result.get("content"), result.get("structuredContent")
    blocks = as_array(content) or (() if content in (None, []) else (content,))
    blocks = [each for block in blocks for each in as_array(block) or (block,)]
    result["content"] = [_block(each, version) for block in blocks for each in _unpacked(block)]
    if "structuredContent" in result and not isinstance(structured, dict):  # older revisions only know objects
        del result["structuredContent"]
        if structured is not None:
            result["content"] = [*as_array(result["content"]), _text(_shown(structured))]
    if not isinstance(failed := result.get("isError", False), bool):
        result["isError"] = _WORDS.get(str(failed).lower(), bool(failed))
    if not isinstance(result.get("_meta", {}), dict):
        del result["_meta"]


def _unpacked(block: object, depth: int = 0) -> Iterator[object]:
    """Yield a block, or the blocks in it, as results of other protocols have them."""
    fields = as_object(block)
    inner = as_array(fields.get("content"))
    if as_str(fields.get("type")) in _KEPT or not inner or depth == _MAX_DEPTH:
        yield block
        if isinstance(fields.get("text"), str) and (medium := _medium(fields, as_str(fields.get("type")))):
            yield {"type": "resource", "resource": medium}
        return
    rest = {name: value for name, value in fields.items() if name != "content"}
    yield _text(f"(a block of several: {_line(rest)})")
    for each in inner:
        yield from _unpacked(each, depth + 1)


def _block(block: object, version: str) -> object:
    """Return a block that the SDK accepts: unchanged, with only the needed members, or as a line that names it."""
    if isinstance(block, str):
        return _text(block)
    fields = as_object(block)
    kind = as_str(fields.get("type"))
    if isinstance(text := fields.get("text"), str) and kind.lower() in ("", "text") and kind != "text":
        return _text(text)
    if kind not in _KEPT and (plain := re.sub("(?<=[a-z])(?=[A-Z])", "_", kind).lower()) in _KEPT:
        kind, fields = plain, {**fields, "type": plain}
    if _is_read("tools/call", {"content": [fields]}, version):
        return fields
    kept: dict[str, object] = {name: fields[name] for name in _KEPT.get(kind, ()) if name in fields}
    if kind == "resource_link":
        kept = {name: value for name, value in kept.items() if isinstance(value, str)}
        kept = {"name": kept.get("uri"), **kept}
    elif kind == "resource":
        held = fields.get("resource", {name: fields[name] for name in fields if name != "type"})
        kept = {"resource": _resource({"uri": held} if isinstance(held, str) else held, version)}
    elif kind in _MEDIA:
        kept = _data_of(kind, fields)
    plain = {"type": kind, **kept}
    if _is_read("tools/call", {"content": [plain]}, version):
        return plain
    if kind == "text" and "text" in fields:
        return _text(_shown(fields["text"]))
    medium = None if isinstance(text, str) else _medium(fields, kind)
    return {"type": "resource", "resource": medium} if medium else _described(block, kind)


def _described(block: object, kind: str) -> object:
    """Return a text that names an unknown block, with its text or content."""
    fields = as_object(block)
    text = fields.get("text")
    rest = {name: value for name, value in fields.items() if name != "type"} if kind else block
    named = f"of the type {one_line(printable(kind), 100)}" if kind else "without a type"
    if isinstance(text, str):
        return _text(f"(a block {named}, of which this is the text:)\n{text}")
    if len(shown := _shown(_without_data(rest))) > MAX_SHOWN_CHARS:
        return _text(f"(a block {named}, of which this is the content:)\n{shown}")
    return _text(f"(a block {named} cannot be shown: {one_line(printable(shown), MAX_SHOWN_CHARS)})")


def _medium(value: object, kind: str, depth: int = 0) -> Mapping[str, object] | None:
    """Find the data of an image, a recording or a document in other protocols' forms: in a data URL, or beside its
    type."""
    fields = as_object(value)
    named = next((each for name in _TYPES if (each := as_str(fields.get(name)))), "")
    for name, held in fields.items():
        if name in _DATA and isinstance(held, str) and named.startswith("text/") and not held.startswith("data:"):
            return {"uri": kind or name, "text": held}
        if isinstance(held, str) and (found := _DATA_URL.match(held)):
            return {"uri": kind or name, "blob": held[found.end() :], "mimeType": found[1] or "text/plain"}
        if name in _DATA and isinstance(held, str) and (named or len(held) >= _MIN_DATA) and _BASE64.fullmatch(held):
            return {"uri": kind or name, "blob": held, "mimeType": named or "application/octet-stream"}
    inner = map(as_object, fields.values()) if depth < _MAX_DEPTH else ()
    return next((found for held in inner if (found := _medium(held, kind, depth + 1))), None)


def _without_data(value: object, depth: int = 0) -> object:
    """Return a value with the length in place of each text that nobody reads."""
    if (
        isinstance(value, str)
        and len(value) > MAX_SHOWN_CHARS
        and (_BASE64.fullmatch(value) or value.startswith("data:"))
    ):
        return f"({len(value):,} characters of data)"
    if depth < _MAX_DEPTH and (fields := as_object(value)):
        return {name: _without_data(held, depth + 1) for name, held in fields.items()}
    return (
        [_without_data(held, depth + 1) for held in items]
        if depth < _MAX_DEPTH and (items := as_array(value))
        else value
    )


def _data_of(kind: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the data of an image or a recording in other protocols' members; the type is detected from the data."""
    held = as_object(fields.get("source")) or fields
    named = (as_str(held.get(name)) for name in _TYPES)
    return {"data": held.get("data"), "mimeType": next(filter(None, named), _MEDIA[kind])}


def _message(message: object, version: str) -> object:
    """Return a message of a prompt, which has a single block."""
    fields = as_object(message)
    role = fields.get("role")
    return {
        "role": role if role in ("user", "assistant") else "user",
        "content": _block(fields.get("content"), version),
    }


def _resource(held: object, version: str) -> object:
    """Return the contents of a resource; a text if they are neither text nor data."""
    fields = as_object(held)
    if _is_read("resources/read", {"contents": [fields]}, version):
        return fields
    plain = {name: fields[name] for name in ("uri", "text", "blob") if isinstance(fields.get(name), str)}
    if "text" in plain or "blob" in plain:
        return {"uri": "unknown:", **plain}
    return {"uri": plain.get("uri", "unknown:"), "text": f"(this cannot be shown: {_line(held)})"}


def _is_read(method: str, members: Mapping[str, object], version: str) -> bool:
    """Return True if the SDK accepts an answer with these members."""
    from mcp_types.methods import parse_server_result
    from pydantic import ValidationError

    try:
        parse_server_result(method, version, {**COMPLETE, **members})
    except ValidationError:
        return False
    except (KeyError, ValueError):  # the SDK reports an unknown version
        pass
    return True


def _text(text: str) -> Mapping[str, object]:
    return {"type": "text", "text": text}


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json_dump(json_freeze(value))


def _line(value: object) -> str:
    return one_line(printable(_shown(value)), MAX_SHOWN_CHARS)
