"""Events and results as JSON: the output of `--output-format json` and `stream-json`.

They have what a person would see: results as text, media as descriptions, USD as numbers.
"""

import re
from binascii import b2a_base64
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from math import isfinite
from typing import Any, assert_never, cast

from sagent.codec import VERSION
from sagent.events import Advice, Advised, AdvisorTally, Denial, Event, Finished, Result, SessionOpened, TextDelta
from sagent.lib.json import json_thaw, sha256_hex
from sagent.lib.money import number
from sagent.lib.text import one_line, printable
from sagent.messages import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sagent.session.entries import show_advice, show_usage
from sagent.usage import Cost, Saving, Usage

_TYPES: Mapping[type[Event], str] = {SessionOpened: "session", Advised: "advice", Finished: "result"}
"""The types of events that are not called like their classes."""


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as one line of stream-json: `type` (snake_case), `agent`, and its members; those of a call,
    result, advice or denial are at the top level. USD are numbers."""
    if type(event) is TextDelta:  # thirty thousand of these in a run are not unusual
        return {"type": "text_delta", "agent": event.agent, "text": event.text}
    out: dict[str, Any] = {"type": _type_of(type(event))}
    if isinstance(event, SessionOpened):
        out["version"] = VERSION
    for field in fields(event):
        out |= _encode_member(field.name, getattr(event, field.name))
    return out


def encode_result(result: Result) -> dict[str, Any]:
    """Encode the result of a run as the object of `--output-format json`. Cache writes of all lives are one number.

    `data` is present only if a typed answer was requested and is valid.
    """
    usage = result.usage
    return {
        "result": result.content,
        "is_error": result.is_error,
        "error": asdict(result.error) if result.error else None,
        "stop_reason": result.stop_reason,
        "session_id": result.session_id,
        "session_path": result.session_path,
        "head": result.head,
        "model": result.model,
        "num_turns": result.turns,
        "duration_ms": round(result.duration * 1000),
        "usage": show_usage(usage),
        "cost_usd": {**encode_cost(result.cost), "run": float(result.run_usd)},
        **({"sandbox": result.sandbox} if result.sandbox else {}),
        "permission_denials": [asdict(denial) for denial in result.denials],
        **(
            {"advisors": {name: _show_tally(tally) for name, tally in result.advisors.items()}}
            if result.advisors
            else {}
        ),
        **({"context": _show_saving(result.saving)} if result.saving.compactions else {}),
        **({"data": _show_data(result.data)} if result.data is not None else {}),
    }


@cache
def _type_of(event: type[Event]) -> str:
    return _TYPES.get(event) or re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


def _encode_member(name: str, value: object) -> dict[str, Any]:
    match value:
        case ToolCall():
            return _show_call(value)
        case ToolResult():
            return _show_outcome(value)
        case Advice():
            return show_advice(value)
        case Denial():
            return asdict(value)
        case Result():
            return encode_result(cast("Result", value))
        case Message():
            return {name: _show_message(value)}
        case Usage():
            return {name: show_usage(value)}
        case Decimal():
            return {name: float(value)}
        case _:
            return {} if name == "job" and not value else {name: value}


def _show_saving(saving: Saving) -> dict[str, Any]:
    usd = number(saving.usd)
    return {"compactions": saving.compactions, "tokens_saved": saving.tokens, "usd_saved": usd}


def _show_tally(tally: AdvisorTally) -> dict[str, Any]:
    counts = {field.name: getattr(tally, field.name) for field in fields(tally) if field.name not in ("usage", "usd")}
    return {**counts, "usage": show_usage(tally.usage), "usd": number(tally.usd)}


def _show_message(message: Message) -> dict[str, Any]:
    """Return a message without what only its provider can read."""
    out: dict[str, Any] = {"role": message.role, "parts": [_show_part(part) for part in message.parts]}
    if message.sender:
        out["sender"] = message.sender
    if message.role == "assistant":
        out |= {"model": message.model, "stop_reason": message.stop}
    return out


def provider_tool_lines(message: Message) -> list[str]:
    """Return a line for each action of the provider's own tools in a reply, without control characters."""
    found = (part.text for part in message.parts if isinstance(part, Opaque) and part.text.strip())
    return [f"{printable(one_line(text, 160))}" for text in found]


def _show_part(part: Part) -> dict[str, Any]:
    match part:
        case Text() | Thinking() | Opaque():
            return {"type": type(part).__name__.lower(), "text": part.text}
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
    return out if call.whole else {**out, "whole": False}


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


def _show_data(data: object) -> Any:
    """Encode data of a person's own type as plain JSON; values that JSON cannot express become text."""
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
        return {field.name: _show_data(getattr(data, field.name)) for field in fields(data)}
    if isinstance(data, bytes):
        return b2a_base64(data, newline=False).decode()
    isoformat = getattr(data, "isoformat", None)
    return isoformat() if callable(isoformat) else str(data)


def encode_cost(cost: Cost) -> dict[str, Any]:
    """Encode the cost of a session, as the `cost_usd` of a result."""
    return {
        "total": float(cost.total),
        "executor": float(cost.executor),
        "advisor": float(cost.advisor),
        "other": float(cost.other),
        "by_model": {model: float(usd) for model, usd in cost.by_model.items()},
        "by_agent": {agent: float(usd) for agent, usd in cost.by_agent.items()},
        "by_role": {role: float(usd) for role, usd in cost.by_role.items()},
        "unpriced": list(cost.unpriced),
        "unbilled": float(cost.unbilled),
    }
