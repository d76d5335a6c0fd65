"""Replies that end twice, for a good reason and for a bad one, and calls that are announced twice."""

from collections.abc import Mapping, Sequence

import pytest

from sagent.messages import Message, Opaque, Private, Text, ToolCall
from sagent.testing.server import Raw, Turn
from tests.agent.test_cut_calls import (
    ADDED,
    ANTHROPIC,
    CHAT,
    CONVERSE,
    CUT,
    GOOGLE,
    RESPONSES,
    asked,
    chunk,
    item,
    played,
    region,
    responded,
    stream,
)

__all__ = ["region"]  # a fixture
Events = Sequence[Mapping[str, object]]
ARGUMENTS = '{"path": "/a"}'


def chat(*reasons: str) -> Raw:
    return stream(asked(ARGUMENTS), *map(chunk, reasons), "[DONE]")


def messages(*reasons: str) -> Raw:
    block = {"type": "tool_use", "id": "t", "name": "wipe", "input": {}}
    said = {"type": "input_json_delta", "partial_json": ARGUMENTS}
    ends = ({"type": "message_delta", "delta": {"stop_reason": reason}} for reason in reasons)
    return stream(
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": said},
        {"type": "content_block_stop", "index": 0},
        *ends,
        {"type": "message_stop"},
        named=True,
    )


def generated(*reasons: str) -> Raw:
    call = {"content": {"parts": [{"functionCall": {"name": "wipe", "args": {"path": "/a"}}}]}}
    ends = ({"candidates": [{"content": {"parts": []}, "finishReason": reason}]} for reason in reasons)
    return stream({"candidates": [call]}, *ends)


def conversed(*reasons: str) -> Raw:
    import json

    from sagent.testing.families.converse import frame

    use = {"start": {"toolUse": {"toolUseId": "t", "name": "wipe"}}, "contentBlockIndex": 0}
    events: list[tuple[str, Mapping[str, object]]] = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockStart", use),
        ("contentBlockDelta", {"delta": {"toolUse": {"input": ARGUMENTS}}, "contentBlockIndex": 0}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        *(("messageStop", {"stopReason": reason}) for reason in reasons),
        ("metadata", {"usage": {"inputTokens": 9, "outputTokens": 9, "totalTokens": 18}}),
    ]
    frames = (
        frame({":event-type": name, ":message-type": "event"}, json.dumps(event).encode()) for name, event in events
    )
    return Raw(200, (("content-type", "application/vnd.amazon.eventstream"),), b"".join(frames))


WAYS = {CHAT: chat, ANTHROPIC: messages, GOOGLE: generated, CONVERSE: conversed}
SOUND = {CHAT: "stop", ANTHROPIC: "end_turn", GOOGLE: "STOP", CONVERSE: "end_turn"}
WRONG = {
    CHAT: ("length", "content_filter", "refusal"),
    ANTHROPIC: ("max_tokens", "refusal", "model_context_window_exceeded"),
    GOOGLE: ("MAX_TOKENS", "SAFETY"),
    CONVERSE: ("max_tokens", "guardrail_intervened"),
}
EACH = [(family, wrong) for family, reasons in WRONG.items() for wrong in reasons]


@pytest.mark.parametrize(("family", "wrong"), EACH)
async def test_later_good_end_keeps_call_cut(family: str, wrong: str) -> None:
    """Gateways end a stream with a reason of their own."""
    for reasons in ((wrong, SOUND[family]), (SOUND[family], wrong), (wrong, wrong)):
        wipe, results, _, _ = await played(family, [WAYS[family](*reasons), Turn("ok")])
        assert (wipe.paths, len(results)) == ([], 1)


@pytest.mark.parametrize("family", WAYS)
async def test_repeated_good_end_is_one(family: str) -> None:
    wipe, _, _, _ = await played(family, [WAYS[family](SOUND[family], SOUND[family]), Turn("ok")])
    assert wipe.paths == ["/a"]


@pytest.mark.parametrize("family", [CHAT, ANTHROPIC, CONVERSE])
@pytest.mark.parametrize("reason", ["cancelled", "request_timeout", "preempted", "repetition_detected", "aborted"])
async def test_broken_off_reply_makes_no_call(family: str, reason: str) -> None:
    wipe, _, _, _ = await played(family, [WAYS[family](reason), Turn("ok")])
    assert wipe.paths == []


@pytest.mark.parametrize(
    ("error", "made"),
    [
        ({"message": "Violated guardrail policy", "type": "None", "code": "400"}, False),
        ({"message": "flagged", "code": "content_policy_violation"}, False),
        ({"message": "The response was filtered", "code": "content_filter"}, False),
        ({"message": "no usage could be counted", "type": "server_error"}, True),  # the reply is whole, and paid for
    ],
)
async def test_filter_after_end_withdraws_calls(error: Mapping[str, str], made: bool) -> None:
    """A gateway's filter has read the whole reply, which it has passed on meanwhile."""
    events = (asked(ARGUMENTS), chunk("tool_calls"), {"error": error}, "[DONE]")
    wipe, results, reason, _ = await played(CHAT, [stream(*events), Turn("ok")])
    assert (wipe.paths, len(results)) == (["/a"] if made else [], 1)
    assert reason == ("end" if made else "content_filter")


DONE = {"type": "response.output_item.done", "output_index": 0}
WHOLE = {**DONE, "item": item(arguments=ARGUMENTS, status="completed")}


@pytest.mark.parametrize(
    "answer",
    [
        responded(ADDED, WHOLE, output=[item(arguments=ARGUMENTS, status="incomplete")]),
        responded(ADDED, WHOLE, incomplete_details={"reason": "max_output_tokens"}),
        responded(ADDED, {**DONE, "item": item(arguments=ARGUMENTS, status="incomplete")}, WHOLE),
        stream(
            ADDED,
            WHOLE,
            {
                "type": "response.incomplete",
                "response": {"id": "r", "status": "in_progress", "incomplete_details": {"reason": "content_filter"}},
            },
            named=True,
        ),
        stream(ADDED, WHOLE, {"type": "response.failed", "response": {"id": "r", "status": "in_progress"}}, named=True),
    ],
    ids=["in the output", "details", "closed again", "event", "failed event"],
)
async def test_incomplete_response_makes_no_call(answer: Raw) -> None:
    wipe, _, _, _ = await played(RESPONSES, [answer, Turn("ok")])
    assert wipe.paths == []


async def test_twice_announced_call_keeps_arguments() -> None:
    """Else it would be made with its defaults."""
    block = {"type": "tool_use", "id": "t", "name": "wipe", "input": {}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    events = [
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}},
        start,
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ARGUMENTS}},
        start,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    wipe, _, _, _ = await played(ANTHROPIC, [stream(*events, named=True), Turn("ok")])
    assert wipe.paths == ["/a"]
    said = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": ARGUMENTS}
    closed = {**DONE, "item": item(arguments="", status="completed")}
    wipe, _, _, _ = await played(RESPONSES, [responded(ADDED, said, ADDED, closed), Turn("ok")])
    assert wipe.paths == ["/a"]


@pytest.mark.parametrize("stop", CUT)
def test_signature_after_call_proves_no_end(stop: str) -> None:
    call, sign = ToolCall("c", "wipe"), Opaque("", Private("google", "s"))
    for parts, whole in (((call, sign), False), ((call, sign, sign), False), ((call, Text("so"), sign), True)):
        message = Message("assistant", parts, stop=stop)  # pyright: ignore[reportArgumentType] -- one of StopReason
        assert [each.whole for each in message.calls] == [whole]
        assert len(message.parts) == len(parts)
    assert Message("assistant", (sign,), stop="max_tokens").parts == (sign,)
