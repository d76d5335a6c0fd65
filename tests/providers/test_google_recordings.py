"""Real traffic of Gemini, replayed: read as the official SDK reads it, and written in types that it accepts.

The recordings lie beside the checkout, not in it; without them these tests are skipped.
"""

import base64
import contextlib
import json
from pathlib import Path
from types import ModuleType

import httpx2
import pytest

from sagent.errors import ModelError
from sagent.lib.json import as_object, json_freeze_object, json_thaw
from sagent.messages import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, user
from sagent.model import Reply, Request, TextPart, ToolSpec
from sagent.providers import Google
from sagent.providers.families.google.events import NAMELESS
from tests.depth import deep, later
from tests.providers.replayed import recordings, serve

recorded = pytest.mark.needs("recordings")
ENDPOINTS = {"gemini.generate", "gemini.stream"}
KINDS = {400: {"auth", "invalid_request"}, 401: {"auth"}, 404: {"not_found"}, 429: {"rate_limit"}}


async def read_all(path: Path, **options: object) -> list[tuple[dict, Reply | ModelError]]:
    """Each exchange of a recording and what we make of its answer, whichever of the two methods was called."""
    read: list[tuple[dict, Reply | ModelError]] = []
    async with serve(path, order="any", **options) as server:
        provider = Google.from_key("key-for-replay", base_url=server.url)
        for number, line in enumerate(server.lines):
            told, found = "", None
            try:
                async for item in provider.model(line["model"] or "m").stream(Request(f"c{number}", [user("hi")])):
                    if isinstance(item, TextPart):
                        told += item.text
                    elif isinstance(item, Reply):
                        found = item
                        assert item.message.content == told
            except ModelError as error:
                found = error
            if line["endpoint"] in ENDPOINTS:
                assert found is not None
                read.append((line, found))
        await provider.aclose()
    return read


@recorded
async def test_google_cuts_change_nothing() -> None:
    for path in recordings(*ENDPOINTS)[:: deep(12, 6)]:
        seen = []
        for options in (
            {"chunk": "event"},
            {"chunk": "boundary", "newline": "crlf"},
            {"chunk": "bytes:7", "keepalive": True, "newline": "cr"},
        ):
            read = await read_all(path, **options)
            seen.append(
                [
                    (found.message, found.usage) if isinstance(found, Reply) else (found.kind, str(found))
                    for _, found in read
                ]
            )
        assert seen[0] == seen[1] == seen[2], path.name


@later
@recorded
async def test_every_status_has_its_kind() -> None:
    seen = 0
    for path in recordings(*ENDPOINTS):
        if '"status": 200' in path.read_text() and '"status": 4' not in path.read_text():
            continue
        for line, found in await read_all(path):
            status = line["response"]["status"]
            if status != 200:
                seen += 1
                assert isinstance(found, ModelError), path.name
                assert (found.status, found.kind in KINDS[status]) == (status, True), path.name
    assert seen >= 8


@pytest.fixture(scope="module")
def genai() -> ModuleType:
    """The official SDK. Its import takes half a second."""
    return pytest.importorskip("google.genai")


@later
@recorded
async def test_google_replies_equal_the_sdks(genai: ModuleType) -> None:
    compared = 0
    for path in recordings(*ENDPOINTS)[:: deep(9, 3)]:
        ours = await read_all(path, chunk="whole")
        async with serve(path, chunk="whole") as server:
            over = {"transport": httpx2.AsyncHTTPTransport()}  # and not over aiohttp, where that is installed
            options = genai.types.HttpOptions(base_url=server.url, api_version="v1beta", async_client_args=over)
            client = genai.Client(api_key="k", vertexai=False, http_options=options).aio
            for line, found in ours:
                chunks = None
                with contextlib.suppress(genai.errors.APIError, genai.errors.UnknownApiResponseError):
                    chunks = await sdk_chunks(client.models, line)
                if chunks is None or line["response"]["status"] != 200:
                    # The SDK does not ask for streams as arrays, and cannot read them.
                    assert isinstance(found, ModelError) or line["response"]["body"][0] == "[", path.name
                    continue
                if isinstance(found, ModelError):
                    assert (found.kind, chunks) == ("cut", []), path.name
                    continue
                check(found, chunks, path.name)
                compared += 1
            await client.aclose()
    assert compared >= deep(16, 50)


async def sdk_chunks(models, line: dict) -> list:
    arguments = {"model": line["model"] or "m", "contents": "hi"}
    if line["endpoint"] == "gemini.generate":
        return [await models.generate_content(**arguments)]
    return [chunk async for chunk in await models.generate_content_stream(**arguments)]


def check(found: Reply, chunks: list, name: str) -> None:
    content = [chunk.candidates[0].content for chunk in chunks if chunk.candidates]
    parts = [part for each in content if each for part in each.parts or ()]
    mine = found.message.parts
    assert found.message.content == "".join(part.text or "" for part in parts if not part.thought), name
    thinking = [part.text for part in mine if isinstance(part, Thinking)]
    assert "".join(thinking) == "".join(part.text or "" for part in parts if part.thought), name
    calls = [part.function_call for part in parts if part.function_call]
    if not any(call.partial_args or call.will_continue for call in calls):
        assert [
            (None if call.id.startswith(NAMELESS) else call.id, call.name, json_thaw(call.arguments))
            for call in found.message.calls
        ] == [(call.id, call.name, call.args or {}) for call in calls], name
    own = [json_thaw(part.private.data) for part in mine if isinstance(part, Opaque)]
    kept = [part for part in own if set(part) - {"text", "thought", "thoughtSignature"}]  # pyright: ignore[reportArgumentType]
    theirs = [part for part in parts if part.text is None and part.function_call is None]
    assert len(kept) == len(theirs), name
    assert signatures(mine) == [part.thought_signature for part in parts if part.thought_signature], name
    check_usage(found, [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata], name)
    assert found.response_id == (chunks[0].response_id or ""), name


def signatures(parts: tuple) -> list[bytes]:
    held = [as_object(part.private.data).get("thoughtSignature") for part in parts if getattr(part, "private", None)]
    return [base64.b64decode(str(text).replace("-", "+").replace("_", "/") + "==") for text in held if text]


def check_usage(found: Reply, told: list, name: str) -> None:
    last: dict[str, int] = {}
    for usage in told:
        last |= {key: count for key, count in usage.model_dump(exclude_none=True).items() if isinstance(count, int)}
    prompt = last.get("prompt_token_count", 0) + last.get("tool_use_prompt_token_count", 0)
    if not prompt:
        assert found.charges[0].estimated, name
        return
    assert found.usage.total_input == prompt, name
    assert found.usage.cache_read == last.get("cached_content_token_count", 0), name
    assert found.usage.reasoning == last.get("thoughts_token_count", 0), name
    assert found.usage.output - found.usage.reasoning == last.get("candidates_token_count", 0), name
    assert [charge.usage for charge in found.charges] == [found.usage], name


@later
@recorded
async def test_recordings_pass_sdk_types(genai: ModuleType) -> None:
    """Every recorded reply, answered and sent back; the same parts with the same signatures."""
    types, checked = genai.types, 0
    tools = (ToolSpec("read", "Read.", json_freeze_object({"type": "object", "properties": {}})),)
    for path in recordings(*ENDPOINTS)[::4]:
        for _, found in await read_all(path, chunk="whole"):
            if isinstance(found, ModelError):
                continue
            results = [ToolResult(call.id, (Text("ok"), Image("image/png", b"P"))) for call in found.message.calls]
            history = [user("hi"), found.message, Message("user", (*results, Document("application/pdf", b"%PDF")))]
            for model in ("gemini-3.1-pro-preview", "gemini-2.5-flash"):
                request = Request("c", history, "Be terse.", tools, 9, "low")
                body = json.loads(Google.from_key("k" * 8).model(model).prepare(request).body.data)
                contents = [types.Content.model_validate(content) for content in body["contents"]]
                types.Content.model_validate(body["systemInstruction"])
                types.GenerationConfig.model_validate(body["generationConfig"])
                assert [types.Tool.model_validate(tool) for tool in body["tools"]]
                spoken = [part for content in contents if content.role == "model" for part in content.parts or ()]
                sent = [part.function_call.name for part in spoken if part.function_call]
                assert sent == [part.name for part in found.message.parts if isinstance(part, ToolCall)], path.name
                checked += 1
    assert checked >= 40
