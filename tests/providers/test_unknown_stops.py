"""Calls of a reply that ended for a reason which is not known: made only where their arguments show their own end."""

import json

import pytest

from sagent.model import Delta
from sagent.plugins.clouds.converse_events import ConverseReplyReader
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.families.google.events import GenerateReplyReader
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.reply import ReplyReader

UNKNOWN = "paused_by_gateway"
ORIGIN = Origin("acme", "m")
FAMILIES = ["anthropic", "converse", "chat"]


def streamed(family: str, text: str, reason: str) -> ReplyReader:
    out: list[Delta] = []
    match family:
        case "anthropic":
            block = {"type": "tool_use", "id": "c", "name": "Write", "input": {}}
            reader: ReplyReader = MessagesReplyReader(ORIGIN)
            events: list[dict[str, object]] = [
                {"type": "message_start", "message": {"id": "m"}},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": text},
                },
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": reason}},
                {"type": "message_stop"},
            ]
        case "converse":
            reader = ConverseReplyReader(ORIGIN, "converse:amazon")
            events = [
                {
                    "contentBlockStart": {
                        "contentBlockIndex": 0,
                        "start": {"toolUse": {"toolUseId": "c", "name": "Write"}},
                    }
                },
                {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": text}}}},
                {"contentBlockStop": {"contentBlockIndex": 0}},
                {"messageStop": {"stopReason": reason}},
            ]
        case _:
            reader = ChatReplyReader(ORIGIN, "chat:acme")
            call = {"index": 0, "id": "c", "function": {"name": "Write", "arguments": text}}
            events = [
                {"choices": [{"delta": {"tool_calls": [call]}}]},
                {"choices": [{"delta": {}, "finish_reason": reason}]},
            ]
    for event in events:
        reader.feed(event, out)
    return reader


def at_once(family: str, given: dict[str, str], reason: str) -> ReplyReader:
    if family == "anthropic":
        reader: ReplyReader = MessagesReplyReader(ORIGIN)
        block = {"type": "tool_use", "id": "c", "name": "Write", "input": given}
        reader.whole({"type": "message", "content": [block], "stop_reason": reason}, [])
    else:
        reader = ConverseReplyReader(ORIGIN, "converse:amazon")
        use = {"toolUse": {"toolUseId": "c", "name": "Write", "input": given}}
        reader.whole({"output": {"message": {"content": [use]}}, "stopReason": reason}, [])
    return reader


def made(reader: ReplyReader) -> bool:
    (call,) = reader.message().calls
    return call.whole and call.malformed is None


@pytest.mark.parametrize("family", FAMILIES)
def test_text_arguments_show_completeness(family: str) -> None:
    whole = json.dumps({"file_path": "a", "content": "é {"})
    assert made(streamed(family, whole, UNKNOWN))
    assert not any(made(streamed(family, whole[:end], UNKNOWN)) for end in range(len(whole)))


@pytest.mark.parametrize("text", ["", "{}", " { } ", "null"])
@pytest.mark.parametrize("family", FAMILIES)
def test_empty_arguments_show_no_end(family: str, text: str) -> None:
    assert not made(streamed(family, text, UNKNOWN))
    assert made(streamed(family, text, "tool_use"))


@pytest.mark.parametrize("given", [{}, {"file_path": "a"}])
def test_gemini_body_without_reason(given: dict[str, str]) -> None:
    part = {"functionCall": {"name": "Write", "args": given}}
    for reason in (None, "STOP"):
        reader = GenerateReplyReader(ORIGIN)
        reader.whole({"candidates": [{"content": {"parts": [part]}, "finishReason": reason}]}, [])
        assert made(reader) == bool(given or reason)


@pytest.mark.parametrize("reason", ["stop", "tool_calls", None])
@pytest.mark.parametrize("native", ["length", "MAX_TOKENS", "max_output_tokens", "content_filter", "SAFETY", "refusal"])
def test_gateway_cut_by_model_reason(reason: str | None, native: str) -> None:
    reader = ChatReplyReader(ORIGIN, "chat:acme")
    call = {"index": 0, "id": "c", "function": {"name": "Write", "arguments": ""}}
    reader.feed({"choices": [{"delta": {"tool_calls": [call]}}]}, [])
    reader.feed({"choices": [{"delta": {}, "finish_reason": reason, "native_finish_reason": native}]}, [])
    assert not made(reader)


@pytest.mark.parametrize("native", ["STOP", "completed", "tool_calls", "end_turn", "eos"])
def test_known_end_reasons_change_nothing(native: str) -> None:
    reader = ChatReplyReader(ORIGIN, "chat:acme")
    call = {"index": 0, "id": "c", "function": {"name": "Write", "arguments": ""}}
    reader.feed({"choices": [{"delta": {"tool_calls": [call]}}]}, [])
    reader.feed({"choices": [{"delta": {}, "finish_reason": "tool_calls", "native_finish_reason": native}]}, [])
    assert made(reader)


@pytest.mark.parametrize("family", FAMILIES[:2])
@pytest.mark.parametrize("given", [{}, {"file_path": "a"}])
def test_object_arguments_may_have_been_cut(family: str, given: dict[str, str]) -> None:
    assert made(at_once(family, given, "tool_use"))
    assert not made(at_once(family, given, UNKNOWN))
