"""Chat Completions: what goes out to whom, and the dialects that call themselves compatible."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from sagent.errors import ModelError
from sagent.lib.json import json_freeze_object, json_thaw
from sagent.lib.schema import parse_arguments
from sagent.messages import Document, Image, Message, Text, Thinking, ToolCall, ToolResult, user
from sagent.model import Delta, Request, TextPart, ThinkingPart, ToolSpec
from sagent.providers import built_in, provider_named
from sagent.providers.families.chat.efforts import effort_members
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.rows import Quirks
from sagent.providers.wire.exchange import Call
from sagent.providers.wire.faults import Origin
from sagent.testing.script import Fail, Turn
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage

TOOLS = (ToolSpec("A", "a", json_freeze_object({"type": "object"})),)
NO_ARGUMENTS = {"type": "object", "properties": {}}


OPENAI = "https://api.openai.com/v1"  # as a server of Chat Completions


def prepared(*messages: Message, provider: str = OPENAI, model: str = "gpt-4.1", **more: object) -> Call:
    request = Request("c", messages or (user("hi"),), **more)
    if provider == OPENAI:
        return provider_named("openai-compatible", key="k" * 8, base_url=OPENAI).model(model).prepare(request)
    base = "http://localhost:1" if not built_in()[provider].base_url else None
    return provider_named(provider, key="k" * 8, base_url=base).model(model).prepare(request)


def body_of(*messages: Message, **more: object) -> dict:
    return json.loads(prepared(*messages, **more).body.data)


def drafted(*chunks: dict, family: str = "chat:acme") -> tuple[ChatReplyReader, list[Delta]]:
    reader, out = ChatReplyReader(Origin("acme", "m"), family), []
    for chunk in chunks:
        reader.feed(chunk, out)
    return reader, out


def says(**delta: object) -> dict:
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def ends(reason: str) -> dict:
    return {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def calls(*deltas: dict) -> dict:
    return says(tool_calls=list(deltas))


def call(index: int | None, call_id: str | None = None, name: str | None = None, arguments: object = None) -> dict:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    delta = {"function": function, **({"id": call_id} if call_id is not None else {})}
    return delta if index is None else {"index": index, **delta}


def test_chunk_thought_comes_before_its_text() -> None:
    """vLLM ends the one and begins the other in one chunk, and an answer in one piece has both."""
    told = [TextPart("Yes"), TextPart(".")]
    _, out = drafted(says(reasoning="Hm"), says(content="Yes", reasoning="."), says(content="."))
    assert out == [ThinkingPart("Hm"), ThinkingPart("."), *told]
    reader, out = ChatReplyReader(Origin("acme", "m"), "chat:acme"), []
    message = {"content": "Yes.", "reasoning_content": "Hm."}
    reader.whole({"choices": [{"message": message, "finish_reason": "stop"}]}, out)
    assert out == [ThinkingPart("Hm."), TextPart("Yes.")]


@pytest.mark.parametrize("signed", [{}, {"signature": "c2ln"}], ids=["plain", "signed"])
@pytest.mark.parametrize("calling", [False, True])
def test_mistral_thinking_goes_back(signed: dict, calling: bool) -> None:
    def thought(text: str) -> dict:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **signed}

    chunks = [says(content=[thought("Hm")]), says(content=[thought(".")]), says(content="Yes.")]
    reader, _ = drafted(*chunks, *([calls(call(0, "abcdefghi", "A", "{}"))] if calling else []), family="chat:mistral")
    said = replace(reader.message(), model="mistral/m")
    sent = body_of(user("hi"), said, provider="mistral", model="mistral-medium-3-5")["messages"][1]
    assert sent["content"] == [thought("Hm."), {"type": "text", "text": "Yes."}]
    assert bool(sent.get("tool_calls")) == calling


@pytest.mark.parametrize("place", [{"service_tier": "priority"}, {"usage": {"service_tier": "priority"}}])
def test_service_tier_in_chunk_or_usage(place: dict) -> None:
    counts = {"prompt_tokens": 9, "completion_tokens": 2}
    reader, _ = drafted(says(content="Hi"), {**ends("stop"), **place, "usage": {**counts, **place.get("usage", {})}})
    assert reader.charges()[0].tier == "priority"


def test_chat_members_in_cacheable_order() -> None:
    body = body_of(system="Be terse.", tools=TOOLS, max_output=9)
    assert list(body)[:3] == ["tools", "messages", "model"]
    assert body["messages"][0] == {"role": "system", "content": "Be terse."}
    assert body["tools"][0]["function"] == {
        "name": "A",
        "description": "a",
        "parameters": NO_ARGUMENTS,
    }
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_chat_members_by_provider() -> None:
    openai = body_of(max_output=9)
    assert (openai["max_completion_tokens"], "max_tokens" in openai, len(openai["prompt_cache_key"])) == (9, False, 32)
    moonshot = body_of(provider="moonshot", model="kimi-k2.6", max_output=9, effort="none")
    assert (moonshot["max_completion_tokens"], moonshot["thinking"]) == (9, {"type": "disabled"})
    assert "max_completion_tokens" not in body_of(provider="moonshot", model="kimi-k2.6")
    dashscope = body_of(provider="dashscope", model="qwen3.6-plus", max_output=9, effort="low")
    assert (dashscope["max_completion_tokens"], dashscope["enable_thinking"]) == (9, True)
    assert body_of(provider="minimax", model="MiniMax-M2.7")["reasoning_split"] is True
    assert "stream_options" not in body_of(provider="mistral", model="mistral-large")
    assert "prompt_cache_key" not in body_of(provider="openai-compatible", model="x")
    assert body_of(provider="openrouter", model="x/y", effort="max")["reasoning"] == {"effort": "xhigh"}


@pytest.mark.parametrize(
    ("model", "effort", "tools", "sent", "noted"),
    [
        ("gpt-4.1", "high", False, None, True),
        ("gpt-4.1", "none", False, None, False),
        ("gpt-5", "none", False, "minimal", True),
        ("gpt-5", "max", False, "high", True),
        ("gpt-5.1", "minimal", True, "none", True),
        ("gpt-5.2", "xhigh", True, "xhigh", False),
        ("gpt-5.4", None, True, None, False),
        ("gpt-5.4", "high", True, "none", True),
        ("gpt-5.4", "high", False, "high", False),
        ("gpt-5.6-terra", None, True, "none", False),
        ("gpt-5.6-terra", "max", False, "max", False),
        ("gpt-5-pro", "low", False, "high", True),
        ("o3", "xhigh", True, "high", True),
        ("o3", None, True, None, False),
    ],
)
def test_reasoning_effort_at_openai(model: str, effort: str | None, tools: bool, sent: str | None, noted: bool) -> None:
    members, notes = effort_members(model, Quirks(effort="openai"), effort, with_tools=tools)
    assert members.get("reasoning_effort") == sent
    assert bool(notes) == noted


def test_unsendable_effort_is_noted() -> None:
    assert prepared(provider="openai-compatible", model="x", effort="high").notes
    assert not prepared(provider="openai-compatible", model="x").notes
    assert prepared(provider="groq", model="gpt-oss-120b", effort="max").notes


def test_media_in_supported_places() -> None:
    parts = (
        Image("image/png", b"PNG"),
        Document("application/pdf", b"%PDF", "a.pdf"),
        Document("text/plain", b"words", "n.txt"),
    )
    seen = body_of(user("look", *parts))["messages"][0]["content"]
    assert seen[1]["image_url"]["url"] == "data:image/png;base64,UE5H"
    assert seen[2]["file"] == {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    assert seen[3]["text"] == "[n.txt]\nwords"
    unseen = body_of(user("look", *parts), provider="deepseek", model="deepseek-v4-pro")["messages"][0]["content"]
    assert isinstance(unseen, str)
    assert "image/png" in unseen
    assert "a.pdf" in unseen


@pytest.mark.parametrize(
    "step",
    [
        Fail(400, message="Invalid content type. image_url is only supported by certain models."),
        Fail(404, message="No endpoints found that support image input"),
        Fail(400, body='{"error":"this model does not support image input"}'),
        Fail(400, message="'messages.0.content' : value must be a string, or: messages[1].content must be a string"),
        Fail(500, message="image input is not supported - hint: you may need to provide the mmproj"),
        Fail(500, message="Qwen/Qwen3-0.6B is not a multimodal model"),
    ],
)
async def test_blind_model_continues_with_images(step: Fail) -> None:
    looked = Message("assistant", (ToolCall("1", "A"),), model="anthropic/x", stop="tool_use")
    seen = Message("user", (ToolResult("1", (Text("see"), Image("image/png", b"PNG"))),))
    history = (user("look", Image("image/png", b"PNG"), Document("application/pdf", b"%PDF")), looked, seen)
    async with FakeProviderServer([step, Turn("I read."), Turn("Again.")]) as server:
        provider = provider_named("openrouter", key="k" * 8, base_url=f"{server.url}/v1")
        model = provider.model("x/y")
        for _ in range(2):
            *_, reply = [item async for item in model.stream(Request("c", history))]
            assert any("x/y does not accept images" in note for note in reply.notes)
        assert not prepared(*history, provider="openrouter", model="x/z").notes
        await provider.aclose()
    assert [b"image_url" in request.body for request in server.requests] == [True, False, False]
    assert server.requests[1].body.count(b"it cannot be shown to this model") == 3


def test_document_read_by_name_only_is_noted() -> None:
    paper = user("read", Document("application/pdf", b"%PDF", 'a "b".pdf'))
    [note] = prepared(paper, provider="mistral", model="m").notes
    assert 'a "b".pdf' in note and "cannot be shown" in note
    assert not prepared(user("read", Document("text/plain", b"words", "a.txt")), provider="mistral").notes
    assert not prepared(paper, Message("assistant", (Text("ok"),)), user("go on"), provider="mistral").notes


@pytest.mark.parametrize(
    ("step", "history"),
    [
        (Fail(400, message="Invalid image: too large"), (user("no image here"),)),
        (Fail(400, message="temperature is not supported"), (user("look", Image("image/png", b"PNG")),)),
        (Fail(429, message="too many images today"), (user("look", Image("image/png", b"PNG")),)),
    ],
)
async def test_other_refusals_are_not_retried(step: Fail, history: tuple[Message, ...]) -> None:
    async with FakeProviderServer([step, Turn("no")]) as server:
        provider = provider_named("openrouter", key="k" * 8, base_url=f"{server.url}/v1")
        with pytest.raises(ModelError):
            assert [item async for item in provider.model("x/y").stream(Request("c", history))]
        await provider.aclose()
    assert len(server.requests) == 1


def test_chat_weight() -> None:
    model = provider_named("moonshot", key="k" * 8).model("kimi-k2.6")
    assert 1_000 < model.max_input_tokens(Request("a", [user("x" * 1_000)])) < 2_500
    assert 8_000 < model.max_input_tokens(Request("b", [user("", Image("image/png", b"x" * 2_000_000))])) < 9_500


def test_chat_tool_errors_are_prefixed() -> None:
    asked = Message("assistant", (ToolCall("1", "A"), ToolCall("2", "A")))
    results = (
        ToolResult("1", (Text("no such file"),), is_error=True),
        ToolResult("2", (Text("Error: gone"),), is_error=True),
    )
    tools = [
        turn["content"]
        for turn in body_of(user("hi"), asked, Message("user", results))["messages"]
        if turn["role"] == "tool"
    ]
    assert tools == ["Error: no such file", "Error: gone"]


@pytest.mark.parametrize(
    ("provider", "family", "expected"),
    [
        ("moonshot", "chat:moonshot", {"reasoning_content": "hm"}),
        ("moonshot", "chat:other", {"reasoning_content": " "}),
        ("groq", "chat:groq", {}),
        ("openai-compatible", "chat:openai-compatible", {"reasoning_content": "hm"}),
        ("openai-compatible", "chat:other", {}),
    ],
)
def test_reasoning_returns_where_wanted(provider: str, family: str, expected: dict) -> None:
    reader, _ = drafted(says(reasoning_content="hm"), calls(call(0, "1", "A", "{}")), ends("tool_calls"), family=family)
    message = reader.message()
    sent = body_of(
        user("hi"), message, Message("user", (ToolResult("1", (Text("ok"),)),)), provider=provider, model="m"
    )["messages"][1]
    assert {name: value for name, value in sent.items() if name.startswith("reasoning")} == expected
    plain = drafted(says(reasoning_content="hm"), says(content="x"), ends("stop"), family=family)[0].message()
    assert (
        "reasoning_content" not in body_of(user("hi"), plain, user("go"), provider=provider, model="m")["messages"][1]
    )


def test_reasoning_details_return_joined() -> None:
    detail = {"type": "reasoning.text", "format": "anthropic", "index": 0}
    reader, out = drafted(
        says(reasoning="He", reasoning_details=[{**detail, "text": "He"}]),
        says(reasoning="y", reasoning_details=[{**detail, "text": "y"}]),
        says(reasoning_details=[{**detail, "signature": "sig"}]),
        says(reasoning_details=[{"type": "reasoning.encrypted", "data": "xx", "index": 1}]),
        calls(call(0, "1", "A", "{}")),
        ends("tool_calls"),
        family="chat:openrouter",
    )
    assert [delta for delta in out if isinstance(delta, ThinkingPart)] == [ThinkingPart("He"), ThinkingPart("y")]
    sent = body_of(user("hi"), reader.message(), provider="openrouter", model="x/y")["messages"][1]
    assert sent["reasoning_details"] == [
        {**detail, "text": "Hey", "signature": "sig"},
        {"type": "reasoning.encrypted", "data": "xx", "index": 1},
    ]


def test_repeated_details_are_told_once() -> None:
    whole = "The person wants to know the weather."
    reader, out = drafted(
        *(says(reasoning_details=[{"type": "reasoning.text", "text": whole[:end]}]) for end in (20, 30, len(whole))),
        says(content="x"),
    )
    assert "".join(delta.text for delta in out if isinstance(delta, ThinkingPart)) == whole
    assert reader.message().parts[0].text == whole


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_text": "hm"},
        {"thinking": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
        {"reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
        {"content": None, "reasoning_content": "hm", "role": "assistant"},
    ],
)
def test_reasoning_under_all_its_names(delta: dict) -> None:
    reader, out = drafted(says(**delta), says(content="x"), ends("stop"))
    assert out == [ThinkingPart("hm"), TextPart("x")]
    assert [type(part) for part in reader.message().parts] == [Thinking, Text]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        (
            [calls(call(0, "a", "A", "")), calls(call(0, None, None, '{"x"')), calls(call(0, None, None, ":1}"))],
            [("a", "A", {"x": 1})],
        ),
        # the id comes late, is empty, or is repeated
        ([calls(call(0, None, "A", "")), calls(call(0, "a", None, '{"x":1}'))], [("a", "A", {"x": 1})]),
        ([calls(call(0, "a", "A", "")), calls(call(0, "", "", '{"x":1}'))], [("a", "A", {"x": 1})]),
        ([calls(call(0, "a", "A", '{"x"')), calls(call(0, "a", "A", ":1}"))], [("a", "A", {"x": 1})]),
        ([calls(call(0, "", "A", '{"x":1}'))], [("", "A", {"x": 1})]),
        # two calls, by index or in one chunk
        (
            [
                calls(call(0, "a", "A", ""), call(1, "b", "B", "")),
                calls(call(1, None, None, "{}")),
                calls(call(0, None, None, '{"x":1}')),
            ],
            [("a", "A", {"x": 1}), ("b", "B", {})],
        ),
        # every call has the index 0, with ids and without
        ([calls(call(0, "a", "A", "{}")), calls(call(0, "b", "B", '{"y":2}'))], [("a", "A", {}), ("b", "B", {"y": 2})]),
        (
            [calls(call(0, "", "A", '{"x":1}')), calls(call(0, "", "A", '{"x":2}'))],
            [("", "A", {"x": 1}), ("", "A", {"x": 2})],
        ),
        # no index at all
        ([calls(call(None, "a", "A", '{"x"')), calls(call(None, None, None, ":1}"))], [("a", "A", {"x": 1})]),
        ([calls(call(None, "a", "A", "{}")), calls(call(None, "b", "B", "{}"))], [("a", "A", {}), ("b", "B", {})]),
        ([calls(call(None, None, "A", "{}"), call(None, None, "B", "{}"))], [("", "A", {}), ("", "B", {})]),
        # no index, and the same id again
        ([calls(call(None, "a", "A", "{}")), calls(call(None, "a", "A", "{}"))], [("a", "A", {}), ("a", "A", {})]),
        ([calls(call(None, "a", "A", '{"x"')), calls(call(None, "a", "A", ":1}"))], [("a", "A", {"x": 1})]),
        # the name comes after the first arguments
        ([calls(call(0, None, None, '{"x"')), calls(call(0, "a", "A", ":1}"))], [("a", "A", {"x": 1})]),
        # what a call goes on with is numbered anew, or has another call's number and its own id
        (
            [
                calls(call(0, "a", "A", '{"x":1}')),
                calls(call(0, "b", "B", "")),
                calls(call(1, None, None, '{"y"')),
                calls(call(2, None, None, ":2}")),
            ],
            [("a", "A", {"x": 1}), ("b", "B", {"y": 2})],
        ),
        (
            [
                calls(call(0, "a", "A", ""), call(1, "b", "B", "")),
                calls(call(0, "b", None, "{}")),
                calls(call(0, "a", "A", '{"x":1}')),
            ],
            [("a", "A", {"x": 1}), ("b", "B", {})],
        ),
        # arguments that begin with an empty object, or end with all of them again
        ([calls(call(0, "a", "A", "{}")), calls(call(0, None, None, '{"x":1}'))], [("a", "A", {"x": 1})]),
        (
            [calls(call(0, "a", "A", '{"x"')), calls(call(0, None, None, ":1}")), calls(call(0, "a", None, '{"x":1}'))],
            [("a", "A", {"x": 1})],
        ),
        # arguments as an object, null, or none
        ([calls(call(0, "a", "A", {"x": 1}))], [("a", "A", {"x": 1})]),
        ([calls({"index": 0, "id": "a", "function": {"name": "A", "arguments": None}})], [("a", "A", {})]),
        ([calls(call(0, "a", "A"))], [("a", "A", {})]),
        ([calls(call(0, "a", "A", "null"))], [("a", "A", {})]),
        # one call that is not in a list; the function call of old
        ([says(tool_calls=call(0, "a", "A", "{}"))], [("a", "A", {})]),
        (
            [says(function_call={"name": "A", "arguments": '{"x"'}), says(function_call={"arguments": ":1}"})],
            [("", "A", {"x": 1})],
        ),
    ],
)
def test_calls_as_servers_send_them(deltas: list[dict], expected: list[tuple]) -> None:
    reader, _ = drafted(*deltas, ends("stop"))
    message = reader.message()
    assert [(each.id, each.name, dict(each.arguments)) for each in message.calls] == expected
    assert message.stop == "tool_use"


def test_one_piece_calls_counted_despite_ids() -> None:
    message = {"content": None, "tool_calls": [call(None, "a", "A", "{}"), call(None, "a", "A", ""), call(0, "", "B")]}
    reader = ChatReplyReader(Origin("acme", "m"), "chat:acme")
    reader.whole({"id": "c", "choices": [{"message": message, "finish_reason": "tool_calls"}]}, [])
    assert [(each.id, each.name) for each in reader.message().calls] == [("a", "A"), ("a", "A"), ("", "B")]


def test_reasoning_summary_in_content() -> None:
    """Databricks', of Claude."""
    pieces = [{"text": "Let me "}, {"text": "think"}, {"text": "", "signature": "S"}]
    deltas = [says(content=[{"type": "reasoning", "summary": [piece]}]) for piece in pieces]
    reader, _ = drafted(*deltas, says(content=[{"type": "text", "text": "Hi"}]), ends("stop"))
    thought, text = reader.message().parts
    assert (thought.text, text.text) == ("Let me think", "Hi")


def test_untyped_content_part_is_kept() -> None:
    reference = {"type": "reference", "reference_ids": [1, 2]}
    reader, _ = drafted(says(content=[{"type": "text", "text": "So."}, reference]), ends("stop"))
    (text,) = reader.message().parts
    assert (text.text, json_thaw(text.private.data)) == ("So.", {"parts": [reference]})


def test_calls_split_into_choices_are_read() -> None:
    """Copilot's, of Claude."""
    called = {"content": None, "tool_calls": [call(None, "a", "A", "{}")]}
    choices = [{"message": {"content": "I look."}, "finish_reason": "tool_calls"}, {"message": called}]
    reader = ChatReplyReader(Origin("acme", "m"), "chat:acme")
    reader.whole({"id": "c", "choices": choices}, [])
    message = reader.message()
    assert (message.content, [each.id for each in message.calls], message.stop) == ("I look.", ["a"], "tool_use")


def test_chat_malformed_arguments_are_kept() -> None:
    reader, _ = drafted(calls(call(0, "a", "A", '{"x": tru')), ends("length"))
    message = reader.message()
    assert (message.calls[0].malformed, message.stop) == ('{"x": tru', "max_tokens")


def test_thought_signatures_of_calls_return() -> None:
    extra = {"google": {"thought_signature": "xx"}}
    reader, _ = drafted(
        calls({**call(0, "a", "A", "{}"), "extra_content": extra}), ends("stop"), family="chat:openai-compatible"
    )
    sent = body_of(user("hi"), reader.message(), provider="openai-compatible", model="m")["messages"][1]
    assert sent["tool_calls"][0]["extra_content"] == extra


def test_citations_kept_once_not_sent_back() -> None:
    cited = [{"type": "url_citation", "url_citation": {"url": f"https://{name}", "title": name}} for name in "ab"]
    reader, _ = drafted(
        {**says(content="Bern"), "citations": ["https://a"]},
        says(annotations=cited[:1]),
        {**says(annotations=cited), "citations": ["https://a", "https://b"], "search_results": [{"title": "a"}]},
        ends("stop"),
        family="chat:openrouter",
    )
    text = reader.message().parts[0]
    assert json_thaw(text.private.data) == {
        "annotations": cited,
        "citations": ["https://a", "https://b"],
        "search_results": [{"title": "a"}],
    }
    sent = body_of(user("hi"), reader.message(), user("and?"), provider="openrouter", model="x/y")["messages"][1]
    assert sent == {"role": "assistant", "content": "Bern"}


def test_usage_may_come_with_last_words() -> None:
    """At OpenRouter, z.ai, Mistral and DeepSeek the last chunk has choices, and at some words."""
    last = {
        "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3},
    }
    reader, out = drafted(says(content="hel"), last)
    assert (reader.message().content, reader.usage(), reader.complete) == ("hello", Usage(input=3), True)
    assert [delta for delta in out if isinstance(delta, TextPart)] == [TextPart("hel"), TextPart("lo")]


def test_chat_later_count_does_not_lower_one() -> None:
    told = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    reader, _ = drafted(
        says(content="x"), {"choices": [], "usage": told}, {"choices": [], "usage": dict.fromkeys(told, 0)}
    )
    assert reader.usage() == Usage(input=5, output=2)


@pytest.mark.parametrize("nothing", [None, {}, {"index": 1}, {"index": 1, "function": None}])
def test_empty_call_is_dropped(nothing: object) -> None:
    reader, _ = drafted(says(content="x"), says(tool_calls=[nothing]), ends("stop"))
    assert (reader.message().calls, reader.message().stop) == ((), "end")


def test_reasoning_never_exceeds_completion() -> None:
    """OpenRouter counts it by another tokenizer than the completion that is billed."""
    told = {"prompt_tokens": 15, "completion_tokens": 256, "total_tokens": 271}
    reader, _ = drafted(
        says(reasoning="hm"),
        ends("length"),
        {"choices": [], "usage": {**told, "completion_tokens_details": {"reasoning_tokens": 271}}},
    )
    assert reader.usage() == Usage(input=15, output=256, reasoning=256)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "end"),
        ("length", "max_tokens"),
        ("content_filter", "content_filter"),
        ("tool_calls", "end"),
        ("eos", "end"),
        ("new", "end"),
    ],
)
def test_chat_stop_reasons(reason: str, expected: str) -> None:
    reader, _ = drafted(says(content="x"), ends(reason))
    assert reader.complete
    assert reader.message().stop == expected


def test_chat_refusal_is_shown_and_named() -> None:
    reader, out = drafted(says(refusal="I can"), says(refusal="not."), ends("stop"))
    assert (reader.message().content, reader.message().stop, len(out)) == ("I cannot.", "refusal", 2)


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ({"finish_reason": "error", "error": {"code": 502, "message": "upstream"}}, "server"),
        ({"finish_reason": "ERROR"}, "server"),
        ({"finish_reason": "insufficient_system_resource"}, "overloaded"),
        ({"finish_reason": "abort"}, "server"),
    ],
)
def test_error_stop_reasons(choice: dict, kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        drafted({"choices": [{"index": 0, "delta": {}, **choice}]})
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Usage(input=10, output=5)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
            },
            Usage(input=3, cache_read=4, cache_write=3, output=5),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6},
            Usage(input=4, cache_read=6, output=5),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 6}, Usage(input=4, cache_read=6, output=5)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 15,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input=10, output=5, reasoning=3),
        ),
        (  # xAI: reasoning beside the completion
            {
                "prompt_tokens": 10,
                "completion_tokens": 1,
                "total_tokens": 18,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            Usage(input=10, output=8, reasoning=7),
        ),
        (  # Google's compatible endpoint does not even name it
            {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 18},
            Usage(input=10, output=8, reasoning=7),
        ),
        (  # the same tokens counted as read and as written
            {
                "prompt_tokens": 10,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9},
            },
            Usage(input=0, cache_read=9, cache_write=1, output=1),
        ),
        (  # Mistral: sound beside the prompt
            {
                "prompt_tokens": 11,
                "completion_tokens": 15,
                "total_tokens": 401,
                "prompt_tokens_details": {"audio_tokens": 375, "cached_tokens": 9},
            },
            Usage(input=377, cache_read=9, output=15, fees={"audio_input": 375}),
        ),
        (  # Vercel's gateway: thoughts beside everything
            {
                "prompt_tokens": 57,
                "completion_tokens": 10,
                "total_tokens": 67,
                "market_cost": 0.0001346,
                "completion_tokens_details": {"reasoning_tokens": 37},
            },
            Usage(input=57, output=47, reasoning=37),
        ),
        (  # OpenRouter's, whose count of thoughts is another's, and inside the rest as the total and the cost say
            {
                "prompt_tokens": 15,
                "completion_tokens": 256,
                "total_tokens": 271,
                "cost": 0.0006505,
                "completion_tokens_details": {"reasoning_tokens": 271},
            },
            Usage(input=15, output=256, reasoning=256),
        ),
        ({"prompt_tokens": None, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(output=2)),
        ({"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}, Usage(6, 4, output=5)),
        ({"prompt_tokens": -1, "completion_tokens": 2, "total_tokens": -1}, Usage(output=2)),
    ],
)
@pytest.mark.parametrize("place", ["usage", "x_groq", "choice"])
def test_chat_usage_in_any_place(told: dict, expected: Usage, place: str) -> None:
    last: dict = {
        "usage": {"choices": [], "usage": told},
        "x_groq": {"choices": [], "x_groq": {"usage": told}},
        "choice": {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": told}]},
    }[place]
    reader, _ = drafted(says(content="x"), last)
    assert reader.usage() == expected


@pytest.mark.parametrize(
    ("chunk", "usd"),
    [
        ({"usage": {"prompt_tokens": 1, "cost": 0.0003287}}, "0.0003287"),
        ({"usage": {"prompt_tokens": 1, "cost": "1.5e-05"}}, "0.000015"),
        ({"usage": {"prompt_tokens": 1, "cost": {"total_cost": 0.00504}}}, "0.00504"),
        ({"usage": {"prompt_tokens": 1, "cost_in_usd_ticks": 1_466_250}}, "0.000146625"),
        ({"usage": {"prompt_tokens": 1}, "cost": {"usd": 0.5, "diem": 0}}, "0.5"),
        ({"usage": {"prompt_tokens": 1, "cost": 0, "is_byok": False, "cost_details": {}}}, "0"),
        (  # a key of the user's own: the provider behind the gateway bills the larger part
            {
                "usage": {
                    "prompt_tokens": 1,
                    "cost": 0.0001,
                    "is_byok": True,
                    "cost_details": {"upstream_inference_cost": 0.002},
                }
            },
            "0.0021",
        ),
    ],
)
def test_provider_price_is_taken(chunk: dict, usd: str) -> None:
    reader, _ = drafted({"choices": [], **chunk})
    assert reader.charges()[0].usd == Decimal(usd)


def test_search_sources_are_counted() -> None:
    reader, _ = drafted({"choices": [], "usage": {"prompt_tokens": 1, "num_sources_used": 4}})
    assert reader.usage() == Usage(input=1, fees={"search_source": 4})


def test_gateway_share_alone_is_no_price() -> None:
    reader, _ = drafted({"choices": [], "usage": {"prompt_tokens": 1, "cost": 0.1, "is_byok": True}})
    assert reader.charges()[0].usd is None


def test_nothing_told_is_nothing_billed() -> None:
    assert drafted(says(content="x"))[0].usage() is None


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{}]},
        says(),
        says(content=None, tool_calls=None),
        says(content=""),
        {"choices": [{"index": 1, "delta": {"content": "other"}}]},
    ],
)
def test_empty_chunks_are_ignored(chunk: dict) -> None:
    reader, out = drafted(chunk)
    assert out == []
    assert not reader.complete


def test_repeated_text_at_end_is_dropped() -> None:
    repeated = {
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}]
    }
    reader, _ = drafted(says(content="hello"), repeated)
    assert (reader.message().content, reader.complete) == ("hello", True)


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        ("<think>\nhm, <b>\n</think>\n\nhello <think> there", "hm, <b>\n", "hello <think> there"),
        ("\n<think></think>hello", "", "hello"),
        ("<think>never </thi ended", "never </thi ended", ""),
        ("<thi", "", "<thi"),
        ("<thinking>x</thinking>", "", "<thinking>x</thinking>"),
        ("  hello", "", "  hello"),
    ],
)
def test_inline_thinking_taken_from_start(text: str, thought: str, rest: str, size: int) -> None:
    pieces = [says(content=text[at : at + size]) for at in range(0, len(text), size)]
    reader, out = drafted(*pieces, ends("stop"))
    message = reader.message()
    assert "".join(part.text for part in message.parts if isinstance(part, Thinking)) == thought
    assert message.content == "".join(part.text for part in out if isinstance(part, TextPart)) == rest
    assert "".join(part.text for part in out if isinstance(part, ThinkingPart)) == thought


def test_marks_stay_text_with_own_reasoning() -> None:
    reader, _ = drafted(says(reasoning="hm"), says(content="<think> is a mark"), ends("stop"))
    assert reader.message().content == "<think> is a mark"


def test_inline_thinking_returns_inline() -> None:
    chunks = says(content="<think>hm</think>I look."), calls(call(0, "a", "A", "{}")), ends("tool_calls")
    reader, _ = drafted(*chunks, family="chat:openai-compatible")
    reply = replace(reader.message(), model="openai-compatible/x")
    sent = body_of(user("hi"), reply, provider="openai-compatible", model="x")["messages"][1]
    assert (sent["content"], len(sent["tool_calls"])) == ("<think>\nhm\n</think>\n\nI look.", 1)
    assert "reasoning_content" not in sent


def test_groq_stop_error_is_an_error() -> None:
    with pytest.raises(ModelError, match="over capacity"):
        drafted(says(content="x"), {"choices": [], "x_groq": {"error": "over capacity"}})


def test_done_alone_is_no_reply() -> None:
    reader, _ = drafted()
    reader.done()
    assert not reader.complete
    reader.feed(says(content="x"), [])
    reader.done()
    assert reader.closed


@pytest.mark.parametrize("more", [{"index": 0, "id": "a"}, {"id": "a"}, {}], ids=["index", "id", "name"])
def test_call_named_in_each_piece_read_once(monkeypatch, more: dict[str, object]) -> None:
    """Of a long one that took minutes."""
    read: list[str] = []

    def parse(raw: str):
        read.append(raw)
        return parse_arguments(raw)

    monkeypatch.setattr("sagent.providers.families.chat.events.parse_arguments", parse)
    reader = ChatReplyReader(Origin("p", "m"), "chat:p")
    raw = json.dumps({"content": "{x}" + "word " * 400})
    for start in range(0, len(raw), 4):
        call = {**more, "function": {"name": "Write", "arguments": raw[start : start + 4]}}
        reader.feed({"choices": [{"delta": {"tool_calls": [call]}}]}, [])
    (call,) = reader.message().calls
    assert call.arguments == json.loads(raw)
    assert len(read) < 10
