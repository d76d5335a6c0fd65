"""The fake provider's Google family, as the official SDK sees it and request by request."""

import json
import urllib.request
from types import ModuleType

import httpx2
import pytest

from sagent.testing.families.google import GOOGLE
from sagent.testing.script import Call, ErrorEvent, Fail, Listed, Received, Turn
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage

FULL = Turn(
    text="Grüße, 世界 🌍.",
    thinking="Let me see …",
    calls=(Call("read", {"path": "a.py"}), Call("bash", '{"command": "ls"}', id="my-id")),
    usage=Usage(input=10, cache_read=200, output=50, reasoning=7),
    pieces=5,
)
HI = {"role": "user", "parts": [{"text": "hi"}]}


@pytest.fixture(scope="module")
def genai() -> ModuleType:
    """The official SDK. Its import takes half a second."""
    return pytest.importorskip("google.genai")


def connect(genai: ModuleType, server: FakeProviderServer):
    over = {"transport": httpx2.AsyncHTTPTransport()}  # and not over aiohttp, where that is installed
    options = genai.types.HttpOptions(base_url=server.url, api_version="v1beta", async_client_args=over)
    return genai.Client(api_key="k", vertexai=False, http_options=options).aio


def called(name: str, signature: str = "AA==", **more: object) -> dict:
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {"name": name, "args": {}, **more}, **signed}


def answered(name: str, **more: object) -> dict:
    return {"functionResponse": {"name": name, "response": {"output": "ok"}, **more}}


def model(*parts: dict) -> dict:
    return {"role": "model", "parts": list(parts)}


def person(*parts: dict) -> dict:
    return {"role": "user", "parts": list(parts)}


def complaints(*contents: dict, model: str = "gemini-3.1-pro-preview", **body: object) -> list[str]:
    whole = {"contents": list(contents), **body}
    data = json.dumps(whole).encode()
    path = f"/v1beta/models/{model}:generateContent"
    return list(GOOGLE.complaints(Received("POST", path, "", {}, data, json.loads(data), 0.0, 1, "google")))


@pytest.mark.costly
@pytest.mark.parametrize("model_id", ["gemini-2.5-flash", "gemini-3.5-flash"])
async def test_sdk_reads_turn_streamed_and_whole(genai: ModuleType, model_id: str) -> None:
    async with FakeProviderServer([FULL, FULL]) as server:
        client = connect(genai, server)
        whole = [await client.models.generate_content(model=model_id, contents="hi")]
        streamed = [chunk async for chunk in await client.models.generate_content_stream(model=model_id, contents="hi")]
        await client.aclose()
        assert server.charges[0].model == server.charges[1].model == model_id
    assert len(streamed) > 5
    for chunks in (whole, streamed):
        parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
        assert "".join(part.text or "" for part in parts if part.thought) == FULL.thinking
        assert "".join(part.text or "" for part in parts if not part.thought) == FULL.text
        calls = [part.function_call for part in parts if part.function_call]
        assert [(call.name, call.args) for call in calls] == [("read", {"path": "a.py"}), ("bash", {"command": "ls"})]
        assert (calls[0].id is None, calls[1].id) == (model_id == "gemini-2.5-flash", "my-id")
        assert [bool(part.thought_signature) for part in parts if part.function_call] == [True, False]
        reasons = [chunk.candidates[0].finish_reason for chunk in chunks]
        assert (set(reasons[:-1]), reasons[-1].value) == ({None} if reasons[1:] else set(), "STOP")
        usage = chunks[-1].usage_metadata
        assert (usage.prompt_token_count, usage.cached_content_token_count) == (210, 200)
        assert (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count) == (43, 7, 260)


async def test_sdk_reads_errors_and_listing(genai: ModuleType) -> None:
    steps = [Fail(429), ErrorEvent(Turn("abc", pieces=1), 1)]
    async with FakeProviderServer(steps, models=[Listed("gemini-9", "Nine", 7, 3)]) as server:
        client = connect(genai, server)
        with pytest.raises(genai.errors.ClientError) as limited:
            await client.models.generate_content(model="gemini-3.5-flash", contents="hi")
        assert (limited.value.code, limited.value.status) == (429, "RESOURCE_EXHAUSTED")
        with pytest.raises(genai.errors.APIError) as overloaded:
            async for _ in await client.models.generate_content_stream(model="gemini-3.5-flash", contents="hi"):
                pass
        assert (overloaded.value.code, overloaded.value.status) == (503, "UNAVAILABLE")
        listed = [row async for row in await client.models.list()]
        await client.aclose()
    assert [(row.name, row.input_token_limit, row.output_token_limit) for row in listed] == [("models/gemini-9", 7, 3)]


def post(server: FakeProviderServer, method: str):
    """The JSON that comes of a request made without a client library."""
    url = f"{server.url}/v1beta/models/gemini-3.5-flash:{method}"
    headers = {"x-goog-api-key": "k", "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps({"contents": [HI]}).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def test_stream_without_alt_sse_is_array() -> None:
    with FakeProviderServer([FULL]).in_thread() as server:
        chunks = post(server, "streamGenerateContent")
    assert len(chunks) > 5
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


def test_google_accepts_well_formed() -> None:
    assert complaints(HI) == []
    assert (
        complaints(HI, model(called("a", id="1"), called("b", "")), person(answered("a", id="1"), answered("b"))) == []
    )
    assert complaints(HI, model(called("a", "")), person(answered("a")), model="gemini-2.5-flash") == []
    earlier = (HI, model(called("a", "")), person(answered("a")), model({"text": "ok"}))
    assert complaints(*earlier, HI) == []  # signatures matter since the person last spoke


@pytest.mark.parametrize(
    ("contents", "body", "words"),
    [
        ((), {}, "contents is not specified"),
        ((HI,), {"stream": True}, 'Unknown name "stream"'),
        ((person(),), {}, "parts must not be empty"),
        ((person({}),), {}, "must have one initialized field"),
        ((person({"text": ""}),), {}, "must have one initialized field"),
        (({"role": "assistant", "parts": [{"text": "x"}]},), {}, "valid role"),
        ((HI, model({"text": "x"})), {}, "end with a user role"),
        ((model(called("a")), person(answered("a"))), {}, "immediately after a user turn"),
        ((HI, model(called("a")), HI), {}, "equal to the number of function call parts"),
        ((HI, model(called("a"), called("b")), person(answered("a"))), {}, "equal to the number of function call"),
        ((person(answered("a")),), {}, "immediately after a function call turn"),
        ((HI, model(called("a")), person(answered("b"))), {}, "does not match"),
        ((HI, model(called("a", id="1")), person(answered("a", id="2"))), {}, "does not match"),
        ((HI, model(called("a", "")), person(answered("a"))), {}, "missing a thought_signature"),
        ((HI, model(called("")), person(answered(""))), {}, "Name cannot be empty"),
        ((HI, model(called("a")), person(answered("a", response="x"))), {}, "protobuf.Struct"),
        ((person({"inlineData": {"mimeType": "image/gif", "data": "R0lG"}}),), {}, "Unsupported MIME type"),
        ((HI,), {"tools": [{"functionDeclarations": [{"name": "1a"}]}]}, "Invalid function name"),
        ((HI,), {"tools": [{"functionDeclarations": [{"name": "a"}, {"name": "a"}]}]}, "Duplicate function"),
        (
            (HI,),
            {"tools": [{"functionDeclarations": [{"name": "a", "parameters": {"$ref": "#"}}]}]},
            'Unknown name "$ref"',
        ),
        ((HI,), {"generationConfig": {"maxOutputTokens": 0}}, "must be positive"),
        ((HI,), {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, "only works in thinking mode"),
        (
            (HI,),
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}},
            "only one of thinking budget and thinking level",
        ),
    ],
)
def test_google_refuses_malformed(contents: tuple[dict, ...], body: dict, words: str) -> None:
    assert words in " ".join(complaints(*contents, **body))


def test_own_signatures_must_return_in_place() -> None:
    with FakeProviderServer([Turn(calls=(Call("a"),))]).in_thread() as server:
        body = post(server, "generateContent")
    part = body["candidates"][0]["content"]["parts"][0]
    call_id = part["functionCall"]["id"]
    assert complaints(HI, model(part), person(answered("a", id=call_id))) == []
    moved = called("b", part["thoughtSignature"])
    assert complaints(HI, model(moved), person(answered("b"))) == ["Thought signature is not valid."]
