"""What providers' wires have cost others, without recordings: both transports where an SDK could undo what we chose."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from sagent.errors import ModelError
from sagent.lib.json import json_freeze_object
from sagent.messages import Opaque, Text, user
from sagent.model import Model, Reply, Request
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible, Timeouts, provider_named
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.families.responses.events import ResponsesReplyReader
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.reply import ReplyReader
from sagent.testing.script import Call, ErrorEvent, Raw, Stall, Turn, Wire
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage
from tests.deleted import TRANSPORTS

KEY = "key-for-tests"
MODELS = {Anthropic: "claude-sonnet-4-5", OpenAI: "gpt-5.2", OpenAICompatible: "local", Google: "gemini-flash-latest"}
both = pytest.mark.parametrize("way", TRANSPORTS)
every = pytest.mark.parametrize("kind", list(MODELS), ids=lambda kind: kind.__name__)


@asynccontextmanager
async def opened(kind: type, url: str, way: str, **more: object) -> AsyncGenerator[Model]:
    path = "/v1" if kind in (OpenAI, OpenAICompatible) else ""
    provider = kind.from_key(KEY, base_url=f"{url}{path}", transport=way, **more)  # pyright: ignore[reportArgumentType]
    try:
        yield provider.model(MODELS[kind])
    finally:
        await provider.aclose()


async def ask(model: Model, **more: object) -> Reply:
    *_, reply = [item async for item in model.stream(Request("c", [user("hi")], **more))]  # pyright: ignore[reportArgumentType]
    assert isinstance(reply, Reply)
    return reply


async def failure(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model)
    return caught.value


def page(body: object) -> list[bytes]:
    data = json.dumps(body).encode()
    return [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)]


# Versions, keys and addresses


@both
@pytest.mark.parametrize(
    ("auth", "sent"), [("key", {"x-api-key": KEY}), ("bearer", {"authorization": f"Bearer {KEY}"})]
)
async def test_messages_version_and_single_key(way: str, auth: str, sent: dict) -> None:
    """The SDK by itself names 2026-10-21, which refuses `temperature`, and sends a bearer token, which some services
    do not read; where both keys arrive it is `x-api-key` that counts."""
    async with FakeProviderServer([Turn("hi")]) as server, opened(Anthropic, server.url, way, auth=auth) as model:
        await ask(model, options=json_freeze_object({"temperature": 0.5}))
    (request,) = server.requests
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert {name: request.headers[name] for name in ("x-api-key", "authorization") if name in request.headers} == sent
    assert (request.path, request.query, request.json["temperature"]) == ("/v1/messages", "", 0.5)


@both
async def test_gemini_aliases_use_v1beta(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only v1beta has them; the SDK by itself takes v1, or what the environment says."""
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
    async with FakeProviderServer([Turn("hi")]) as server, opened(Google, server.url, way) as model:
        await ask(model)
    (request,) = server.requests
    assert request.path == "/v1beta/models/gemini-flash-latest:streamGenerateContent"
    assert (request.query, request.headers["x-goog-api-key"]) == ("alt=sse", KEY)
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    ("provider", "member", "value"),
    [
        ("openrouter", "usage", {"include": True}),  # the price, of gateways that imitate it too
        ("zai", "tool_stream", True),  # else arguments come in one piece, after a silence
        ("minimax", "reasoning_split", True),  # else thoughts stand in the text
        pytest.param("llamacpp", "return_progress", True, marks=pytest.mark.plugin("local")),  # else silence
        ("mistral", "stream_options", None),  # refused there
        ("deepseek", "stream_options", {"include_usage": True}),
    ],
)
def test_opt_in_members_are_sent(provider: str, member: str, value: object) -> None:
    model = provider_named(provider, key=KEY).model("m")
    assert json.loads(model.prepare(Request("c", [user("hi")])).body.data).get(member) == value  # pyright: ignore[reportAttributeAccessIssue]


# Streams


@every
@both
@pytest.mark.parametrize(
    "wire", [Wire("bytes", "\r\n", "x"), Wire("bytes", "\r", "x"), Wire(7, "\n", "x"), Wire("whole", "\r\n")]
)
async def test_wire_line_ends_and_cuts_change_nothing(kind: type, way: str, wire: Wire) -> None:
    """google-genai's own parser fails at a comment; a character may come in pieces."""
    turn = Turn("Grüße 🌍", thinking="Hm.", calls=(Call("A", {"x": "ü"}, id="toolu_1"),), pieces=2)
    async with FakeProviderServer([turn], wire=wire) as server, opened(kind, server.url, way) as model:
        reply = await ask(model)
    assert reply.message.content == "Grüße 🌍"
    assert [(call.name, dict(call.arguments)) for call in reply.message.calls] == [("A", {"x": "ü"})]
    assert not reply.charges[0].estimated


@both
@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", None])
async def test_messages_whole_with_stop_reason(way: str, reason: str | None) -> None:
    """Gateways leave the last event out; and the anthropic SDK gives what there is for a message."""
    events = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}},
    ]
    data = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()
    stream, last = (("content-type", "text/event-stream"),), b'data: {"type": "message_stop"}\n\n'
    script = [Raw(200, stream, data), Raw(200, stream, data + last)]
    async with FakeProviderServer(script) as server, opened(Anthropic, server.url, way) as model:
        if reason is None:
            error = await failure(model)
            assert (error.kind, error.retryable) == ("cut", True)
        else:
            assert (await ask(model)).usage.output == 2
        assert (await ask(model)).message.content == "Hi."


@every
@both
async def test_mid_answer_silence_is_a_stall(kind: type, way: str) -> None:
    """Of the SDKs' clients two raise what is no error of theirs, after ten minutes."""
    step = Stall(Turn("abcdefgh", pieces=1), after_events=6)
    async with (
        FakeProviderServer([step]) as server,
        opened(kind, server.url, way, timeouts=Timeouts(stall=0.1)) as model,
    ):
        error = await failure(model)
    assert (error.kind, error.retryable) == ("stalled", True)


@every
@both
async def test_error_after_status_200_is_retryable(kind: type, way: str) -> None:
    """The anthropic SDK gives it the status 200 and never tries again."""
    step = ErrorEvent(Turn("abcdefgh", pieces=1), after_events=6)
    async with FakeProviderServer([step]) as server, opened(kind, server.url, way) as model:
        error = await failure(model)
    assert (error.kind, error.retryable) == ("overloaded", True)
    assert error.status != 200


@every
@both
@pytest.mark.parametrize(
    ("body", "kind_of_error"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        ({"error": {"code": 429, "message": "slow down", "type": "rate_limit_error"}}, "rate_limit"),
        ([{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}], "auth"),
    ],
)
async def test_error_in_place_of_a_reply(raw_server, kind: type, way: str, body: object, kind_of_error: str) -> None:
    """Under status 200, whole, where a stream was asked for."""
    async with raw_server(page(body)) as server, opened(kind, server.url, way) as model:
        assert (await failure(model)).kind == kind_of_error


# Usage


def fed(reader: ReplyReader, *events: dict) -> ReplyReader:
    for event in events:
        reader.feed(event, [])
    return reader


def messages(*blocks: dict, rounds: list[dict], **told: object) -> MessagesReplyReader:
    """A reply of blocks, each with its deltas under "deltas"; usage at its end."""
    reader = MessagesReplyReader(Origin("anthropic", "claude-opus-4-6"))
    fed(reader, {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}})
    for index, block in enumerate(blocks):
        deltas = block.pop("deltas", ())
        fed(reader, {"type": "content_block_start", "index": index, "content_block": block})
        fed(reader, *({"type": "content_block_delta", "index": index, "delta": each} for each in deltas))
        fed(reader, {"type": "content_block_stop", "index": index})
    usage = {**told, "iterations": rounds}
    fed(
        reader,
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )
    return reader


def test_compaction_is_billed_and_returned() -> None:
    """Its tokens are in no top-level count, and say nothing of the size of the context, which is the last message's."""
    block = {"type": "compaction", "content": None}
    deltas = [{"type": "compaction_delta", "content": "What was said.", "encrypted_content": "gAAA"}]
    rounds = [
        {"type": "compaction", "input_tokens": 150_000, "cache_read_input_tokens": 9_000, "output_tokens": 700},
        {"type": "message", "input_tokens": 900, "cache_creation_input_tokens": 40, "output_tokens": 30},
    ]
    reader = messages({**block, "deltas": deltas}, {"type": "text", "text": "On."}, rounds=rounds, input_tokens=900)
    assert reader.usage() == Usage(input=900, cache_write=40, output=30)
    assert [(charge.model, charge.usage) for charge in reader.charges()] == [
        ("claude-opus-4-6", Usage(input=150_000, cache_read=9_000, output=700)),
        ("claude-opus-4-6", Usage(input=900, cache_write=40, output=30)),
    ]
    said = reader.message()
    assert said.parts[1:] == (Text("On."),)
    assert isinstance(said.parts[0], Opaque)
    model = Anthropic.from_key(KEY).model("claude-opus-4-6")
    sent = json.loads(model.prepare(Request("c", [user("hi"), said, user("go on")])).body.data)["messages"][1]
    assert sent["content"][0] == {"type": "compaction", "content": "What was said.", "encrypted_content": "gAAA"}


def test_fallback_is_billed_to_both_models() -> None:
    """Both read the context: the size of it is counted once, the words of both."""
    rounds = [
        {"type": "message", "model": "claude-fable-5-2", "input_tokens": 1_000, "output_tokens": 20},
        {"type": "fallback_message", "model": "claude-opus-4-6", "input_tokens": 1_100, "output_tokens": 60},
    ]
    reader = messages({"type": "text", "text": "Yes."}, rounds=rounds, input_tokens=2_100, output_tokens=80)
    assert reader.usage() == Usage(input=1_100, output=80)
    assert [(charge.model, charge.usage) for charge in reader.charges()] == [
        ("claude-fable-5-2", Usage(input=1_000, output=20)),
        ("claude-opus-4-6", Usage(input=1_100, output=60)),
    ]


WRITTEN = {"cached_tokens": 600, "cache_write_tokens": 300}


@pytest.mark.parametrize("details", [WRITTEN, {**WRITTEN, "cache_write_tokens_details": {"ttl_30m_tokens": 300}}])
def test_openai_cache_writes_are_inside_input(details: dict) -> None:
    """At Anthropic it stands beside it."""
    told = {"input_tokens": 1_000, "input_tokens_details": details, "output_tokens": 5, "total_tokens": 1_005}
    response = {"id": "r", "status": "completed", "output": [], "usage": told}
    responses = fed(
        ResponsesReplyReader(Origin("openai", "gpt-5.6-terra"), "responses:openai"),
        {"type": "response.completed", "response": response},
    )
    told = {"prompt_tokens": 1_000, "prompt_tokens_details": details, "completion_tokens": 5, "total_tokens": 1_005}
    chat = fed(ChatReplyReader(Origin("x", "gpt-5.6-terra"), "chat:x"), {"choices": [], "usage": told})
    assert responses.usage() == chat.usage() == Usage(100, 600, 300, output=5)


# Ids


@pytest.mark.parametrize(
    ("told", "kept"),
    [("msg_1", True), (f"msg_{'x' * 60}", True), (f"msg_{'x' * 61}", False), ("msg_a+b=", False), ("item_1", False)],
)
def test_item_id_returned_only_if_valid(told: str, kept: bool) -> None:
    """Copilot's have 416 characters, servers that imitate the API have their own."""
    content = [{"type": "output_text", "text": "Hi.", "annotations": []}]
    item = {"type": "message", "id": told, "role": "assistant", "status": "completed", "content": content}
    reader = ResponsesReplyReader(Origin("openai", "gpt-5.2"), "responses:openai")
    reader.whole({"id": "r", "status": "completed", "output": [item]}, [])
    model = OpenAI.from_key(KEY).model("gpt-5.2")
    sent = json.loads(model.prepare(Request("c", [user("hi"), reader.message()])).body.data)["input"][1]
    assert sent == (item if kept else {name: value for name, value in item.items() if name != "id"})
