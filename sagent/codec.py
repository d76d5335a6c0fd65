"""Messages and events as plain JSON, and the one version number of that form.

Two readers, two forms. A log needs everything back, so messages are encoded without loss. A program that reads
`--output-format stream-json` wants what a person would see, so events show results as text and media as descriptions.
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, TypeAlias, TypeVar, assert_never, get_args

from sagent.events import (
    Advice,
    AdviceDelta,
    Advised,
    AdvisorTally,
    Denial,
    Denied,
    Event,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Result,
    Retrying,
    SessionOpened,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from sagent.lib.json import (
    JsonObject,
    as_array,
    as_int,
    as_object,
    json_dump,
    json_load,
    json_thaw,
    sha256_hex,
)
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
from sagent.usage import Cost, Saving, Usage

VERSION = 2
"""Of all that is encoded here, so of every log. A reader refuses a higher one, and ignores members it does not know."""

Keep: TypeAlias = Callable[[bytes], str]
"""Takes media into keeping and names it by its sha256."""

Fetch: TypeAlias = Callable[[str], bytes | None]
"""Brings media back by its sha256; None where it is lost and the message is to say so in its place."""

_Word = TypeVar("_Word", bound=str)


# -- messages, without loss --------------------------------------------------------------------------------------------


def encode_message(message: Message, keep: Keep | None) -> dict[str, Any]:
    """A message as plain JSON. Media go through `keep`, or inline as base64 where it is None."""
    out: dict[str, Any] = {"role": message.role, "parts": [_encode_part(part, keep) for part in message.parts]}
    if message.sender:
        out["sender"] = message.sender
    if message.model:
        out["model"] = message.model
    if message.stop is not None:
        out["stop"] = message.stop
    return out


def decode_message(obj: object, fetch: Fetch | None) -> Message:
    """The message that was encoded. Members it does not know are ignored.

    Raises ValueError for what it cannot read, and whatever `fetch` raises.
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
    """Whether an encoded result says that the policy refused the call. Version 1 says so by how the text begins."""
    if "denied" in result or result.get("is_error") is not True:
        return result.get("denied") is True
    first = as_object(next(iter(as_array(result.get("content"))), None)).get("text")
    return isinstance(first, str) and first.startswith(DENIED)


def decode_result_part(obj: object, fetch: Fetch | None) -> ToolResult:
    """The tool result that was encoded. Raises ValueError for what it cannot read."""
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
        case Text(text, private):
            out = {"type": "text", "text": text}
            return _with_private(out, private)
        case ToolCall(call_id, name, arguments, malformed, private):
            out = {"type": "tool_call", "id": call_id, "name": name, "arguments": json_dump(arguments)}
            if malformed is not None:
                out["malformed"] = malformed
            return _with_private(out, private)
        case ToolResult():
            return encode_result_part(part, keep)
        case Thinking(text, private):
            return _with_private({"type": "thinking", "text": text}, private)
        case Image(media_type, data):
            return {"type": "image", "media_type": media_type, **_encode_media(data, keep)}
        case Document(media_type, data, name):
            out = {"type": "document", "media_type": media_type, **_encode_media(data, keep)}
            return {**out, "name": name} if name else out
        case Opaque(text, private):
            return _with_private({"type": "opaque", "text": text}, private)
        case _:
            assert_never(part)


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
            )
        case "tool_result":
            return decode_result_part(source, fetch)
        case "thinking":
            return Thinking(_text(source, "text"), _private(source))
        case "image":
            media_type, data = _media(source, fetch)
            return _lost(source) if data is None else Image(media_type, data)
        case "document":
            media_type, data = _media(source, fetch)
            return _lost(source) if data is None else Document(media_type, data, _text(source, "name", ""))
        case "opaque":
            private = _private(source)
            if private is None:
                raise ValueError("an opaque part needs its private data")
            return Opaque(_text(source, "text"), private)
        case other:
            raise ValueError(f"a part of unknown type {other!r}")


def _arguments(source: Mapping[str, object]) -> JsonObject:
    """Kept as JSON text, as private data are: the log sorts the keys of objects, and a request that is built again
    must have the bytes it had, in the order in which the model wrote them."""
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


def _lost(source: Mapping[str, object]) -> Text:
    return Text(f"[{_text(source, 'media_type')} is lost: blob {_text(source, 'blob')}]")


def _with_private(out: dict[str, Any], private: Private | None) -> dict[str, Any]:
    if private is not None:
        out["private"] = {"family": private.family, "data": json_dump(private.data)}
    return out


def _private(source: Mapping[str, object]) -> Private | None:
    found = source.get("private")
    if found is None:
        return None
    members = _object(found, "private data")
    return Private(_text(members, "family"), json_load(_text(members, "data")))


def _object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict | JsonObject):  # and not Mapping: this runs for every part of a log
        raise _wrong(what, "a JSON object", value)
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


def _wrong(what: str, wanted: str, value: object) -> ValueError:
    return ValueError(f"{what} must be {wanted}, not {type(value).__name__}")


def _word(source: Mapping[str, object], key: str, words: tuple[_Word, ...]) -> _Word:
    for word in words:
        if word == source.get(key):
            return word
    raise ValueError(f"{key!r} must be one of {', '.join(words)}, not {source.get(key)!r}")


# -- usage -------------------------------------------------------------------------------------------------------------


def encode_usage(usage: Usage) -> dict[str, Any]:
    """Every bucket and every fee, zeros left out."""
    out: dict[str, Any] = {
        "input": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cache_write_1h": usage.cache_write_1h,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "fees": {kind: count for kind, count in usage.fees.items() if count},
    }
    return {bucket: count for bucket, count in out.items() if count}


def decode_usage(obj: object) -> Usage:
    """The usage that was encoded; what is missing counts as 0."""
    source = as_object(obj)
    return Usage(
        as_int(source.get("input")),
        as_int(source.get("cache_read")),
        as_int(source.get("cache_write")),
        as_int(source.get("cache_write_1h")),
        as_int(source.get("output")),
        as_int(source.get("reasoning")),
        {kind: as_int(count) for kind, count in as_object(source.get("fees")).items()},
    )


# -- events and results, as shown --------------------------------------------------------------------------------------


def encode_event(event: Event) -> dict[str, Any]:
    """An event as one line of stream-json: `type` (snake_case), `agent`, and its members. USD are numbers."""
    if type(event) is TextDelta:  # thirty thousand of these in a run are not unusual
        return {"type": "text_delta", "agent": event.agent, "text": event.text}
    return _encode_other(event)


def encode_result(result: Result) -> dict[str, Any]:
    """What a run came to, as the object of `--output-format json`. Cache writes of all lives are one number.

    `data` is there only where the answer was asked for as a type, and is one.
    """
    usage = result.usage
    return {
        "result": result.content,
        "is_error": result.is_error,
        "error": {"kind": result.error.kind, "message": result.error.message} if result.error else None,
        "stop_reason": result.stop_reason,
        "session_id": result.session_id,
        "session_path": result.session_path,
        "head": result.head,
        "model": result.model,
        "num_turns": result.turns,
        "duration_ms": round(result.duration * 1000),
        "usage": _show_usage(usage),
        "cost_usd": _show_cost(result.cost),
        "permission_denials": [_show_denial(denial) for denial in result.denials],
        **(
            {"advisors": {name: _show_tally(tally) for name, tally in result.advisors.items()}}
            if result.advisors
            else {}
        ),
        **({"context": _show_saving(result.saving)} if result.saving.compactions else {}),
        **({"data": _show_data(result.data)} if result.data is not None else {}),
    }


def _encode_other(event: Event) -> dict[str, Any]:  # noqa: C901 -- one arm for each class of the union
    match event:
        case TextDelta(agent, text):
            return {"type": "text_delta", "agent": agent, "text": text}
        case ThinkingDelta(agent, text):
            return {"type": "thinking_delta", "agent": agent, "text": text}
        case ToolProgress(agent, call_id, text):
            return {"type": "tool_progress", "agent": agent, "call_id": call_id, "text": text}
        case ToolStarted(agent, call):
            return {"type": "tool_started", "agent": agent, **_show_call(call)}
        case ToolFinished():
            return _show_finished_tool(event)
        case Received(agent, message):
            return {"type": "received", "agent": agent, "message": _show_message(message)}
        case ReplyFinished(agent, message, usage, usd):
            shown = {"message": _show_message(message), "usage": _show_usage(usage), "usd": _show_usd(usd)}
            return {"type": "reply_finished", "agent": agent, **shown}
        case SessionOpened(agent, session_id, session_path, model, resumed):
            session = {"session_id": session_id, "session_path": session_path, "model": model, "resumed": resumed}
            return {"type": "session", "version": VERSION, "agent": agent, **session}
        case Retrying(agent, reason, kind, attempt, seconds, discarded):
            why = {"reason": reason, "kind": kind, "attempt": attempt, "seconds": seconds, "discarded": discarded}
            return {"type": "retrying", "agent": agent, **why}
        case AdviceDelta(agent, advisor, trigger, text):
            return {"type": "advice_delta", "agent": agent, "advisor": advisor, "trigger": trigger, "text": text}
        case Advised(agent, advice):
            return {"type": "advice", "agent": agent, **show_advice(advice)}
        case Denied(agent, denial):
            return {"type": "denied", "agent": agent, **_show_denial(denial)}
        case Switched(agent, what):
            return {"type": "switched", "agent": agent, "what": what}
        case Notice(agent, level, text):
            return {"type": "notice", "agent": agent, "level": level, "text": text}
        case Finished(agent, result):
            return {"type": "result", "agent": agent, **encode_result(result)}
        case _:
            assert_never(event)


def _show_finished_tool(event: ToolFinished) -> dict[str, Any]:
    return {
        "type": "tool_finished",
        "agent": event.agent,
        **_show_call(event.call),
        **_show_outcome(event.result),
        "seconds": event.seconds,
        "summary": event.summary,
        "diff": event.diff,
        **({"job": event.job} if event.job else {}),
    }


def show_advice(advice: Advice) -> dict[str, Any]:
    """A consultation, its members under their own names; what there is nothing to say of is left out."""
    shown: dict[str, Any] = {"advisor": advice.advisor, "model": advice.model, "trigger": advice.trigger}
    shown |= {"status": advice.status, "text": advice.text, "verdict": advice.verdict, "gaps": list(advice.gaps)}
    shown |= {"next": advice.next, "check": advice.check, "reason": advice.reason, "question": advice.question}
    told = {"usage": _show_usage(advice.usage), "usd": _show_usd(advice.usd), "seconds": round(advice.seconds, 3)}
    return {name: value for name, value in shown.items() if value} | told


def _show_saving(saving: Saving) -> dict[str, Any]:
    usd = _show_usd(saving.usd)
    return {"compactions": saving.compactions, "tokens_saved": saving.tokens, "usd_saved": usd}


def _show_tally(tally: AdvisorTally) -> dict[str, Any]:
    told = {each.name: getattr(tally, each.name) for each in fields(tally) if each.name not in ("usage", "usd")}
    return {**told, "usage": _show_usage(tally.usage), "usd": _show_usd(tally.usd)}


def _show_message(message: Message) -> dict[str, Any]:
    """A message without what only its provider can read."""
    out: dict[str, Any] = {"role": message.role, "parts": [_show_part(part) for part in message.parts]}
    if message.sender:
        out["sender"] = message.sender
    if message.role == "assistant":
        out |= {"model": message.model, "stop_reason": message.stop}
    return out


def _show_part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text):
            return {"type": "thinking", "text": text}
        case Opaque(text):
            return {"type": "opaque", "text": text}
        case Image() | Document():
            return _show_media(part)
        case ToolCall():
            return {"type": "tool_call", **_show_call(part)}
        case ToolResult():
            return {"type": "tool_result", "call_id": part.call_id, **_show_outcome(part)}
        case _:
            assert_never(part)


def _show_call(call: ToolCall) -> dict[str, Any]:
    out: dict[str, Any] = {"call_id": call.id, "name": call.name, "arguments": json_thaw(call.arguments)}
    if call.malformed is not None:
        out["malformed"] = call.malformed
    return out


def _show_outcome(result: ToolResult) -> dict[str, Any]:
    media = [_show_media(part) for part in result.content if isinstance(part, Image | Document)]
    shown: dict[str, Any] = {"text": result.text, "media": media, "is_error": result.is_error}
    return {**shown, "denied": True} if result.denied else shown


def _show_media(part: Image | Document) -> dict[str, Any]:
    out: dict[str, Any] = {
        "type": "image" if isinstance(part, Image) else "document",
        "media_type": part.media_type,
        "size": len(part.data),
        "sha256": sha256_hex(part.data),
    }
    if isinstance(part, Document) and part.name:
        out["name"] = part.name
    return out


def _show_denial(denial: Denial) -> dict[str, str]:
    return {"tool": denial.tool, "call_id": denial.call_id, "reason": denial.reason}


def _show_data(data: object) -> Any:
    """Data of a person's own type as plain JSON; what JSON has no word for as text."""
    if isinstance(data, Enum):
        return _show_data(data.value)
    if data is None or isinstance(data, str | bool | int):
        return data
    if isinstance(data, float):
        return data if isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(name): _show_data(item) for name, item in data.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType] -- each item is looked at
    if isinstance(data, list | tuple | set | frozenset):
        return [_show_data(item) for item in data]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType] -- each item is looked at
    if callable(dump := getattr(data, "model_dump", None)):  # a pydantic model
        return _show_data(dump(by_alias=True))
    if is_dataclass(data):
        return {each.name: _show_data(getattr(data, each.name)) for each in fields(data)}
    if isinstance(data, bytes):
        return b2a_base64(data, newline=False).decode()
    told = getattr(data, "isoformat", None)
    return told() if callable(told) else str(data)


def _show_usage(usage: Usage) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write + usage.cache_write_1h,
        "reasoning": usage.reasoning,
    }
    return {**shown, "fees": dict(usage.fees)} if usage.fees else shown


def _show_cost(cost: Cost) -> dict[str, Any]:
    return {
        "total": float(cost.total),
        "executor": float(cost.executor),
        "advisor": float(cost.advisor),
        "other": float(cost.other),
        "by_model": {model: float(usd) for model, usd in cost.by_model.items()},
        "by_agent": {agent: float(usd) for agent, usd in cost.by_agent.items()},
        "by_role": {role: float(usd) for role, usd in cost.by_role.items()},
        "unpriced": list(cost.unpriced),
    }


def _show_usd(usd: Decimal | None) -> float | None:
    return None if usd is None else float(usd)
