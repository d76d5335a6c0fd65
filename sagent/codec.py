"""Messages and usage as plain JSON without loss, as a log needs them, and the one version number of that form."""

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, assert_never, get_args

from sagent.lib.json import JsonObject, as_array, as_int, as_object, json_dump, json_load
from sagent.messages import (
    DENIED,
    Document,
    Image,
    Message,
    Opaque,
    Part,
    Private,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sagent.usage import BUCKETS, Usage

VERSION = 2
"""Version of everything encoded here, so of every log. A reader rejects a higher one, and ignores unknown members."""

Keep: TypeAlias = Callable[[bytes], str]
"""Takes media into keeping and names it by its sha256."""

Fetch: TypeAlias = Callable[[str], bytes | None]
"""Returns media by their sha256; None if they are lost and the message should say so."""

_Word = TypeVar("_Word", bound=str)

_TYPES = {Text: "text", Thinking: "thinking", Opaque: "opaque", Image: "image", Document: "document"}


# -- messages, without loss --------------------------------------------------------------------------------------------


def encode_message(message: Message, keep: Keep | None) -> dict[str, Any]:
    """Return a message as plain JSON. Media are stored by `keep`, or inline as base64 if it is None."""
    out: dict[str, Any] = {"role": message.role, "parts": [_encode_part(part, keep) for part in message.parts]}
    if message.sender:
        out["sender"] = message.sender
    if message.model:
        out["model"] = message.model
    if message.stop is not None:
        out["stop"] = message.stop
    return out


def decode_message(obj: object, fetch: Fetch | None) -> Message:
    """Decode a message. Unknown members are ignored.

    Raises ValueError for damaged data, and any error of `fetch`.
    """
    source = _object(obj, "a message")
    stop = source.get("stop")
    return Message(
        _word(source, "role", get_args(Role)),
        tuple([_decode_part(part, fetch) for part in _array(source, "parts")]),
        _text(source, "sender", ""),
        _text(source, "model", ""),
        None if stop is None else _word(source, "stop", get_args(StopReason)),
    )


def encode_result_part(result: ToolResult, keep: Keep | None) -> dict[str, Any]:
    """One tool result as plain JSON, as inside a message."""
    out: dict[str, Any] = {
        "type": "tool_result",
        "call_id": result.call_id,
        "content": [_encode_part(part, keep) for part in result.content],
    }
    if result.is_error:
        out |= {"is_error": True, "denied": result.denied}
    return out


def was_denied(result: Mapping[str, object]) -> bool:
    """Return True if an encoded result says that the policy refused the call. Version 1 shows it in the text."""
    if "denied" in result or result.get("is_error") is not True:
        return result.get("denied") is True
    first = as_object(next(iter(as_array(result.get("content"))), None)).get("text")
    return isinstance(first, str) and first.startswith(DENIED)


def decode_result_part(obj: object, fetch: Fetch | None) -> ToolResult:
    """Decode a tool result. Raises ValueError for damaged data."""
    source = _object(obj, "a tool result")
    content: list[Text | Image | Document] = []
    for item in _array(source, "content"):
        part = _decode_part(item, fetch)
        if not isinstance(part, Text | Image | Document):
            raise _wrong("what a tool result holds", "text, an image or a document", part)
        content.append(part)
    failed = source.get("is_error") is True
    return ToolResult(_text(source, "call_id"), tuple(content), failed, failed and was_denied(source))


def _encode_part(part: Part, keep: Keep | None) -> dict[str, Any]:
    out: dict[str, Any]
    match part:
        case Text(text, private) | Thinking(text, private) | Opaque(text, private):
            out = {"type": _TYPES[type(part)], "text": text}
        case ToolCall(call_id, name, arguments, malformed, private, whole):
            out = {"type": "tool_call", "id": call_id, "name": name, "arguments": json_dump(arguments)}
            out |= {} if malformed is None else {"malformed": malformed}
            out |= {} if whole else {"whole": False}
        case ToolResult():
            return encode_result_part(part, keep)
        case Image(media_type, data) | Document(media_type, data):
            out = {"type": _TYPES[type(part)], "media_type": media_type, **_encode_media(data, keep)}
            return {**out, "name": part.name} if isinstance(part, Document) and part.name else out
        case _:
            assert_never(part)
    if private is not None:
        out["private"] = {"family": private.family, "data": json_dump(private.data)}
    return out


def _decode_part(obj: object, fetch: Fetch | None) -> Part:
    source = _object(obj, "a part")
    match source.get("type"):
        case "text":
            return Text(_text(source, "text"), _private(source))
        case "tool_call":
            malformed = source.get("malformed")
            return ToolCall(
                _text(source, "id"),
                _text(source, "name"),
                _arguments(source),
                None if malformed is None else _text(source, "malformed"),
                _private(source),
                source.get("whole", True) is True,
            )
        case "tool_result":
            return decode_result_part(source, fetch)
        case "thinking":
            return Thinking(_text(source, "text"), _private(source))
        case "image" | "document" as kind:
            media_type, data = _media(source, fetch)
            if data is None:
                return Text(f"[{media_type} is lost: blob {_text(source, 'blob')}]")
            return Image(media_type, data) if kind == "image" else Document(media_type, data, _text(source, "name", ""))
        case "opaque":
            private = _private(source)
            if private is None:
                raise ValueError("an opaque part needs its private data")
            return Opaque(_text(source, "text"), private)
        case other:
            raise ValueError(f"a part of unknown type {other!r}")


def _arguments(source: Mapping[str, object]) -> JsonObject:
    """Decode arguments, which the log stores as JSON text, like private data: it sorts the keys of objects, but a
    rebuilt request needs the model's original order and bytes."""
    arguments = json_load(_text(source, "arguments"))
    if not isinstance(arguments, JsonObject):
        raise _wrong("the arguments of a call", "a JSON object", arguments)
    return arguments


def _encode_media(data: bytes, keep: Keep | None) -> dict[str, Any]:
    if keep is None:
        return {"data": b2a_base64(data, newline=False).decode()}
    return {"blob": keep(data)}


def _media(source: Mapping[str, object], fetch: Fetch | None) -> tuple[str, bytes | None]:
    media_type = _text(source, "media_type")
    if "data" in source:
        return media_type, a2b_base64(_text(source, "data"), strict_mode=True)
    if fetch is None:
        raise ValueError(f"{media_type} is kept as a blob, and there is nothing to fetch it with")
    return media_type, fetch(_text(source, "blob"))


def _private(source: Mapping[str, object]) -> Private | None:
    found = source.get("private")
    if found is None:
        return None
    members = _object(found, "private data")
    return Private(_text(members, "family"), json_load(_text(members, "data")))


def _object(value: object, label: str) -> Mapping[str, object]:
    if not isinstance(value, dict | JsonObject):  # and not Mapping: this runs for every part of a log
        raise _wrong(label, "a JSON object", value)
    return as_object(value)  # pyright: ignore[reportUnknownArgumentType] -- the keys of parsed JSON are strings


def _text(source: Mapping[str, object], key: str, default: str | None = None) -> str:
    value = source.get(key, default)
    if not isinstance(value, str):
        raise _wrong(repr(key), "a string", value)
    return value


def _array(source: Mapping[str, object], key: str) -> Sequence[object]:
    value = source.get(key)
    if not isinstance(value, list | tuple):
        raise _wrong(repr(key), "an array", value)
    return as_array(value)  # pyright: ignore[reportUnknownArgumentType] -- each item is checked when it is read


def _wrong(label: str, expected: str, value: object) -> ValueError:
    return ValueError(f"{label} must be {expected}, not {type(value).__name__}")


def _word(source: Mapping[str, object], key: str, words: tuple[_Word, ...]) -> _Word:
    for word in words:
        if word == source.get(key):
            return word
    raise ValueError(f"{key!r} must be one of {', '.join(words)}, not {source.get(key)!r}")


# -- usage -------------------------------------------------------------------------------------------------------------


def encode_usage(usage: Usage) -> dict[str, Any]:
    """Return every bucket and every fee, zeros left out."""
    out: dict[str, Any] = {bucket: getattr(usage, bucket) for bucket in BUCKETS}
    out["fees"] = {kind: count for kind, count in usage.fees.items() if count}
    return {bucket: count for bucket, count in out.items() if count}


def decode_usage(obj: object) -> Usage:
    """Decode usage; missing counts are 0."""
    source = as_object(obj)
    fees = {kind: as_int(count) for kind, count in as_object(source.get("fees")).items()}
    return Usage(*(as_int(source.get(bucket)) for bucket in BUCKETS), fees=fees)
