"""Messages survive a log; events and results have the form that is documented."""

import json
from dataclasses import fields
from decimal import Decimal
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.codec import (
    decode_message,
    decode_result_part,
    decode_usage,
    encode_message,
    encode_result_part,
    encode_usage,
)
from sagent.events import (
    Advice,
    AdviceDelta,
    Advised,
    Denial,
    Denied,
    Event,
    Failure,
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
from sagent.lib.json import canonical_bytes, json_freeze, json_load, sha256_hex
from sagent.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Private,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from sagent.session.contents import ChargeEntry
from sagent.session.entries import decode, encode
from sagent.transcript.event_json import encode_event, encode_result
from sagent.usage import Charge, Cost, Usage
from tests.depth import deep

# -- messages ----------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
frozen = json_values.map(json_freeze)
objects = st.dictionaries(st.text(max_size=5), json_values, max_size=3).map(json_freeze)
private = st.builds(Private, st.text(max_size=8), frozen)
text = st.builds(Text, st.text(max_size=20), st.none() | private)
image = st.builds(Image, st.sampled_from(["image/png", "image/webp"]), st.binary(max_size=20))
document = st.builds(Document, st.just("application/pdf"), st.binary(max_size=20), st.text(max_size=5))
parts = st.one_of(
    text,
    image,
    document,
    st.builds(Thinking, st.text(max_size=20), st.none() | private),
    st.builds(ToolCall, st.text(max_size=8), st.text(max_size=8), objects, st.none() | st.text(), st.none() | private),
    st.builds(ToolResult, st.text(max_size=8), st.lists(text | image | document, max_size=3).map(tuple), st.booleans()),
    st.builds(Opaque, st.text(max_size=8), private),
)
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    st.lists(parts, max_size=5).map(tuple),
    st.text(max_size=8),
    st.text(max_size=8),
    st.none() | st.sampled_from(get_args(StopReason)),
)


@settings(max_examples=deep(60, 150), deadline=None)
@given(messages)
def test_message_survives_with_inline_media(message: Message):
    line = json.dumps(encode_message(message, None))
    again = decode_message(json.loads(line), None)
    assert again == message
    assert json.dumps(encode_message(again, None)) == line  # 1, 1.0 and True are equal, but not the same


@settings(max_examples=deep(40, 100), deadline=None)
@given(messages)
def test_message_survives_with_media_in_blobs(message: Message):
    blobs: dict[str, bytes] = {}

    def keep(data: bytes) -> str:
        blobs[sha256_hex(data)] = data
        return sha256_hex(data)

    line = json.dumps(encode_message(message, keep))
    assert decode_message(json.loads(line), blobs.__getitem__) == message
    assert decode_message(json_load(line), blobs.get) == message


def test_members_of_later_versions_are_skipped():
    encoded = encode_message(assistant("hi", ToolCall("1", "Read")), None)
    encoded["later"] = 1
    for part in encoded["parts"]:
        part["later"] = {"x": 1}
    assert decode_message(encoded, None) == assistant("hi", ToolCall("1", "Read"))


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "text",
        {},
        {"role": "user"},
        {"role": "system", "parts": []},
        {"role": 1, "parts": []},
        {"role": "user", "parts": {}},
        {"role": "user", "parts": "text"},
        {"role": "user", "parts": [], "stop": "later"},
        {"role": "user", "parts": [], "sender": 1},
        {"role": "user", "parts": ["text"]},
        {"role": "user", "parts": [{"type": "hologram"}]},
        {"role": "user", "parts": [{"text": "x"}]},
        {"role": "user", "parts": [{"type": "text"}]},
        {"role": "user", "parts": [{"type": "text", "text": "x", "private": []}]},
        {"role": "user", "parts": [{"type": "opaque", "text": "x"}]},
        {"role": "user", "parts": [{"type": "image", "media_type": "image/png"}]},
        {"role": "user", "parts": [{"type": "image", "media_type": "image/png", "blob": "0" * 64}]},
        {"role": "user", "parts": [{"type": "image", "media_type": "image/png", "data": "%%%"}]},
        {"role": "user", "parts": [{"type": "tool_call", "id": "1", "name": "Read"}]},
        {"role": "user", "parts": [{"type": "tool_call", "id": "1", "name": "Read", "arguments": []}]},
        {"role": "user", "parts": [{"type": "tool_result", "call_id": "1"}]},
        {
            "role": "user",
            "parts": [{"type": "tool_result", "call_id": "1", "content": [{"type": "thinking", "text": ""}]}],
        },
    ],
)
def test_non_message_is_a_value_error(broken: object):
    with pytest.raises(ValueError, match=r"."):
        decode_message(broken, None)


def test_lost_media_leave_a_note():
    encoded = encode_message(user("look", Image("image/png", b"x")), sha256_hex)
    assert decode_message(encoded, lambda _: None).content == f"look[image/png is lost: blob {sha256_hex(b'x')}]"


def test_result_survives_alone():
    result = ToolResult("1", (Text("a"), Image("image/png", b"x")), is_error=True)
    assert decode_result_part(encode_result_part(result, None), None) == result
    with pytest.raises(ValueError, match="must be"):
        decode_result_part({"call_id": "1", "content": [{"type": "thinking", "text": "x"}]}, None)


counts = st.integers(0, 10**12)
kinds = st.dictionaries(st.text(max_size=20), st.integers(1, 10**6), max_size=3)
usages = st.builds(Usage, *[counts] * (len(fields(Usage)) - 1), fees=kinds)


@given(usages)
def test_usage_survives(usage: Usage):
    assert decode_usage(json.loads(json.dumps(encode_usage(usage)))) == usage


@given(usages, usages)
def test_usage_adds_up(one: Usage, other: Usage):
    both = one + other
    assert both.total_input + both.output == one.total_input + one.output + other.total_input + other.output
    assert sum(both.fees.values()) == sum(one.fees.values()) + sum(other.fees.values())
    assert both == other + one


@given(usages)
def test_logged_charge_keeps_its_fees(usage: Usage):
    bill = Charge(
        "claude-x", usage, "priority+us", Decimal("0.0100001"), role="executor", provider="anthropic", agent="root"
    )
    kind, body = encode(ChargeEntry(bill))
    assert decode(kind, json.loads(canonical_bytes(body))) == ChargeEntry(bill)


def test_usage_of_log_before_fees():
    assert decode_usage({"input": 3, "output": 1}) == Usage(input=3, output=1)
    assert "fees" not in encode_usage(Usage(input=3))


# -- events ------------------------------------------------------------------------------------------------------------

CALL = ToolCall("call_1", "Edit", json_freeze({"file_path": "a", "edits": [{"n": 1}]}), private=Private("x", "secret"))
RESULT = ToolResult("call_1", (Text("done"), Image("image/png", b"1234"), Document("application/pdf", b"5", "a.pdf")))
OUTCOME = Result(
    "All done.",
    (Text("All done."),),
    "end",
    usage=Usage(input=1, cache_read=2, cache_write=3, cache_write_1h=4, output=5, reasoning=6),
    cost=Cost(
        Decimal("0.5"), Decimal("0.25"), Decimal("0.125"), Decimal("0.125"), {"a/b": Decimal("0.5")}, {}, ("c/d",)
    ),
    turns=2,
    duration=1.2345,
    model="a/b",
    session_id="s",
    session_path="/s",
    head="f" * 64,
    denials=(Denial("Bash", "call_2", "no"),),
)
EVENTS: dict[str, Event] = {
    "session": SessionOpened("root", "s", "/s", "a/b", resumed=True),
    "received": Received("root", user("hello")),
    "text_delta": TextDelta("root", "hel"),
    "thinking_delta": ThinkingDelta("root", "hm"),
    "reply_finished": ReplyFinished(
        "root",
        assistant("hi", Thinking("hm", Private("x", "secret")), CALL, Opaque("searched", Private("x", "secret"))),
        Usage(input=1, cache_write=2, cache_write_1h=3),
        Decimal("0.001"),
    ),
    "advice_delta": AdviceDelta("root", "advisor", "asked", "Look"),
    "advice": Advised("root", Advice("advisor", "a/b", "asked", "answered", "Look again.", "adjust", ("tests",))),
    "retrying": Retrying("root", "overloaded", "overloaded", 1, 0.5, "hel"),
    "tool_started": ToolStarted("root", CALL),
    "tool_progress": ToolProgress("root", "call_1", "..."),
    "tool_finished": ToolFinished("root", CALL, RESULT, 0.25, "edited", "-a\n+b\n"),
    "denied": Denied("root", Denial("Bash", "call_2", "no")),
    "switched": Switched("root", "model a/b"),
    "notice": Notice("root", "warning", "careful"),
    "result": Finished("root", OUTCOME),
}


def test_every_event_class_is_tried_here():
    assert {type(event) for event in EVENTS.values()} == set(get_args(Event))


@pytest.mark.parametrize("name", EVENTS)
def test_event_is_json_with_type_and_agent(name: str):
    line = json.dumps(encode_event(EVENTS[name]))
    assert json.loads(line)["type"] == name
    assert json.loads(line)["agent"] == "root"
    assert "secret" not in line


def test_text_delta_is_as_documented():
    assert encode_event(TextDelta("root", "hel")) == {"type": "text_delta", "agent": "root", "text": "hel"}


def test_finished_tool_shows_call_and_media():
    assert encode_event(EVENTS["tool_finished"]) == {
        "type": "tool_finished",
        "agent": "root",
        "call_id": "call_1",
        "name": "Edit",
        "arguments": {"file_path": "a", "edits": [{"n": 1}]},
        "text": "done",
        "media": [
            {"type": "image", "media_type": "image/png", "size": 4, "sha256": sha256_hex(b"1234")},
            {
                "type": "document",
                "media_type": "application/pdf",
                "size": 1,
                "sha256": sha256_hex(b"5"),
                "name": "a.pdf",
            },
        ],
        "is_error": False,
        "seconds": 0.25,
        "summary": "edited",
        "diff": "-a\n+b\n",
    }


def test_malformed_call_shows_its_text():
    shown = encode_event(ToolStarted("root", ToolCall("1", "Read", malformed='{"file')))
    assert shown["malformed"] == '{"file'


def test_reply_shows_usage_and_price():
    shown = encode_event(EVENTS["reply_finished"])
    assert shown["usd"] == 0.001
    assert shown["usage"] == {"input": 1, "output": 0, "cache_read": 0, "cache_write": 5, "reasoning": 0}
    searched = ReplyFinished("root", user("hi"), Usage(input=1, fees={"web_search": 2}), None)
    assert encode_event(searched)["usage"]["fees"] == {"web_search": 2}
    assert [part["type"] for part in shown["message"]["parts"]] == ["text", "thinking", "tool_call", "opaque"]
    assert encode_event(ReplyFinished("root", assistant("x"), Usage(), None))["usd"] is None


def test_result_has_members_scripts_read():
    assert encode_result(OUTCOME) == {
        "result": "All done.",
        "is_error": False,
        "error": None,
        "stop_reason": "end",
        "session_id": "s",
        "session_path": "/s",
        "head": "f" * 64,
        "model": "a/b",
        "num_turns": 2,
        "duration_ms": 1234,
        "usage": {"input": 1, "output": 5, "cache_read": 2, "cache_write": 7, "reasoning": 6},
        "cost_usd": {
            "total": 0.5,
            "executor": 0.25,
            "advisor": 0.125,
            "other": 0.125,
            "by_model": {"a/b": 0.5},
            "by_agent": {},
            "by_role": {},
            "unpriced": ["c/d"],
            "unbilled": 0.0,
            "run": 0.0,
        },
        "permission_denials": [{"tool": "Bash", "call_id": "call_2", "reason": "no"}],
    }


def test_failed_result_says_what_failed():
    shown = encode_result(Result("", (), "error", error=Failure("auth", "bad key")))
    assert shown["is_error"] is True
    assert shown["error"] == {"kind": "auth", "message": "bad key"}
