"""Responses: what goes out, what comes in, and what of it goes back."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportOptionalIterable=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false

import json
import struct
import zlib
from collections.abc import Callable
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_handover import check_anthropic, check_chat, histories

from sagent.errors import ModelError
from sagent.lib.json import as_object, json_freeze_object, json_thaw
from sagent.messages import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, assistant, user
from sagent.model import Billed, Delta, Reply, Request, TextPart, ThinkingPart, ToolSpec
from sagent.providers import Anthropic, Moonshot, OpenAI, provider_named
from sagent.providers.families.responses.events import ResponsesReplyReader
from sagent.providers.wire.exchange import Call
from sagent.providers.wire.faults import Origin
from sagent.testing.families import FAMILIES
from sagent.testing.script import Fail, Received, Turn
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage
from tests.depth import deep, slow
from tests.providers.sdk_types import sdk_adapters

TOOLS = (ToolSpec("Read", "Read.", json_freeze_object({"type": "object"})),)
MODEL = "gpt-5.6-terra"
NO_ARGUMENTS = {"type": "object", "properties": {}}


def prepared(*messages: Message, model: str = MODEL, **more: object) -> Call:
    return OpenAI.from_key("k" * 8).model(model).prepare(Request("c", messages or (user("hi"),), **more))


def body_of(*messages: Message, **more: object) -> dict:
    return json.loads(prepared(*messages, **more).body.data)


def complaints(body: dict) -> list[str]:
    """What the scripted server would refuse it for."""
    received = Received("POST", "/v1/responses", "", {}, b"", body, 0.0, 1, "responses")
    return list(FAMILIES["responses"].complaints(received))


def new_draft() -> ResponsesReplyReader:
    return ResponsesReplyReader(Origin("openai", "m"), "responses:openai")


def drafted(*events: dict) -> tuple[ResponsesReplyReader, list[Delta]]:
    reader, out = new_draft(), []
    for event in events:
        reader.feed(event, out)
    return reader, out


def response(*output: dict, **more: object) -> dict:
    return {"id": "resp_1", "object": "response", "status": "completed", "output": list(output), **more}


def replied(*output: dict, **more: object) -> Message:
    reader = new_draft()
    reader.whole(response(*output, **more), [])
    return reader.message()


def ended(**more: object) -> dict:
    return {"type": "response.completed", "response": response(**more)}


def reasoning(number: int = 1, **more: object) -> dict:
    item = {"type": "reasoning", "id": f"rs_{number}", "summary": [{"type": "summary_text", "text": "Hm."}]}
    return {**item, "encrypted_content": f"gAAAA{number}", **more}


def message(number: int = 1, text: str = "Hello.", **more: object) -> dict:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
    return {**item, "phase": "commentary", **more}


def function_call(number: int = 1, arguments: str = '{"path":"a"}', **more: object) -> dict:
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "Read"}
    return {**item, "arguments": arguments, **more}


def searched(number: int = 1) -> dict:
    return {"type": "web_search_call", "id": f"ws_{number}", "status": "completed", "action": {"type": "search"}}


def ran(number: int = 1) -> dict:
    outputs = [{"type": "logs", "logs": "42"}]
    return {
        "type": "code_interpreter_call",
        "id": f"ci_{number}",
        "status": "completed",
        "container_id": "cntr_1",
        "code": "6*7",
        "outputs": outputs,
    }


# ---------------------------------------------------------------------------------------------------------------------
# What goes out


def test_responses_members_in_cacheable_order() -> None:
    call = prepared(system="Be terse.", tools=TOOLS, max_output=99, effort="high")
    body = json.loads(call.body.data)
    assert list(body)[:4] == ["tools", "instructions", "input", "model"]
    assert body["instructions"] == "Be terse."
    assert body["tools"] == [
        {
            "type": "function",
            "name": "Read",
            "description": "Read.",
            "parameters": NO_ARGUMENTS,
            "strict": False,
        }
    ]
    assert body["input"] == [{"role": "user", "content": "hi"}]
    assert (body["stream"], body["store"], body["include"]) == (True, False, ["reasoning.encrypted_content"])
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert (body["max_output_tokens"], len(body["prompt_cache_key"])) == (99, 32)
    assert (call.url, call.notes) == ("https://api.openai.com/v1/responses", ())


@pytest.mark.parametrize(
    ("model", "effort", "sent", "noted"),
    [
        ("gpt-4.1", "high", None, True),
        ("gpt-4o", None, None, False),
        ("gpt-4o", "none", None, False),
        ("gpt-5", "none", {"effort": "minimal", "summary": "auto"}, True),
        ("gpt-5.1", "minimal", {"effort": "none"}, True),
        ("gpt-5.6-terra", "max", {"effort": "max", "summary": "auto"}, False),
        ("gpt-5.6-terra", None, {"summary": "auto"}, False),
        ("gpt-5-pro", "low", {"effort": "high", "summary": "auto"}, True),
        ("o3", "xhigh", {"effort": "high", "summary": "auto"}, True),
    ],
)
def test_only_reasoning_models_get_effort(model: str, effort: str | None, sent: dict | None, noted: bool) -> None:
    call = prepared(model=model, effort=effort, tools=TOOLS)
    body = json.loads(call.body.data)
    assert body.get("reasoning") == sent
    assert ("include" in body) == (sent is not None)
    assert bool(call.notes) == noted
    assert complaints(body) == []


def test_out_of_bounds_is_clamped_and_said() -> None:
    assert [prepared(max_output=5).notes != (), body_of(max_output=5)["max_output_tokens"]] == [True, 16]
    assert prepared(model="gpt-4o", max_output=99_999).notes


def test_family_options_are_sent_as_they_are() -> None:
    options = json_freeze_object(
        {"tools": [{"type": "web_search"}], "include": ["web_search_call.action.sources"], "service_tier": "flex"}
    )
    body = body_of(tools=TOOLS, options=options)
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]
    assert body["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert body["service_tier"] == "flex"


def test_media_in_messages_and_results() -> None:
    media = (
        Image("image/png", b"PNG"),
        Document("application/pdf", b"%PDF", "a.pdf"),
        Document("text/plain", b"words", "n.txt"),
        Image("image/tiff", b"II*"),
    )
    asked = Message("assistant", (ToolCall("1", "Read"),))
    body = body_of(user("look", *media), asked, Message("user", (ToolResult("1", media[:2], is_error=True),)))
    content = body["input"][0]["content"]
    assert [part["type"] for part in content] == ["input_text", "input_image", "input_file", "input_text", "input_text"]
    assert content[1]["image_url"] == "data:image/png;base64,UE5H"
    assert content[2] == {
        "type": "input_file",
        "filename": "a.pdf",
        "file_data": "data:application/pdf;base64,JVBERg==",
    }
    assert content[3]["text"] == "[n.txt]\nwords"
    assert "image/tiff" in content[4]["text"]
    assert body["input"][2]["output"] == [{"type": "input_text", "text": "Error:"}, *content[1:3]]
    assert complaints(body) == []


def test_responses_tool_errors_are_prefixed() -> None:
    asked = Message("assistant", (ToolCall("1", "A"), ToolCall("2", "A")))
    results = (
        ToolResult("1", (Text("no such"), Text("file")), is_error=True),
        ToolResult("2", (Text("Error: gone"),), is_error=True),
    )
    items = body_of(user("hi"), asked, Message("user", results))["input"]
    assert [item["output"] for item in items if "output" in item] == ["Error: no such\nfile", "Error: gone"]


def test_responses_weight() -> None:
    model = OpenAI.from_key("k" * 8).model("gpt-5.2")
    assert 1_000 < model.max_input_tokens(Request("a", [user("x" * 1_000)])) < 2_500
    assert 8_000 < model.max_input_tokens(Request("b", [user("", Image("image/png", b"x" * 2_000_000))])) < 9_500


def blank_png(width: int, height: int) -> bytes:
    """A black picture in shades of grey."""
    rows = zlib.compress(bytes(1 + width) * height)
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0), b"IDAT" + rows, b"IEND")
    framed = (struct.pack(">I", len(each) - 4) + each + struct.pack(">I", zlib.crc32(each)) for each in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


@pytest.mark.parametrize(
    ("width", "height", "detail"), [(2_560, 1_440, "auto"), (4_000, 2_500, "high"), (0, 0, "high")]
)
def test_image_detail_matches_its_weight(width: int, height: int, detail: str) -> None:
    """GPT-5.6 bills an image of 4,000 x 2,500 pixels at 11,900 tokens where it may choose, and refuses larger ones."""
    data = blank_png(width, height) if width else b"no image"
    (item,) = body_of(user("", Image("image/png", data)))["input"]
    assert item["content"][0]["detail"] == detail


# ---------------------------------------------------------------------------------------------------------------------
# What comes in


def added(index: int, item: dict) -> dict:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, item: dict) -> dict:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind: str, index: int, text: str, **more: object) -> dict:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, **more}


def test_streamed_reply() -> None:
    reader, out = drafted(
        {"type": "response.created", "response": {"id": "resp_1"}},
        added(0, {**reasoning(), "encrypted_content": "half"}),
        delta("reasoning_summary_text", 0, "H", summary_index=0),
        delta("reasoning_summary_text", 0, "m.", summary_index=0),
        delta("reasoning_summary_text", 0, "So.", summary_index=1),
        done(0, reasoning()),
        added(1, message(text="")),
        delta("output_text", 1, "Hel", content_index=0, item_id="another in each event"),
        delta("output_text", 1, "lo.", content_index=0, item_id="as at Copilot"),
        done(1, message()),
        added(2, function_call(arguments="")),
        delta("function_call_arguments", 2, '{"path":'),
        delta("function_call_arguments", 2, '"a"}'),
        done(2, function_call()),
        {"type": "response.something.new", "output_index": 2},
        ended(usage={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}),
    )
    *told, billed = out
    assert told == [
        ThinkingPart("H"),
        ThinkingPart("m."),
        ThinkingPart("\n\n"),
        ThinkingPart("So."),
        TextPart("Hel"),
        TextPart("lo."),
    ]
    assert isinstance(billed, Billed)
    parts = reader.message().parts
    assert [type(part) for part in parts] == [Thinking, Text, ToolCall]
    assert (parts[0].text, parts[1].text) == ("Hm.\n\nSo.", "Hello.")
    assert (parts[2].id, parts[2].name, parts[2].arguments) == ("call_1", "Read", {"path": "a"})
    assert as_object(parts[0].private.data)["encrypted_content"] == "gAAAA1"
    assert (reader.message().stop, reader.response_id, reader.closed) == ("tool_use", "resp_1", True)


def test_items_keep_order_however_they_end() -> None:
    reader, _ = drafted(
        added(0, reasoning()), added(1, message()), delta("output_text", 1, "Hello."), done(1, message()),
        done(0, reasoning()), ended(),
    )  # fmt: skip
    assert [type(part) for part in reader.message().parts] == [Thinking, Text]


@pytest.mark.parametrize(
    "events",
    [
        [ended(output=[reasoning(), message()])],
        [done(0, reasoning()), done(1, message()), ended(output=[])],
        [done(0, reasoning()), {"type": "response.output_text.done", "output_index": 1, "text": "Hello."}, ended()],
        [delta("reasoning_text", 0, "Hm."), delta("output_text", 1, "Hello."), ended()],
    ],
)
def test_unstreamed_text_is_told_at_end(events: list[dict]) -> None:
    events[-1]["response"].setdefault("output", [])
    reader = new_draft()
    out: list[Delta] = []
    for event in events:
        event = {**event, "type": event["type"].replace("text.done", "text.delta")}
        reader.feed({"delta": event.get("text"), **event}, out)
    assert [part for part in out if not isinstance(part, Billed)] == [ThinkingPart("Hm."), TextPart("Hello.")]
    assert (reader.message().content, reader.complete) == ("Hello.", True)


def test_one_piece_reply() -> None:
    said = replied(reasoning(), searched(), message(), function_call(arguments=""), function_call(2, "{not json"))
    assert [type(part) for part in said.parts] == [Thinking, Opaque, Text, ToolCall, ToolCall]
    assert [(call.arguments, call.malformed) for call in said.calls] == [({}, None), ({}, "{not json")]
    queued = new_draft()
    queued.whole(response(status="queued"), [])
    assert not queued.complete


def whole_stream() -> list[dict]:
    called = [function_call(number, arguments="") for number in (1, 2)]
    return [
        added(0, reasoning(summary=[])),
        {**delta("reasoning_summary_text", 0, "Hm."), "item_id": "rs_1"},
        done(0, reasoning()),
        added(1, message(text="")),
        {**delta("output_text", 1, "Hello."), "item_id": "msg_1"},
        done(1, message()),
        added(2, called[0]),
        added(3, called[1]),
        {**delta("function_call_arguments", 3, '{"path":"a"}'), "item_id": "fc_2"},
        {**delta("function_call_arguments", 2, '{"path":"a"}'), "item_id": "fc_1"},
        done(3, function_call(2)),
        done(2, function_call(1)),
        ended(output=[reasoning(), message(), function_call(1), function_call(2)]),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda event: event,
        lambda event: {name: value for name, value in event.items() if name != "item_id"},
        lambda event: {name: value for name, value in event.items() if name != "output_index"},
        lambda event: {**event, "output_index": None} if "output_index" in event else event,
        lambda event: {**event, "output_index": event["output_index"] + 1} if "output_index" in event else event,
        lambda event: {**event, "output_index": 0} if "output_index" in event else event,  # as gateways that translate
        lambda event: {} if event["type"].endswith("added") else event,
        lambda event: {} if event["type"].endswith("item.done") else event,
    ],
)
def test_items_known_by_number_or_id(change: Callable[[dict], dict]) -> None:
    reader, out = drafted(*map(change, whole_stream()))
    said = reader.message()
    assert [type(part) for part in said.parts] == [Thinking, Text, ToolCall, ToolCall]
    assert [(call.id, dict(call.arguments)) for call in said.calls] == [
        ("call_1", {"path": "a"}),
        ("call_2", {"path": "a"}),
    ]
    assert [each for each in out if not isinstance(each, Billed)] == [ThinkingPart("Hm."), TextPart("Hello.")]
    assert reader.complete


def test_missing_item_moves_no_other() -> None:
    reader, out = drafted(*whole_stream()[3:6], ended(output=[message()]))
    assert (reader.message().content, out) == ("Hello.", [TextPart("Hello.")])


def test_texts_and_arguments_in_one_piece() -> None:
    reader, out = drafted(
        added(0, message(text="")),
        {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hello."},
        added(1, function_call(arguments="")),
        {"type": "response.function_call_arguments.done", "output_index": 1, "arguments": '{"path":"a"}'},
        ended(),
    )
    said = reader.message()
    assert (said.content, dict(said.calls[0].arguments)) == ("Hello.", {"path": "a"})
    assert out == [TextPart("Hello.")]
    assert replied(message(content="Hello.")).content == "Hello."


@pytest.mark.parametrize(
    ("status", "reason", "stop", "noted"),
    [
        ("completed", None, "end", False),
        ("complete", None, "end", False),
        ("incomplete", "max_output_tokens", "max_tokens", False),
        ("incomplete", "content_filter", "content_filter", False),
        ("incomplete", "steered", "end", True),
    ],
)
def test_responses_stop_reasons(status: str, reason: str | None, stop: str, noted: bool) -> None:
    reader = new_draft()
    reader.whole(response(message(), status=status, incomplete_details={"reason": reason} if reason else None), [])
    assert (reader.message().stop, bool(reader.notes())) == (stop, noted)


def test_refusal_is_shown_and_sent_back() -> None:
    item = message(content=[{"type": "refusal", "refusal": "I cannot."}])
    reader, out = drafted(added(0, message(text="")), delta("refusal", 0, "I cannot."), done(0, item), ended())
    assert (reader.message().content, reader.message().stop) == ("I cannot.", "refusal")
    assert out[0] == TextPart("I cannot.")
    assert body_of(user("hi"), reader.message())["input"][1] == item


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "The server had an error"}, "server"),
        ({"code": "rate_limit_exceeded", "message": "Rate limit. Please try again in 7s."}, "rate_limit"),
        ({"code": "invalid_prompt", "message": "Invalid prompt: violates our usage policy"}, "invalid_request"),
        ({"code": "invalid_image_format", "message": "no image"}, "invalid_request"),
        ({"code": "bio_policy", "message": "no"}, "invalid_request"),
        ({"code": "insufficient_quota", "message": "You exceeded your current quota"}, "payment"),
        ({"code": "context_length_exceeded", "message": "Your input exceeds the context window"}, "context_overflow"),
        ({"code": "server_is_overloaded", "message": "Our servers are overloaded"}, "overloaded"),
        (None, "server"),
    ],
)
def test_failed_response_kind_by_code(error: dict | None, kind: str) -> None:
    failed = response(status="failed", error=error, usage={"input_tokens": 3, "output_tokens": 1})
    reader, out = new_draft(), []
    with pytest.raises(ModelError) as caught:
        reader.feed({"type": "response.failed", "response": failed}, out)
    assert caught.value.kind == kind
    assert out[0].charges[0].usage == Usage(input=3, output=1)
    assert not reader.complete


def test_gateway_end_events_are_read() -> None:
    reader, _ = drafted({"type": "response.done", "response": response(output=[message()])})
    assert (reader.complete, reader.message().stop) == (True, "end")


def test_missing_last_event_is_cut() -> None:
    reader, _ = drafted(added(0, message()), delta("output_text", 0, "Hello."), done(0, message()))
    reader.done()  # `[DONE]`
    assert not reader.complete


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}, Usage(input=10, output=5)),
        (
            {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 15,
            },
            Usage(input=3, cache_read=4, cache_write=3, output=5, reasoning=2),
        ),
        ({"input_tokens": 10, "output_tokens": 5, "input_tokens_details": None}, Usage(input=10, output=5)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Usage(input=10, output=5)),
    ],
)
@pytest.mark.parametrize(("tier", "charged"), [("default", ""), ("priority", "priority"), (None, "")])
def test_responses_bill(told: dict, expected: Usage, tier: str | None, charged: str) -> None:
    reader, _ = drafted(ended(usage=told, service_tier=tier))
    assert reader.usage() == expected
    assert [(charge.usage, charge.tier, charge.model) for charge in reader.charges()] == [(expected, charged, "m")]
    assert drafted(ended())[0].usage() is None


def billed(*output: dict, model: str = "gpt-5", **more: object) -> Usage:
    reader = ResponsesReplyReader(Origin("openai", model), "responses:openai")
    counts = {"input_tokens": 1, "output_tokens": 1, **more.pop("usage", {})}
    reader.whole(response(*output, usage=counts, **more), [])
    usage = reader.usage()
    assert usage
    return usage


def test_server_tools_billed_per_call() -> None:
    opened = {**searched(2), "action": {"type": "open_page", "url": "https://a"}}
    found = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"]}
    output = (searched(), opened, searched(3), found, ran(), message())
    assert billed(*output).fees == {"web_search": 2, "file_search": 1, "code_container": 1}
    drawn = {"type": "image_generation_call", "id": "ig_1", "result": "eA==", "revised_prompt": "a cat"}
    assert billed(drawn, message()).fees == {"image_generation": 1}
    assert replied(drawn, message()).parts[0].text == "[image_generation: a cat]"
    assert billed(ran(1), ran(2), {**ran(3), "container_id": "cntr_2"}).fees == {"code_container": 2}
    assert billed(*output, tool_usage={"web_search": {"num_requests": 5}}).fees["web_search"] == 5
    preview = [{"type": "web_search_preview_2025_03_11"}]
    assert billed(searched(), tools=preview).fees == {"web_search": 1}
    assert billed(searched(), tools=preview, model="gpt-4.1").fees == {"web_search_preview": 1}
    assert billed(searched(), model="grok-4", usage={"num_server_side_tools_used": 3}).fees == {"server_tool": 3}
    assert billed(message()).fees == {}


# ---------------------------------------------------------------------------------------------------------------------
# What goes back


def test_output_returns_in_its_order() -> None:
    cited = [{"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 3}]
    two = message(2)
    two["content"] = [
        {"type": "output_text", "text": "One.", "annotations": cited},
        {"type": "output_text", "text": "Two.", "annotations": []},
    ]
    output = [
        reasoning(1),
        searched(),
        reasoning(2, summary=[]),
        two,
        message(3, phase="final_answer"),
        ran(),
        reasoning(3),
        function_call(1, '{"path": "a",  "n": 1.0}'),
        function_call(2, namespace="files"),
    ]
    said = replied(*output)
    sent = body_of(user("hi"), said)["input"][1:]
    assert sent[: len(output)] == output
    assert [item["call_id"] for item in sent[len(output) :]] == ["call_1", "call_2"]
    moved = replied(*output, status="completed")
    assert body_of(user("hi"), moved, provider_reply(), user("and?"))["input"][1 : len(output) + 1] == output


def provider_reply() -> Message:
    """What another provider's model said in between."""
    return assistant("From elsewhere.", model="anthropic/x")


def test_plain_model_is_sent_no_reasoning() -> None:
    talk = [
        user("hi"),
        replied(reasoning(), searched(), message()),
        user("on"),
        replied(ran(), message(2)),
        user("so?"),
    ]
    sent = body_of(*talk, model="gpt-4.1")["input"]
    assert sent == [
        {"role": "user", "content": "hi"},
        searched(),
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "on"},
        ran(),
        message(2),
        {"role": "user", "content": "so?"},
    ]
    assert body_of(*talk)["input"][1] == reasoning()


def test_refusable_items_stay_behind() -> None:
    long = "x" * 416
    said = replied(
        reasoning(1, id=long, status=None, content=[]),  # Copilot's ids
        message(1, id=long),
        reasoning(2, encrypted_content=None),  # which nobody has kept
        function_call(1, id="item_1", status="completed"),
        {"type": "shell_call", "id": "sh_1", "call_id": "sc", "action": {"commands": ["ls"]}, "created_by": "m"},
        reasoning(3),
    )
    assert [type(part) for part in said.parts] == [Thinking, Text, Thinking, ToolCall, Opaque, Thinking]
    sent = body_of(user("hi"), said)["input"]
    bare = {name: value for name, value in reasoning(1).items() if name != "id"}
    assert sent[1] == bare
    assert [item.get("type") for item in sent] == [
        None,
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert [item.get("id") for item in sent] == [None] * 5
    assert complaints(body_of(user("hi"), said)) == []


def test_server_shell_returns_with_output() -> None:
    shell = [
        {"type": "shell_call", "id": "sh_1", "call_id": "sc", "status": "completed", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "id": "sho_1", "call_id": "sc", "output": [{"stdout": "a.py", "stderr": ""}]},
    ]
    said = replied(*shell, message())
    assert body_of(user("hi"), said)["input"][1:3] == shell
    assert said.parts[1].text.strip() == "a.py"


def test_changed_call_goes_back_changed() -> None:
    said = replied(function_call(1, '{"path": "a"}'))
    assert body_of(user("hi"), said)["input"][1]["arguments"] == '{"path": "a"}'
    call = said.calls[0]
    changed = Message(
        "assistant", (ToolCall(call.id, call.name, json_freeze_object({"path": "b"}), None, call.private),)
    )
    assert body_of(user("hi"), changed)["input"][1]["arguments"] == '{"path":"b"}'


def test_custom_tool_call_has_one_argument() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "exec", "input": ""}
    reader, _ = drafted(
        added(0, item), delta("custom_tool_call_input", 0, "print(1)"), done(0, {**item, "input": "print(1)"}), ended()
    )
    assert reader.message().calls == (ToolCall("call_1", "exec", json_freeze_object({"input": "print(1)"})),)
    body = body_of(user("hi"), reader.message())
    assert (body["input"][1]["type"], body["input"][1]["arguments"]) == ("function_call", '{"input":"print(1)"}')
    assert complaints(body) == []


@pytest.mark.parametrize("offered", [[{"type": "x_search"}], [], [{"type": "custom", "name": "other"}]])
def test_unoffered_custom_tool_has_run_there(offered: list) -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "xs_1", "name": "x_keyword_search", "input": ""}
    whole = {**item, "input": '{"query":"cats"}', "status": "completed"}
    answer = response(whole, message(), tools=offered)
    reader, _ = drafted(added(0, item), done(0, whole), {"type": "response.completed", "response": answer})
    said = reader.message()
    assert (said.calls, said.stop) == ((), "end")
    assert isinstance(said.parts[0], Opaque)
    assert body_of(user("hi"), said)["input"][1] == whole


def test_offered_custom_tool_is_ours_to_run() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c_1", "name": "exec", "input": "print(1)"}
    answer = response(item, tools=[{"type": "custom", "name": "exec"}])
    reader, _ = drafted(added(0, item), done(0, item), {"type": "response.completed", "response": answer})
    assert [call.name for call in reader.message().calls] == ["exec"]


def blank(number: int) -> dict:
    return message(number, " ")


def lost(number: int) -> dict:
    return reasoning(number, encrypted_content=None)


def broken(number: int) -> dict:
    return function_call(number, "{no")


outputs = st.lists(st.sampled_from([reasoning, message, function_call, searched, ran, blank, lost, broken]), max_size=5)


@st.composite
def own_replies(draw: st.DrawFn) -> list[list[dict]]:
    """The outputs of the replies of a conversation, their ids numbered through."""
    count = iter(range(1, 1000))
    return [[make(next(count)) for make in makes] for makes in draw(st.lists(outputs, max_size=4))]


@settings(max_examples=deep(60, 150), deadline=None)
@given(own_replies(), histories, st.sampled_from(["end", "interrupted"]))
def test_responses_accept_every_history(replies: list[list[dict]], history: list[Message], stop: str) -> None:
    talk = list(history)
    for number, output in enumerate(replies):
        said = replied(*output)
        talk += [Message("assistant", said.parts, model=said.model, stop=said.stop if number else stop), *history[:2]]
    for conversation in (talk, talk[::-1]):
        request = Request("c", conversation, "Be terse.", TOOLS, 100)
        body = json.loads(OpenAI.from_key("k" * 8).model(MODEL).prepare(request).body.data)
        ids = [item["id"] for item in body["input"] if "id" in item]
        assert len(ids) == len(set(ids))
        assert complaints(body) == []
        check_anthropic(json.loads(Anthropic.from_key("k" * 8).model("claude-x").prepare(request).body.data))
        check_chat(json.loads(Moonshot.from_key("k" * 8).model("kimi-k2.6").prepare(request).body.data))


@settings(max_examples=deep(40, 100), deadline=None)
@given(own_replies())
def test_prefix_stays_and_own_items_return(replies: list[list[dict]]) -> None:
    model = OpenAI.from_key("k" * 8).model(MODEL)
    talk, before = [user("hi")], b""
    for number, some in enumerate(replies, 900):
        output = [*some, message(number)]
        talk.append(replied(*output))
        talk.append(Message("user", (*(ToolResult(call.id, (Text("ok"),)) for call in talk[-1].calls), Text("go on"))))
        body = model.prepare(Request("c", list(talk))).body.data
        assert body.startswith(before)
        before = body[: body.rindex(b'],"model"')]
        sent = {item["id"]: item for item in json.loads(body)["input"] if "id" in item}
        for item in output:
            if item["type"] == "reasoning" and not item["encrypted_content"]:
                continue  # nobody keeps it
            if item["type"] == "message" and item["content"][0]["text"] == " ":
                continue
            assert sent[item["id"]] == (item if item.get("arguments") != "{no" else {**item, "arguments": "{}"})


@slow
def test_openai_sdk_types_accept_requests() -> None:
    validate = sdk_adapters()["responses"]
    said = replied(reasoning(), searched(), message(), ran(), reasoning(2), function_call())
    image = Image("image/png", b"PNG")
    history = [
        user("hi", image, Document("application/pdf", b"%PDF")),
        said,
        Message("user", (ToolResult("call_1", (Text("ok"), image)),)),
        provider_reply(),
        user("and?"),
    ]
    items = body_of(*history)["input"]
    assert len(items) == 10
    for item in items:
        validate(item)


# ---------------------------------------------------------------------------------------------------------------------
# Against the scripted server


async def reply_of(provider: OpenAI, *messages: Message, model: str = MODEL) -> Reply:
    async with aclosing(provider.model(model).stream(Request("c", messages))) as items:
        async for item in items:
            if isinstance(item, Reply):
                return item
    raise AssertionError("no reply")


async def test_undecryptable_reasoning_is_left_out() -> None:
    said = replied(reasoning(), message(), function_call())
    history = [user("hi"), said, Message("user", (ToolResult("call_1", (Text("ok"),)),))]
    words = "The encrypted content gAAA...x== could not be verified."
    script = [Fail(400, message=words, code="invalid_encrypted_content"), Turn("fine"), Turn("fine")]
    async with FakeProviderServer(script) as server, aclosing(OpenAI.from_key("k", base_url=server.url)) as provider:
        first, second = await reply_of(provider, *history), await reply_of(provider, *history)
    assert first.message.content == "fine"
    assert first.notes == second.notes != ()
    kinds = [[item.get("type") for item in request.json["input"]] for request in server.requests]
    assert "reasoning" in kinds[0]
    assert kinds[1] == kinds[2] == [None, None, "function_call", "function_call_output"]


async def test_refused_summaries_not_asked_again() -> None:
    words = "Your organization must be verified to generate reasoning summaries."
    script = [Fail(400, message=words), Turn("fine"), Turn("fine")]
    async with FakeProviderServer(script) as server, aclosing(OpenAI.from_key("k", base_url=server.url)) as provider:
        assert (await reply_of(provider, user("hi"))).message.content == "fine"
        await reply_of(provider, user("hi"))
    asked = ["summary" in as_object(request.json.get("reasoning")) for request in server.requests]
    assert asked == [True, False, False]


@pytest.mark.parametrize(
    ("step", "hinted"),
    [
        (Fail(404, body='{"detail":"Not Found"}'), True),
        (Fail(405, body="Method Not Allowed"), True),
        (Fail(404, message="The model does not exist"), False),
        (Fail(400), False),
    ],
)
async def test_missing_responses_api_is_hinted(step: Fail, hinted: bool) -> None:
    async with FakeProviderServer([step]) as server, aclosing(OpenAI.from_key("k", base_url=server.url)) as provider:
        with pytest.raises(ModelError) as caught:
            await reply_of(provider, user("hi"))
    hint = "use --provider openai-compatible"
    assert (hint in str(caught.value)) == hinted
    assert caught.value.status == step.status


async def test_no_hint_after_an_answer() -> None:
    script = [Turn("fine"), Fail(404, body='{"detail":"Not Found"}')]
    async with FakeProviderServer(script) as server, aclosing(OpenAI.from_key("k", base_url=server.url)) as provider:
        await reply_of(provider, user("hi"))
        with pytest.raises(ModelError, match="Not Found") as caught:
            await reply_of(provider, user("hi"))
    assert "Chat Completions" not in str(caught.value)


def test_openai_row_speaks_responses_and_chat() -> None:
    assert isinstance(provider_named("openai", key="k" * 8), OpenAI.__mro__[1])
    chat = provider_named("openai-compatible", key="k" * 8, base_url="https://api.openai.com/v1").model("gpt-5.6-terra")
    body = json.loads(chat.prepare(Request("c", [user("hi")], max_output=9)).body.data)
    assert body["max_completion_tokens"] == 9
    assert json_thaw(json_freeze_object(body))["messages"]
