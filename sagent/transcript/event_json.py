"""Events and results as JSON: what `--output-format json` and `stream-json` write.

They have what a person would see: results as text, media as descriptions, USD as numbers.
"""

from binascii import b2a_base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, assert_never

from sagent.codec import VERSION
from sagent.events import (
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
from sagent.lib.json import json_thaw, sha256_hex
from sagent.messages import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sagent.session.table import show_advice, show_usage
from sagent.usage import Cost, Saving


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
        "usage": show_usage(usage),
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
            shown = {"message": _show_message(message), "usage": show_usage(usage), "usd": _show_usd(usd)}
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


def _show_saving(saving: Saving) -> dict[str, Any]:
    usd = _show_usd(saving.usd)
    return {"compactions": saving.compactions, "tokens_saved": saving.tokens, "usd_saved": usd}


def _show_tally(tally: AdvisorTally) -> dict[str, Any]:
    told = {each.name: getattr(tally, each.name) for each in fields(tally) if each.name not in ("usage", "usd")}
    return {**told, "usage": show_usage(tally.usage), "usd": _show_usd(tally.usd)}


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
