"""Bedrock's Converse: requests judged by the service's model in botocore, frames read by botocore's own client."""

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import boto3
import pytest

from sagent.agent import Agent
from sagent.errors import ModelError, UsageError
from sagent.lib.json import json_freeze_object, json_thaw
from sagent.messages import Document, Image, Message, Opaque, Private, Text, Thinking, ToolCall, ToolResult, user
from sagent.model import Model, Reply, Request, ToolSpec
from sagent.plugins.clouds import Bedrock
from sagent.plugins.clouds.converse import ConverseModel, thinking_fields
from sagent.plugins.clouds.converse_events import ConverseReplyReader
from sagent.providers import provider_named
from sagent.providers.abilities import accepts_images, can_reason
from sagent.providers.families.anthropic.provider import AnthropicModel
from sagent.providers.rows import built_in_row
from sagent.providers.wire.faults import Origin
from sagent.testing.families.converse import frame
from sagent.testing.model_suite import OpenModel, ServedModelSuite
from sagent.testing.server import Fail, FakeProviderServer, Received, Turn, Wire
from sagent.usage import Usage
from tests.plugins.clouds.converse_judge import judge

NOVA = "us.amazon.nova-pro-v1:0"
PROFILE = "arn:aws:bedrock:eu-west-3:123456789012:application-inference-profile/abc123def456"
READ = ToolSpec(
    "Read", "Read a file.", json_freeze_object({"type": "object", "properties": {"path": {"type": "string"}}})
)


def judged(request: Received) -> dict:
    """A request's body, which botocore takes for one."""
    body = json.loads(request.body)
    judge(request.path, body)
    return body


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@asynccontextmanager
async def asking(url: str, model_id: str = NOVA) -> AsyncGenerator[Model]:
    provider = Bedrock.from_key("key-for-tests", base_url=url)
    try:
        yield provider.model(model_id)
    finally:
        await provider.aclose()


async def reply_of(model: Model, *messages: Message, tools: tuple[ToolSpec, ...] = (READ,), **more: object) -> Reply:
    request = Request("c", messages or (user("hi"),), "Be terse.", tools, **more)  # pyright: ignore[reportArgumentType]
    *_, reply = [item async for item in model.stream(request)]
    assert isinstance(reply, Reply)
    return reply


class TestConverse(ServedModelSuite):
    billed = Usage(input=10, cache_read=200, cache_write=30, output=50)  # the wire does not count reasoning

    @pytest.fixture
    def open_model(self) -> OpenModel:
        @asynccontextmanager
        async def opened(url: str) -> AsyncGenerator[Model]:
            async with asking(url) as model:
                yield model
            if hasattr(self, "server"):
                assert all(judged(request) for request in self.server.requests)

        return opened


# -- what goes out -----------------------------------------------------------------------------------------------------


async def test_full_turn_fits_service_model() -> None:
    call = ToolCall("tooluse_1", "Read", json_freeze_object({"path": "ä.py"}))
    pdf, text = (
        Document("application/pdf", b"%PDF-1.4 one", "Jahr & Bericht_2.pdf"),
        Document("text/plain", b"words", "n.txt"),
    )
    picture = Image("image/jpeg", b"\xff\xd8 picture")
    history = [
        user("look", picture, pdf, text, Document("audio/x", b"z", "sound")),
        Message("assistant", (Text("On it."), call), model=f"bedrock/{NOVA}", stop="tool_use"),
        Message("user", (ToolResult("tooluse_1", (Text("no such file"), pdf), is_error=True),)),
        Message("assistant", (Text("Hm."),), model=f"bedrock/{NOVA}"),
        Message("user", (pdf,)),
    ]
    async with FakeProviderServer([Turn("ok")]) as server, asking(server.url) as model:
        options = json_freeze_object({"temperature": 0.2, "stop_sequences": ["X"], "requestMetadata": {"team": "a"}})
        await reply_of(model, *history, max_output=77, options=options)
    body = judged(server.requests[0])
    assert body["inferenceConfig"] == {"maxTokens": 77, "temperature": 0.2, "stopSequences": ["X"]}
    assert body["requestMetadata"] == {"team": "a"}
    first, said, result, _, last = body["messages"]
    assert base64.b64decode(first["content"][1]["image"]["source"]["bytes"]) == picture.data
    assert first["content"][3] == {"text": "[n.txt]\nwords"}
    assert "cannot be shown" in first["content"][4]["text"]
    assert said["content"][1]["toolUse"]["input"] == {"path": "ä.py"}
    answer = result["content"][0]["toolResult"]
    assert answer["content"][0] == {"text": "Error: no such file"}
    documents = [first["content"][2], answer["content"][1], last["content"][0]]
    names = [document["document"]["name"] for document in documents]
    assert len(set(names)) == 3
    assert all(name.startswith("Jahr Bericht 2 ") for name in names)
    assert "text" in last["content"][1], "a document must not stand alone"


@pytest.mark.parametrize(("model_id", "points"), [(NOVA, 3), ("us.meta.llama3-3-70b-instruct-v1:0", 0)])
async def test_cache_points_where_supported(model_id: str, points: int) -> None:
    history = [
        user("one"),
        Message("assistant", (Text("two"),)),
        user("three"),
        Message("assistant", (Text("4"),)),
        user("5"),
    ]
    async with FakeProviderServer([Turn("ok")]) as server, asking(server.url, model_id) as model:
        await reply_of(model, *history)
    assert json.dumps(judged(server.requests[0])).count('"cachePoint"') == points


async def test_call_history_without_tools_accepted() -> None:
    history = [
        user("x"),
        Message("assistant", (ToolCall("a", "Read ü"),)),
        Message("user", (ToolResult("a", (Text("y"),)),)),
    ]
    async with FakeProviderServer([Turn("ok")]) as server, asking(server.url) as model:
        await reply_of(model, *history, tools=())
    body = judged(server.requests[0])
    (tool,) = body["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == body["messages"][1]["content"][0]["toolUse"]["name"] == "Read__"


async def test_only_signed_own_reasoning_returned() -> None:
    """Bedrock: "User messages cannot contain reasoning content", of what the same model has written unsigned."""
    signed = Thinking("Hm.", Private("converse:amazon", json_freeze_object({"signature": "fake-signature-0c3c4a6b"})))
    hidden = Thinking("", Private("converse:amazon", json_freeze_object({"redactedContent": "UkVE"})))
    history = [user("x"), Message("assistant", (signed, hidden, Thinking("bare"), Text("y"))), user("z")]
    async with FakeProviderServer([Turn("ok")] * 2, strict=False) as server:
        for model_id in (NOVA, "openai.gpt-oss-120b-1:0"):
            async with asking(server.url, model_id) as model:
                await reply_of(model, *history)
    nova, other = (judged(request)["messages"][1]["content"] for request in server.requests)
    thought = {"reasoningText": {"text": "Hm.", "signature": "fake-signature-0c3c4a6b"}}
    assert nova == [{"reasoningContent": thought}, {"reasoningContent": {"redactedContent": "UkVE"}}, {"text": "y"}]
    assert other == [{"text": "y"}]


def nova(level: str) -> dict[str, object]:
    return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}


@pytest.mark.parametrize(
    ("model_id", "effort", "limit", "members", "noted"),
    [
        ("global.amazon.nova-2-lite-v1:0", "high", None, nova("high"), ""),
        ("amazon.nova-2-lite-v1:0", "max", 500, nova("medium"), "limit"),
        ("amazon.nova-2-lite-v1:0", "none", 500, {"reasoningConfig": {"type": "disabled"}}, ""),
        ("openai.gpt-oss-20b-1:0", "minimal", 500, {"reasoning_effort": "low"}, "minimal"),
        ("amazon.nova-pro-v1:0", "high", 500, None, "not known"),
        ("deepseek.r1-v1:0", None, 500, None, ""),
    ],
)
async def test_effort_in_model_terms(model_id, effort, limit, members, noted) -> None:
    async with FakeProviderServer([Turn("ok")]) as server, asking(server.url, model_id) as model:
        reply = await reply_of(model, effort=effort, max_output=limit)
    body = judged(server.requests[0])
    assert body.get("additionalModelRequestFields") == members
    assert ("maxTokens" in body["inferenceConfig"]) == (limit is not None)
    assert noted in " ".join(reply.notes)
    assert bool(reply.notes) == bool(noted)


async def test_own_model_options_kept() -> None:
    async with FakeProviderServer([Turn("ok")]) as server, asking(server.url, "openai.gpt-oss-20b-1:0") as model:
        own = json_freeze_object({"additionalModelRequestFields": {"top_k": 5}, "inferenceConfig": {"topP": 0.5}})
        await reply_of(model, effort="low", options=own)
    body = judged(server.requests[0])
    assert body["additionalModelRequestFields"] == {"top_k": 5, "reasoning_effort": "low"}
    assert body["inferenceConfig"] == {"topP": 0.5}


# -- what is refused and can be left out -------------------------------------------------------------------------------


async def test_model_without_stream_tools_unstreamed() -> None:
    refused = Fail(400, message="This model doesn't support tool use in streaming mode.")
    turn = Turn("On it.", thinking="Hm.", usage=Usage(input=9, output=4))
    async with (
        FakeProviderServer([refused, turn, turn]) as server,
        asking(server.url, "us.meta.llama4-scout-17b-instruct-v1:0") as model,
    ):
        replies = [await reply_of(model), await reply_of(model)]
    assert [request.path.rpartition("/")[2] for request in server.requests] == [
        "converse-stream",
        "converse",
        "converse",
    ]
    assert all(judged(request) for request in server.requests)
    assert [(reply.message.content, reply.usage) for reply in replies] == [("On it.", Usage(input=9, output=4))] * 2


@pytest.mark.parametrize(
    ("refusal", "member"),
    [
        (Fail(400, message="This model doesn't support the image content block that you provided."), "image"),
        (
            Fail(403, message="You invoked an unsupported model or your request did not allow prompt caching."),
            "cachePoint",
        ),
    ],
)
async def test_refused_member_left_out_later(refusal: Fail, member: str) -> None:
    shown = user("look", Image("image/png", b"png"))
    async with FakeProviderServer([refusal, Turn("ok"), Turn("ok")]) as server, asking(server.url) as model:
        await reply_of(model, shown)
        await reply_of(model, shown)
    assert [f'"{member}"' in json.dumps(judged(request)) for request in server.requests] == [True, False, False]


async def test_repeated_refusal_is_error() -> None:
    refused = Fail(400, message="This model doesn't support tool use in streaming mode.")
    async with FakeProviderServer([refused, refused]) as server, asking(server.url) as model:
        with pytest.raises(ModelError, match="streaming mode"):
            await reply_of(model)


# -- what comes in -----------------------------------------------------------------------------------------------------


def test_aws_client_reads_fake_frames() -> None:
    turn = Turn("Grüße", thinking="Hm.", pieces=2, usage=Usage(input=3, cache_read=2, cache_write_1h=4, output=5))
    with FakeProviderServer([turn, turn]).in_thread() as server:
        client = boto3.client(
            "bedrock-runtime", "eu-west-3", endpoint_url=server.url, aws_access_key_id="a", aws_secret_access_key="b"
        )
        asked = {"modelId": NOVA, "messages": [{"role": "user", "content": [{"text": "hi"}]}]}
        events = list(client.converse_stream(**asked)["stream"])
        whole = client.converse(**asked)
        client.close()
    deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
    assert (
        "".join(delta.get("text", "") for delta in deltas)
        == "Grüße"
        == whole["output"]["message"]["content"][1]["text"]
    )
    assert events[-1]["metadata"]["usage"]["cacheDetails"] == [{"ttl": "1h", "inputTokens": 4}]
    assert events[-2]["messageStop"]["stopReason"] == whole["stopReason"] == "end_turn"


@pytest.mark.parametrize("chunks", ["bytes", "whole", 7])
async def test_frames_may_be_cut_anywhere(chunks) -> None:
    turn = Turn("Grüße", thinking="Hm.", pieces=1)
    async with FakeProviderServer([turn], wire=Wire(chunks)) as server, asking(server.url) as model:
        reply = await reply_of(model)
    assert (reply.message.content, reply.message.stop) == ("Grüße", "end")


def events(*named: tuple[str, object]) -> bytes:
    kinds = {":content-type": "application/json", ":message-type": "event"}
    return b"".join(frame({":event-type": name, **kinds}, json.dumps(value).encode()) for name, value in named)


def served(body: bytes) -> list[bytes]:
    kind = b"application/vnd.amazon.eventstream"
    return [b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)]


SAID = ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}})
USED = ("metadata", {"usage": {"inputTokens": 9, "outputTokens": 2, "totalTokens": 11}, "metrics": {"latencyMs": 1}})


def exception(name: str, words: str) -> bytes:
    return frame({":message-type": "exception", ":exception-type": name}, json.dumps({"message": words}).encode())


UNKNOWN = frame({":message-type": "error", ":error-code": "x", ":error-message": "y"}, b"")


@pytest.mark.parametrize(
    ("answer", "kind", "retryable"),
    [
        (events(SAID)[:-1] + b"\0", "protocol", True),
        (events(SAID) + b"\0" * 40, "protocol", True),
        (events(SAID)[:-9], "cut", True),
        (events(SAID), "cut", True),
        (events(SAID, ("messageStop", {"stopReason": "malformed_tool_use"}), USED), "protocol", True),
        (UNKNOWN, "server", True),
        (exception("throttlingException", "Too many tokens, please wait."), "rate_limit", True),
        (exception("modelStreamErrorException", "The model failed."), "server", True),
        (exception("serviceUnavailableException", "Busy."), "overloaded", True),
        (exception("internalServerException", "Oops."), "server", True),
        (exception("validationException", "Input is too long for requested model."), "context_overflow", False),
        (exception("validationException", "The value is not valid."), "invalid_request", False),
    ],
)
async def test_stream_exception_becomes_error(raw_server, answer, kind, retryable) -> None:
    async with raw_server(served(answer)) as server, asking(server.url) as model:
        with pytest.raises(ModelError) as caught:
            await reply_of(model)
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    ("status", "code", "words", "kind"),
    [
        (400, "ValidationException", "Input is too long for requested model.", "context_overflow"),
        (400, "ValidationException", "The provided model identifier is invalid.", "not_found"),
        (400, "ValidationException", "Malformed input request.", "invalid_request"),
        (403, "AccessDeniedException:http://internal/", "You don't have access to the model.", "permission"),
        (403, "ExpiredTokenException", "The security token included in the request is expired", "auth"),
        (403, "UnrecognizedClientException", "The security token included in the request is invalid.", "auth"),
        (404, "ResourceNotFoundException", "This model version has reached the end of its life.", "not_found"),
        (408, "ModelTimeoutException", "Too slow.", "server"),
        (424, "ModelErrorException", "The model failed.", "server"),
        (429, "ThrottlingException", "Too many tokens per day, please wait before trying again.", "rate_limit"),
        (429, "ModelNotReadyException", "The model is not ready.", "rate_limit"),
        (503, "ServiceUnavailableException", "Busy.", "overloaded"),
    ],
)  # fmt: skip
async def test_error_kind_from_service(raw_server, status, code, words, kind) -> None:
    body = json.dumps({"message": words}).encode()
    head = f"HTTP/1.1 {status} X\r\nx-amzn-ErrorType: {code}\r\ncontent-type: application/json\r\n"
    answer = [head.encode() + b"content-length: %d\r\n\r\n%b" % (len(body), body)]
    async with raw_server(answer) as server, asking(server.url) as model:
        with pytest.raises(ModelError) as caught:
            await reply_of(model)
    assert caught.value.kind == kind
    assert words.rstrip(".") in str(caught.value)


async def test_cache_tokens_counted_once_with_tier(raw_server) -> None:
    usage = {
        "inputTokens": 4_995,
        "outputTokens": 12,
        "totalTokens": 10_007,
        "cacheReadInputTokens": 0,
        "cacheWriteInputTokens": 4_993,
    }
    answer = served(
        events(
            SAID,
            ("messageStop", {"stopReason": "end_turn"}),
            ("metadata", {"usage": usage, "serviceTier": {"type": "flex"}}),
        )
    )
    async with raw_server(answer, answer) as server:
        async with asking(server.url, "global.openai.gpt-5.6-sol") as model:
            gross = await reply_of(model)
        async with asking(server.url) as model:
            net = await reply_of(model)
    assert gross.usage == Usage(input=2, cache_write=4_993, output=12)
    assert net.usage == Usage(input=4_995, cache_write=4_993, output=12)
    assert net.charges[0].tier == "flex"


async def test_provider_tool_results_returned(raw_server) -> None:
    use = {"toolUseId": "u1", "name": "nova_grounding", "type": "server_tool_use"}
    done = {"toolUseId": "u1", "type": "nova_grounding_result"}
    answer = events(
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": use}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": '{"query": "x"}'}}}),
        ("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolResult": done}}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolResult": [{"text": "found"}]}}),
        ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"text": "So it is."}}),
        ("messageStop", {"stopReason": "end_turn"}),
        USED,
    )  # fmt: skip
    options = json_freeze_object({"tools": [{"systemTool": {"name": "nova_grounding"}}]})
    async with raw_server(served(answer)) as raw, asking(raw.url) as model:
        reply = await reply_of(model, options=options)
    async with FakeProviderServer([Turn("ok")], strict=False) as server, asking(server.url) as model:
        await reply_of(model, user("hi"), reply.message, user("and?"), options=options)
    body = judged(server.requests[0])
    assert body["toolConfig"]["tools"][1] == {"systemTool": {"name": "nova_grounding"}}
    called, found, text = body["messages"][1]["content"]
    assert called == {"toolUse": {**use, "input": {"query": "x"}}}
    assert found["toolResult"]["content"] == [{"text": "found"}]
    assert text == {"text": "So it is."}


async def test_sources_and_images_kept(raw_server) -> None:
    web = {"location": {"web": {"url": "https://example.com", "domain": "example.com"}}}
    parts: list[dict] = [{"text": "So it "}, {"citation": web}, {"text": "is."}]
    answer = events(
        *(("contentBlockDelta", {"contentBlockIndex": 0, "delta": part}) for part in parts),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"citation": {"title": "No text of its own"}}}),
        ("contentBlockStart", {"contentBlockIndex": 2, "start": {"image": {"format": "png"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"image": {"source": {"bytes": "aGk="}}}}),
        ("messageStop", {"stopReason": "end_turn"}),
        USED,
    )  # fmt: skip
    async with raw_server(served(answer)) as server, asking(server.url) as model:
        reply = await reply_of(model)
    text, image = reply.message.parts
    assert (reply.message.content, image) == ("So it is.", Image("image/png", b"hi"))
    assert isinstance(text, Text)
    assert text.private
    assert json_thaw(text.private.data) == {"citations": [web, {"title": "No text of its own"}]}
    async with FakeProviderServer([Turn("ok")], strict=False) as server, asking(server.url) as model:
        await reply_of(model, user("hi"), reply.message, user("and?"))
    assert judged(server.requests[0])["messages"][1]["content"] == [{"text": "So it is."}, {"text": "[image/png]"}]


def test_whole_answer_has_same_blocks() -> None:
    use = {"toolUseId": "u1", "name": "nova_grounding", "type": "server_tool_use", "input": {"query": "x"}}
    found = {"toolUseId": "u1", "type": "nova_grounding_result", "content": [{"text": "found"}]}
    cited = {"content": [{"text": "So it is."}], "citations": [{"title": "a"}]}
    image = {"format": "png", "source": {"bytes": "aGk="}}
    blocks = [{"toolUse": use}, {"toolResult": found}, {"citationsContent": cited}, {"image": image}]
    reader = ConverseReplyReader(Origin("bedrock", NOVA), "converse:amazon")
    reader.whole({"output": {"message": {"content": blocks}}, "stopReason": "end_turn"}, [])
    asked, result, text, drawn = reader.message().parts
    kept = [
        json_thaw(part.private.data)
        for part in (asked, result, text)
        if isinstance(part, Opaque | Text) and part.private
    ]
    assert kept == [{"toolUse": use}, {"toolResult": found}, {"citations": [{"title": "a"}]}]
    assert (reader.message().content, drawn) == ("So it is.", Image("image/png", b"hi"))


# -- who answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_id", "kind"),
    [
        ("eu.anthropic.claude-sonnet-4-6-v1:0", AnthropicModel),
        (NOVA, ConverseModel),
        (PROFILE, ConverseModel),
        ("qwen.qwen3-32b-v1:0", ConverseModel),
    ],
)
def test_only_claude_uses_own_wire(model_id: str, kind: type) -> None:
    assert isinstance(provider_named("bedrock", key="k").model(model_id), kind)


def test_row_names_model_of_arn() -> None:
    from sagent.providers import read_rows

    table = {"family": "anthropic", "via": "bedrock", "abilities": [{"of": "arn:", "like": "claude-opus-4-6"}]}
    provider = provider_named("house", key="k", rows=read_rows({"house": table}, "config"))
    assert isinstance(provider.model(PROFILE), AnthropicModel)


def test_capabilities_from_model_name() -> None:
    row, provider = built_in_row("bedrock"), provider_named("bedrock", key="k")
    assert row is not None
    assert [provider.model(name).limits.window for name in (NOVA, PROFILE)] == [300_000, None]
    assert (
        accepts_images(row, NOVA),
        accepts_images(row, "qwen.qwen3-32b-v1:0"),
        accepts_images(row, "anthropic.claude-opus-4-6"),
    ) == (
        True,
        None,
        True,
    )
    assert (
        can_reason(row, "amazon.nova-2-lite-v1:0"),
        can_reason(row, NOVA),
        can_reason(row, "anthropic.claude-opus-4-6"),
    ) == (
        True,
        False,
        True,
    )
    assert thinking_fields("arn:aws:bedrock:us-east-1:1:inference-profile/us.amazon.nova-2-lite-v1:0", "low")[0]


async def test_listing_has_ids_and_profiles(raw_server) -> None:
    models = [
        {"modelId": "amazon.nova-pro-v1:0", "modelName": "Nova Pro", "inferenceTypesSupported": ["ON_DEMAND"]},
        {"modelId": "meta.llama4", "modelName": "Llama 4", "inferenceTypesSupported": []},
    ]
    profiles = [{"inferenceProfileId": "us.meta.llama4", "inferenceProfileName": "US Llama 4"}]
    pages = (
        {"modelSummaries": models},
        {"inferenceProfileSummaries": profiles, "nextToken": "t/1"},
        {"inferenceProfileSummaries": []},
    )
    answers = (
        [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)]
        for body in (json.dumps(page).encode() for page in pages)
    )
    async with raw_server(*answers) as server:
        provider = Bedrock.from_key("key-for-tests", base_url=server.url)
        listed = await provider.models()
        await provider.aclose()
    assert [info.id for info in listed] == ["amazon.nova-pro-v1:0", "us.meta.llama4"]
    targets = [request.split(b" ")[1].decode() for request in server.requests]
    assert targets == [
        "/foundation-models?byOutputModality=TEXT",
        "/inference-profiles?maxResults=1000",
        "/inference-profiles?maxResults=1000&nextToken=t%2F1",
    ]


async def test_agent_runs_at_its_price() -> None:
    used = Usage(input=1_000_000, output=1_000_000)
    async with FakeProviderServer([Turn("Hello", usage=used)]) as server, asking(server.url) as model:
        agent = Agent(model, max_budget_usd="9")
        result = await agent.run("hi")
        await agent.aclose()
    assert (result.content, str(result.cost.total.normalize())) == ("Hello", "4")


@pytest.mark.parametrize("options", [{"inferenceConfig": {"maxTokens": 5}}, {"system": [{"text": "x"}]}])
async def test_reserved_options_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="cannot be set"):
        Agent(provider_named("bedrock", key="k").model(NOVA), options=options)
