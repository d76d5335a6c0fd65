"""A run from its events: what `--trace` and `--output-format stream-json` write."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sagent.codec import decode_usage
from sagent.lib.json import as_array, as_int, as_number, as_object, as_str
from sagent.lib.money import as_usd
from sagent.lib.text import why_unread
from sagent.plugins.exports.steps import (
    Answered,
    Charged,
    Consulted,
    Damaged,
    Ended,
    MessageStep,
    Opened,
    Refused,
    Remark,
    Step,
    Turn,
    torn,
)
from sagent.session.contents import ConsultationEntry, StoredCall, json_text
from sagent.session.entries import decode
from sagent.usage import Charge

_SKIPPED = {"text_delta", "thinking_delta", "tool_progress", "tool_started", "advice_delta"}
"""Pieces of messages that follow as a whole."""


def read_events(lines: Iterable[bytes]) -> Iterator[Step]:
    """Yield the steps of a run from lines of JSON, in UTF-8 or, as PowerShell writes them, in UTF-16. An unreadable
    line is a step of its own."""
    first = b""
    for number, line in enumerate(lines, 1):
        first = first or line[:1]  # UTF-16 and UTF-32 differ in the position of line ends' NULs
        bare = line.removesuffix(b"\n")
        whole = bare.rstrip(b"\0") if first in (b"\0", b"\xfe") else bare.lstrip(b"\0")
        if not whole.strip(b"\0\r\t "):
            continue
        try:
            value: object = json.loads(whole)
        except (ValueError, RecursionError) as error:
            yield Damaged(number, f"not JSON ({_first_line(error)}){torn(line)}")
            continue
        event = as_object(value)
        kind = as_str(event.get("type"))
        if not kind:
            yield Damaged(number, "not an event: it has no `type`")
        elif kind not in _SKIPPED:
            found = list(_steps(kind, as_str(event.get("agent"), "root"), event))
            yield from found or [Damaged(number, f"an event of the unknown type {kind!r}")]


def _steps(kind: str, agent: str, event: Mapping[str, object]) -> Iterator[Step]:
    match kind:
        case "session":
            model, at = as_str(event.get("model")), as_str(event.get("at"))
            resumed = event.get("resumed") is True
            yield Opened(agent, as_str(event.get("session_id")), model, resumed=resumed, at=at)
        case "received":
            message = as_object(event.get("message"))
            yield MessageStep(agent, _text(message), as_str(message.get("sender")))
        case "reply_finished":
            yield from _turn(agent, event)
        case "tool_finished":
            yield _answered(agent, event)
        case "denied":
            yield Refused(agent, as_str(event.get("call_id")), as_str(event.get("tool")), as_str(event.get("reason")))
        case "advice":
            yield from _consulted(agent, event)
        case "retrying":
            yield Remark(agent, "tried again", (("", as_str(event.get("reason"))),))
        case "switched":
            yield Remark(agent, "switched", (("", as_str(event.get("what"))),))
        case "notice":
            yield Remark(agent, as_str(event.get("text")))
        case "result":
            yield _ended(agent, event)
        case _:
            return


def _turn(agent: str, event: Mapping[str, object]) -> Iterator[Step]:
    message = as_object(event.get("message"))
    model = as_str(message.get("model"))
    calls = tuple(
        StoredCall(as_str(part.get("call_id")), as_str(part.get("name")), json_text(part.get("arguments")))
        for part in map(as_object, as_array(message.get("parts")))
        if part.get("type") == "tool_call"
    )
    yield Turn(agent, model, _text(message), calls, as_str(message.get("stop_reason")), as_str(event.get("at")))
    yield Charged(agent, _charge("executor", model, event), at_once=True)


def _consulted(agent: str, event: Mapping[str, object]) -> Iterator[Step]:
    content = decode("advice", event)  # its members are the log's, except for USD
    if isinstance(content, ConsultationEntry):
        advice = replace(content.advice, usd=as_usd(event.get("usd")))
        yield Consulted(agent, advice)
        if advice.usage.total_input or advice.usage.output:
            yield Charged(agent, _charge(f"advisor:{advice.advisor}", advice.model, event), at_once=True)


def _charge(role: str, model: str, event: Mapping[str, object]) -> Charge:
    return Charge(model, decode_usage(event.get("usage")), usd=as_usd(event.get("usd")), role=role)


def _answered(agent: str, event: Mapping[str, object]) -> Answered:
    what = as_str(event.get("summary")) or as_str(event.get("text"))
    failed = event.get("is_error") is True
    seconds = as_number(event.get("seconds"))
    return Answered(agent, as_str(event.get("call_id")), as_str(event.get("name")), what, failed, seconds)


def _ended(agent: str, event: Mapping[str, object]) -> Ended:
    cost = as_object(event.get("cost_usd"))
    usd = {kind: as_usd(cost.get(kind)) for kind in ("total", "executor", "advisor", "other", "unbilled")}
    error = as_object(event.get("error"))
    return Ended(
        agent,
        as_str(event.get("stop_reason")),
        as_str(error.get("message")),
        as_int(event.get("num_turns")),
        as_number(event.get("duration_ms")) / 1000,
        {kind: amount for kind, amount in usd.items() if amount is not None},
        tuple(as_str(model) for model in as_array(cost.get("unpriced"))),
    )


def _text(message: Mapping[str, object]) -> str:
    parts = map(as_object, as_array(message.get("parts")))
    return "".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")


def _first_line(error: Exception) -> str:
    return (why_unread(error) or type(error).__name__).split("\n", 1)[0]
