"""The Messages API: what goes out, and events that recordings do not show."""

import json
from decimal import Decimal

import pytest

from sagent.errors import ModelError
from sagent.lib.json import as_object, json_freeze_object, sha256_hex
from sagent.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Private,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from sagent.model import Billed, Delta, Request, TextPart, ThinkingPart, ToolSpec
from sagent.providers import Anthropic
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.families.anthropic.provider import generation, thinking_parameters
from sagent.providers.wire.exchange import Call
from sagent.providers.wire.faults import Origin
from sagent.testing.script import Raw, Turn
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage

TOOLS = (ToolSpec("A", "a", json_freeze_object({"type": "object"})), ToolSpec("B", "b", json_freeze_object({})))
MARK = {"type": "ephemeral"}


def prepared(*messages: Message, model: str = "claude-sonnet-4-5", **more: object) -> Call:
    request = Request("c", messages or (user("hi"),), **more)  # pyright: ignore[reportArgumentType]
    return Anthropic.from_key("k" * 8).model(model).prepare(request)


def body_of(*messages: Message, **more: object) -> dict:
    return json.loads(prepared(*messages, **more).body.data)  # pyright: ignore[reportArgumentType]


def drafted(*events: dict) -> tuple[MessagesReplyReader, list[Delta]]:
    reader, out = MessagesReplyReader(Origin("anthropic", "claude-x")), []
    for event in events:
        reader.feed(event, out)
    return reader, out


def start(index: int, **block: object) -> dict:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **fields: object) -> dict:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(index: int) -> dict:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str | None, **usage: object) -> list[dict]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


def talk(turns: int) -> list[Message]:
    history = [user("begin")]
    for number in range(turns):
        history.append(Message("assistant", (Text("look"), ToolCall(f"toolu_{number}", "A")), stop="tool_use"))
        history.append(Message("user", (ToolResult(f"toolu_{number}", (Text("line\n" * 200),)),)))
    return history


def test_anthropic_members_in_cacheable_order() -> None:
    body = body_of(system="Be terse.", tools=TOOLS, max_output=9)
    assert list(body) == ["tools", "system", "messages", "model", "stream", "max_tokens"]
    assert (body["model"], body["max_tokens"], body["stream"]) == ("claude-sonnet-4-5", 9, True)
    assert list(body_of()) == ["messages", "model", "stream", "max_tokens"]


def test_anthropic_cache_breakpoints() -> None:
    body = body_of(*talk(3), system="Be terse.", tools=TOOLS)
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, MARK]
    assert body["system"][0]["cache_control"] == MARK
    marked = [at for at, turn in enumerate(body["messages"]) for block in turn["content"] if "cache_control" in block]
    assert marked == [4, 6]
    assert body["messages"][6]["content"][-1]["cache_control"] == MARK


def test_long_conversation_joins_kept_blocks() -> None:
    provider = Anthropic.from_key("k" * 8)
    model, history, before = provider.model("claude-sonnet-4-5"), talk(200), b""
    for length in range(1, len(history) + 1, 2):
        call = model.prepare(Request("c", history[:length], "Be terse.", TOOLS))
        body = call.body.data
        assert (call.digest.sha256, call.digest.size) == (sha256_hex(body), len(body))
        plain = body.replace(b',"cache_control":{"type":"ephemeral"}', b"")
        assert plain.startswith(before)
        before = plain[: plain.rindex(b'],"model"')]
    assert len(call.body.parts) > 3  # joined blocks
    assert json.loads(body)["messages"] == body_of(*history, system="Be terse.", tools=TOOLS)["messages"]


def test_same_request_gives_same_bytes() -> None:
    model = Anthropic.from_key("k" * 8).model("claude-sonnet-4-5")
    history = talk(2)
    first = model.prepare(Request("c", history)).body.data
    other = model.prepare(Request("c", [user("another"), *history[1:]])).body.data
    assert b"another" in other
    assert model.prepare(Request("c", list(history))).body.data == first
    assert model.prepare(Request("d", history[:1])).body.data != first
    system = model.prepare(Request("c", history, "new system")).body
    assert system.sha256 == sha256_hex(system.data)
    assert system.data.endswith(first.partition(b'"messages"')[2])


def test_media_and_results() -> None:
    call = Message("assistant", (ToolCall("1", "A"), ToolCall("2", "A")), stop="tool_use")
    results = (
        ToolResult("1", (Text("see"), Image("image/png", b"PNG"))),
        ToolResult("2", (Text("no"),), is_error=True),
        Document("application/pdf", b"%PDF", "a.pdf"),
        Document("text/csv", b"a,b"),
        Image("image/bmp", b"BM"),
    )
    blocks = body_of(user("hi"), call, Message("user", results))["messages"][2]["content"]
    assert blocks[0]["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "UE5H"}
    assert "is_error" not in blocks[0]
    assert (blocks[1]["content"], blocks[1]["is_error"]) == ("no", True)
    assert (blocks[2]["type"], blocks[2]["title"], blocks[2]["source"]["media_type"]) == (
        "document",
        "a.pdf",
        "application/pdf",
    )
    assert blocks[3]["source"] == {"type": "text", "media_type": "text/plain", "data": "a,b"}
    assert "image/bmp" in blocks[4]["text"]


def test_anthropic_weight_bounds_text_and_media() -> None:
    model = Anthropic.from_key("k" * 8).model("claude-sonnet-4-5")
    text = Request("a", [user("x" * 10_000)])
    assert 10_000 < model.max_input_tokens(text) < 12_000
    image = Request("b", [user("", Image("image/png", b"x" * 3_000_000))])
    assert 4_784 < model.max_input_tokens(image) < 7_000
    pages = b"%PDF" + b"<< /Type /Page >>" * 3 + b"/Type /Pages" + b"x" * 900_000
    assert 13_000 < model.max_input_tokens(Request("c", [user("", Document("application/pdf", pages))])) < 20_000
    assert model.max_input_tokens(Request("d", [user("", Document("application/pdf", b"x" * 900_000))])) > 500_000
    assert model.max_input_tokens(text) == model.prepare(text).body.max_input_tokens


def test_anthropic_private_parts_return() -> None:
    told, _ = drafted(
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="Hm"),
        delta(0, type="signature_delta", signature="c2ln"),
        stop(0),
        start(1, type="redacted_thinking", data="xx"),
        stop(1),
        start(2, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        delta(2, type="input_json_delta", partial_json='{"query":'),
        delta(2, type="input_json_delta", partial_json='"x"}'),
        stop(2),
        start(
            3,
            type="web_search_tool_result",
            tool_use_id="srvtoolu_1",
            content=[{"type": "web_search_result", "title": "T", "url": "u"}],
        ),
        stop(3),
        start(4, type="text", text=""),
        delta(4, type="citations_delta", citation={"type": "web", "cited_text": "a"}),
        delta(4, type="text_delta", text="Done."),
        stop(4),
        start(5, type="new_thing", content="a", items=[1]),
        delta(5, type="new_thing_delta", content="b", items=[2], more=3),
        stop(5),
        start(
            6,
            type="tool_use",
            id="toolu_1",
            name="A",
            input={},
            caller={"type": "code_execution_20250825", "tool_id": "srvtoolu_1"},
        ),
        stop(6),
        *ended("tool_use"),
    )
    message = told.message()
    opaque = [part for part in message.parts if isinstance(part, Opaque)]
    assert [part.text for part in opaque] == ["[web_search: x]", "T u", "ab"]
    sent = body_of(user("hi"), message)["messages"][1]["content"]
    assert sent == [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "title": "T", "url": "u"}],
        },
        {"type": "text", "text": "Done.", "citations": [{"type": "web", "cited_text": "a"}]},
        {"type": "new_thing", "content": "ab", "items": [1, 2], "more": 3},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "A",
            "input": {},
            "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"},
        },
    ]


@pytest.mark.parametrize(("reason", "named"), [("tool_use", True), ("pause_turn", True), ("end_turn", False)])
def test_container_sent_while_its_code_waits(reason: str, named: bool) -> None:
    """Web search of 2026 runs code: "container_id is required when there are pending tool uses"."""
    container = {"id": "container_1", "expires_at": "2026-05-25T08:28:55Z"}
    last = {"type": "message_delta", "delta": {"stop_reason": reason, "container": container}, "usage": {}}
    own, ours = {"type": "server_tool_use", "name": "code_execution"}, {"type": "tool_use", "name": "A"}
    blocks = [{**own, "id": "srvtoolu_1", "input": {"code": "x"}}, {**ours, "id": "toolu_1", "input": {}}]
    if reason != "tool_use":
        blocks[1] = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {}}
    events = [event for index, block in enumerate(blocks) for event in (start(index, **block), stop(index))]
    said = drafted(*events, last)[0].message()
    whole = MessagesReplyReader(Origin("anthropic", "claude-x"))
    whole.whole({"type": "message", "content": blocks, "stop_reason": reason, "container": container}, [])
    assert whole.message() == said
    results = [Message("user", (ToolResult(call.id, (Text("ok"),)),)) for call in said.calls]
    history, tool = [user("hi"), said, *results], {"type": "web_search_20260209", "name": "web_search"}
    searching = json_freeze_object({"tools": [tool]})
    body = body_of(*history, options=searching)
    assert body["messages"][1]["content"] == blocks
    assert body.get("container") == ("container_1" if named else None)
    assert ("container" in body_of(user("hi"), said, user("never mind"), options=searching)) == named
    skills = {"skills": [{"type": "anthropic", "skill_id": "xlsx"}]}
    both = json_freeze_object({"tools": [tool], "container": skills})
    assert body_of(*history, options=both)["container"] == {**skills, **({"id": "container_1"} if named else {})}
    assert "container" not in body_of(*history, assistant("Done."), user("and?"), options=searching)


def test_cut_thinking_is_shown_not_sent_back() -> None:
    reader, _ = drafted(start(0, type="thinking", thinking=""), delta(0, type="thinking_delta", thinking="Hm"))
    assert reader.message().parts == (Thinking("Hm"),)


@pytest.mark.parametrize(
    ("raw", "arguments", "malformed"),
    [
        (["", '{"a"', ":1}"], {"a": 1}, None),
        ([], {}, None),
        (['{"a":'], {}, '{"a":'),
        (["[1]"], {}, "[1]"),
        (["null"], {}, None),
        (['{"a":NaN}'], {}, '{"a":NaN}'),
        (["[" * 100_000], {}, "[" * 100_000),
        ([r'"{\"a\":1}"'], {"a": 1}, None),
        ([r'"{\"a\":"'], {}, r'"{\"a\":"'),
        (['"a"'], {}, '"a"'),
    ],
)
def test_arguments(raw: list[str], arguments: dict, malformed: str | None) -> None:
    pieces = [delta(0, type="input_json_delta", partial_json=piece) for piece in raw]
    reader, _ = drafted(start(0, type="tool_use", id="1", name="A", input={}), *pieces, stop(0), *ended("tool_use"))
    call = reader.message().calls[0]
    assert (dict(call.arguments), call.malformed) == (arguments, malformed)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "end"),
        ("max_tokens", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("pause_turn", "pause"),
        ("length", "max_tokens"),
        ("compaction", "pause"),
        ("tool_use", "tool_use"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "context_overflow"),
        ("something_new", "end"),
        (None, "end"),
    ],
)
def test_anthropic_stop_reasons(reason: str | None, expected: str) -> None:
    reader, _ = drafted(start(0, type="text", text="x"), stop(0), *ended(reason))
    assert reader.closed
    assert reader.message().stop == expected


def test_anthropic_deltas_and_reasoning_state() -> None:
    reader, out = drafted(
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 4, "output_tokens": 1}}},
        {"type": "ping"},
    )
    assert isinstance(out[0], Billed)
    assert out[0].charges[0].usage == Usage(input=4, output=1)
    assert reader.reasoning
    reader.feed(start(0, type="thinking", thinking="a"), out)
    reader.feed(delta(0, type="thinking_delta", thinking="b"), out)
    assert reader.reasoning
    reader.feed(stop(0), out)
    reader.feed(start(1, type="text", text="c"), out)
    assert not reader.reasoning
    reader.feed(stop(1), out)
    reader.feed(start(2, type="server_tool_use", id="s", name="advisor", input={}), out)
    reader.feed(stop(2), out)
    assert reader.reasoning  # the advisor works, the stream is silent
    assert out[1:] == [ThinkingPart("a"), ThinkingPart("b"), TextPart("c")]


def test_malformed_events_do_no_harm() -> None:
    reader, out = drafted(
        {"type": "whatever", "x": 1},
        delta(7, type="text_delta", text="no start"),
        {"type": "content_block_delta"},
        {"type": "content_block_stop", "index": 99},
        {"type": "message_delta"},
        {"type": "message_stop"},
    )
    assert reader.message().content == "no start"
    assert out == [TextPart("no start")]


@pytest.mark.parametrize("index", [None, [], {}, "x", 1.5])
def test_blocks_keep_place_whatever_index(index: object) -> None:
    events = (start(0, type="text", text=""), delta(0, type="text_delta", text="Hello."), stop(0))
    reader, _ = drafted(*({**event, "index": index} for event in events), *ended("end_turn"))
    assert reader.message().parts == (Text("Hello."),)


def test_untyped_block_follows_its_deltas() -> None:
    reader, out = drafted(
        start(0, text=""),
        delta(0, type="text_delta", text="Hello."),
        stop(0),
        start(1, id="1", name="A"),
        delta(1, type="input_json_delta", partial_json='{"a":1}'),
        stop(1),
        *ended("tool_use"),
    )
    assert reader.message().parts == (Text("Hello."), ToolCall("1", "A", json_freeze_object({"a": 1})))
    assert out[0] == TextPart("Hello.")


def test_content_and_input_strings_are_read() -> None:
    reader = MessagesReplyReader(Origin("anthropic", "m"))
    reader.whole({"type": "message", "content": "Hello.", "stop_reason": "end_turn"}, [])
    assert (reader.message().content, reader.complete) == ("Hello.", True)
    reader, _ = drafted(start(0, type="tool_use", id="1", name="A", input='{"a":1}'), stop(0), *ended("tool_use"))
    assert dict(reader.message().calls[0].arguments) == {"a": 1}


def test_negative_counts_are_ignored() -> None:
    told = {"input_tokens": -1, "output_tokens": -2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": -4}
    assert drafted(*ended("end_turn", **told))[0].usage() == Usage(cache_read=3)


def test_later_count_does_not_lower_one() -> None:
    reader, _ = drafted(
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 7}}},
        *ended("end_turn", input_tokens=0, cache_read_input_tokens=None, output_tokens=3),
    )
    assert reader.usage() == Usage(input=5, cache_read=7, output=3)


def test_thinking_of_whole_reply_is_charged() -> None:
    rounds = [{"type": "message", "input_tokens": 28, "output_tokens": 106}]
    told = {"input_tokens": 28, "output_tokens": 106, "output_tokens_details": {"thinking_tokens": 67}}
    reader = drafted(*ended("end_turn", **told, iterations=rounds))[0]
    assert reader.usage() == reader.charges()[0].usage == Usage(input=28, output=106, reasoning=67)


def test_usage_is_cumulative_rounds_are_billed() -> None:
    base = {
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }
    reader, _ = drafted(
        {
            "type": "message_start",
            "message": {
                "id": "m",
                "usage": {
                    "input_tokens": 5,
                    "cache_read_input_tokens": 7,
                    **base,
                    "output_tokens": 1,
                    "service_tier": "priority",
                },
            },
        },
        *ended("end_turn", output_tokens=50, output_tokens_details={"thinking_tokens": 40}, input_tokens=None),
    )
    assert reader.usage() == Usage(5, 7, 10, 20, 50, 40)
    assert [(charge.model, charge.tier) for charge in reader.charges()] == [("claude-x", "priority")]
    rounds = [
        {"type": "message", "input_tokens": 100, "output_tokens": 10},
        {"type": "advisor_message", "model": "claude-big", "input_tokens": 900, "output_tokens": 300},
        {"type": "message", "input_tokens": 120, "output_tokens": 20},
    ]
    reader, _ = drafted(*ended("end_turn", input_tokens=220, output_tokens=30, iterations=rounds))
    assert reader.usage() == Usage(input=120, output=30)  # the size of the context as the last round read it
    assert [(charge.model, charge.usage) for charge in reader.charges()] == [
        ("claude-x", Usage(input=100, output=10)),
        ("claude-big", Usage(input=900, output=300)),
        ("claude-x", Usage(input=120, output=20)),
    ]


def test_searches_are_billed_once_per_call() -> None:
    used = {"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1}}
    reader, _ = drafted(*ended("end_turn", input_tokens=5, output_tokens=1, **used))
    assert reader.charges()[0].usage == reader.usage() == Usage(input=5, output=1, fees={"web_search": 2})
    rounds = [
        {"type": "message", "input_tokens": 5, "output_tokens": 1},
        {"type": "advisor_message", "model": "claude-big", "input_tokens": 9, "output_tokens": 3},
    ]
    reader, _ = drafted(*ended("end_turn", input_tokens=5, output_tokens=1, iterations=rounds, **used))
    assert [charge.usage.fees for charge in reader.charges()] == [{"web_search": 2}, {}]


@pytest.mark.parametrize(
    ("told", "tier"),
    [
        ({"service_tier": "standard"}, ""),
        ({"service_tier": "priority", "inference_geo": "global"}, "priority"),
        ({"service_tier": "batch", "inference_geo": "not_available"}, "batch"),
        ({"service_tier": "standard", "inference_geo": "us"}, "us"),
        ({"service_tier": "priority", "inference_geo": "us"}, "priority+us"),
        ({"speed": "fast"}, "fast"),
        ({"speed": "fast", "inference_geo": "us"}, "fast+us"),
    ],
)
def test_tiers(told: dict, tier: str) -> None:
    reader, _ = drafted(*ended("end_turn", input_tokens=1, output_tokens=1, **told))
    assert reader.charges()[0].tier == tier
    rounds = [{"type": "message", "input_tokens": 1, "output_tokens": 1}]
    reader, _ = drafted(*ended("end_turn", input_tokens=1, output_tokens=1, iterations=rounds, **told))
    assert reader.charges()[0].tier == tier


def test_gateway_price_is_taken() -> None:
    reader, _ = drafted(*ended("end_turn", input_tokens=1, output_tokens=1, cost=0.000112))
    assert reader.charges()[0].usd == Decimal("0.000112")
    rounds = [{"type": "message", "input_tokens": 1, "output_tokens": 1}] * 2
    reader, _ = drafted(*ended("end_turn", input_tokens=2, output_tokens=2, iterations=rounds, cost=0.5))
    assert [charge.usd for charge in reader.charges()] == [Decimal("0.5"), 0]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-sonnet-4-5-20250929", ("sonnet", (4, 5))),
        ("claude-sonnet-4-20250514", ("sonnet", (4, 0))),
        ("claude-3-7-sonnet-latest", ("sonnet", (3, 7))),
        ("anthropic/claude-haiku-4.5", ("haiku", (4, 5))),
        ("claude-fable-5", ("fable", (5, 0))),
        ("claude-mythos-preview", ("mythos", (5, 0))),
        ("claude-opus-5-5", ("opus", (5, 5))),
        ("MiniMax-M2.7", ("", (0, 0))),
    ],
)
def test_claude_generation_by_name(model: str, expected: tuple[str, tuple[int, int]]) -> None:
    assert generation(model) == expected


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "level", "noted"),
    [
        ("claude-3-5-haiku-latest", "high", None, None, True),
        ("claude-sonnet-4-5", None, None, None, False),
        ("claude-sonnet-4-5", "none", None, None, False),
        ("claude-sonnet-4-5", "low", "enabled", None, False),
        ("claude-sonnet-4-6", "high", "adaptive", "high", False),
        ("claude-sonnet-4-6", "xhigh", "adaptive", "high", True),
        ("claude-opus-4-7", "xhigh", "adaptive", "xhigh", False),
        ("claude-opus-4-8", "none", None, None, False),
        ("claude-opus-5", "none", "disabled", None, False),
        ("claude-opus-5", "minimal", "adaptive", "low", True),
        ("claude-sonnet-5-5", "none", "between_tools", None, False),
        ("claude-haiku-5-5", "none", "disabled", None, False),
        ("claude-opus-5-5", "none", "adaptive", "low", True),
        ("claude-fable-5", "none", "adaptive", "low", True),
        ("claude-fable-5-2", "max", "adaptive", "max", False),
        ("claude-fable-5-2", None, "adaptive", None, False),
        ("glm-5.2", "high", "enabled", None, False),
        ("glm-5.2", "none", "disabled", None, False),
    ],
)
def test_anthropic_effort_parameters(
    model: str, effort: str | None, thinking: str | None, level: str | None, noted: bool
) -> None:
    thought = thinking_parameters(model, effort, 32_000)  # pyright: ignore[reportArgumentType]
    assert as_object(thought.members.get("thinking")).get("type") == thinking
    assert as_object(thought.members.get("output_config")).get("effort") == level
    assert bool(thought.notes) == noted


def test_thinking_budget_leaves_room_for_answer() -> None:
    assert (
        as_object(thinking_parameters("claude-sonnet-4-5", "high", 10_000).members["thinking"])["budget_tokens"]
        == 7_500
    )
    assert thinking_parameters("claude-sonnet-4-5", "high", 10_000).notes
    assert thinking_parameters("claude-sonnet-4-5", "high", 1_000).members == {}
    assert thinking_parameters("claude-sonnet-4-5", "high", 1_000).notes


def test_thinking_left_out_after_other_model() -> None:
    call = Message("assistant", (ToolCall("1", "A"),), model="openai/x", stop="tool_use")
    history = (user("hi"), call, Message("user", (ToolResult("1", (Text("ok"),)),)))
    request = prepared(*history, effort="high")
    assert "thinking" not in json.loads(request.body.data)
    assert request.notes
    signed = Thinking("hm", Private("anthropic", json_freeze_object({"signature": "s"})))
    own = Message("assistant", (signed, ToolCall("1", "A")), stop="tool_use")
    assert json.loads(prepared(history[0], own, history[2], effort="high").body.data)["thinking"]["type"] == "enabled"
    assert (
        json.loads(prepared(*history, user("go on"), effort="high", model="claude-opus-4-6").body.data)["thinking"][
            "type"
        ]
        == "adaptive"
    )


def test_edited_conversation_may_drop_thoughts() -> None:
    call = prepared(model="claude-opus-5-5")
    body = json.loads(call.body.data)
    assert body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert call.headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
    assert "anthropic-beta" not in prepared(model="claude-opus-4-6").headers


def test_anthropic_output_limits() -> None:
    assert body_of()["max_tokens"] == 32_000
    assert body_of(effort="high", model="claude-opus-4-7")["max_tokens"] == 64_000
    assert body_of(model="who-knows")["max_tokens"] == 8_192
    assert body_of(model="claude-3-haiku-20240307")["max_tokens"] == 4_096
    clamped = prepared(model="claude-3-haiku-20240307", max_output=50_000)
    assert json.loads(clamped.body.data)["max_tokens"] == 4_096
    assert clamped.notes


def test_options_and_server_tools_go_out() -> None:
    web = {"type": "web_search_20250305", "name": "web_search"}
    options = json_freeze_object({"temperature": 0.5, "betas": ["x-1", "y-2"], "tools": [web]})
    call = prepared(tools=TOOLS, options=options)
    body = json.loads(call.body.data)
    assert body["temperature"] == 0.5
    assert [tool["name"] for tool in body["tools"]] == ["A", "B", "web_search"]
    assert body["tools"][-1]["cache_control"] == MARK
    assert call.headers["anthropic-beta"] == "x-1,y-2"
    assert "betas" not in body


def test_error_object_in_place_of_reply() -> None:
    reader = MessagesReplyReader(Origin("anthropic", "x"))
    reader.whole({"hello": 1}, [])
    assert not reader.complete
    reader.whole(
        {"type": "message", "id": "m", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}, []
    )
    assert reader.complete
    assert reader.message().content == "a"


def test_refusals_say_why() -> None:
    reader, _ = drafted(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "refusal", "stop_details": {"category": "cyber", "explanation": "no"}},
            "usage": {},
        }
    )
    assert reader.notes() == ("the provider refused to continue: cyber: no",)


def test_switch_and_back_keeps_thoughts_apart() -> None:
    foreign = Message(
        "assistant",
        (Thinking("x", Private("chat:moonshot", json_freeze_object({"field": "reasoning_content"}))), Text("y")),
    )
    assert body_of(user("hi"), foreign, user("go"))["messages"][1]["content"] == [{"type": "text", "text": "y"}]
    assert body_of(user("hi"), assistant("ok"))["messages"][-1]["role"] == "user"


async def test_anthropic_version_and_key_headers() -> None:
    """The SDK's current version refuses what compatible services take (temperature); some read only x-api-key."""
    async with FakeProviderServer([Turn("hi")]) as server:
        provider = Anthropic.from_key("k" * 8, base_url=server.url)
        options = json_freeze_object({"temperature": 0.5})
        model = provider.model("claude-sonnet-4-5")
        assert [item async for item in model.stream(Request("c", [user("hi")], options=options))]
        await provider.aclose()
    headers = server.requests[0].headers
    assert (headers["anthropic-version"], headers["x-api-key"]) == ("2023-06-01", "k" * 8)
    assert "authorization" not in headers
    assert server.requests[0].path == "/v1/messages"
    assert server.requests[0].json["temperature"] == 0.5


async def test_done_after_stop_reason_is_whole() -> None:
    def stream(*events: dict) -> Raw:
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return Raw(200, (("content-type", "text/event-stream"),), "".join((*lines, "data: [DONE]\n\n")).encode())

    told = (start(0, type="text", text=""), delta(0, type="text_delta", text="Hi."), stop(0))
    async with FakeProviderServer([stream(*told, ended("end_turn", output_tokens=1)[0]), stream(*told)]) as server:
        provider = Anthropic.from_key("k" * 8, base_url=server.url)
        model = provider.model("claude-sonnet-4-5")
        *_, reply = [item async for item in model.stream(Request("c", [user("hi")]))]
        assert (reply.message.content, reply.message.stop) == ("Hi.", "end")  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(ModelError) as caught:
            assert [item async for item in model.stream(Request("c", [user("hi")]))]
        await provider.aclose()
    assert caught.value.kind == "cut"


async def test_errors_name_provider_and_model() -> None:
    model = Anthropic.from_key("k" * 8, base_url="http://127.0.0.1:9").model("claude-x")
    with pytest.raises(ModelError, match="anthropic/claude-x") as caught:
        await anext(model.stream(Request("c", [user("hi")])))
    assert caught.value.kind == "network"
