"""Real traffic of real providers, replayed: read as the official SDKs read it, however it is cut.

The recordings lie beside the checkout, not in it; without them these tests are skipped.
"""

import contextlib
import json
from pathlib import Path

import pytest

from sagent.errors import ModelError
from sagent.lib.json import as_object, json_thaw
from sagent.messages import Message, Opaque, Thinking, user
from sagent.model import Reply, Request, TextPart
from sagent.providers import Anthropic, OpenAI, OpenAICompatible
from tests.depth import deep, later
from tests.providers.replayed import recordings, serve

pytestmark = pytest.mark.needs("recordings")
KINDS = {401: {"auth"}, 404: {"not_found"}, 413: {"context_overflow"}, 529: {"overloaded"}}


def lines_of(server: object, endpoint: str) -> list[dict]:
    return [line for line in server.lines if line["endpoint"] == endpoint]  # pyright: ignore[reportAttributeAccessIssue]


def has_failures(path: Path) -> bool:
    """Return True if an exchange of a recording has another status than 200."""
    with path.open(encoding="utf-8") as lines:
        return any(json.loads(line)["response"]["status"] != 200 for line in lines if line.strip())


async def read_all(path: Path, endpoint: str, **options: object) -> list[tuple[dict, Reply | ModelError]]:
    """Each exchange of a recording and what we make of its answer."""
    read: list[tuple[dict, Reply | ModelError]] = []
    async with serve(path, **options) as server:
        kind = SPEAKERS[endpoint]
        provider = kind.from_key("key-for-replay", base_url=server.url)
        for number, line in enumerate(lines_of(server, endpoint)):
            told = ""
            try:
                async for item in provider.model(line["model"] or "m").stream(Request(f"c{number}", [user("hi")])):
                    if isinstance(item, TextPart):
                        told += item.text
                    elif isinstance(item, Reply):
                        assert item.message.content == told
                        read.append((line, item))
            except ModelError as error:
                read.append((line, error))
        await provider.aclose()
    return read


def plain(message: Message) -> dict:
    """What is comparable in a message."""
    return {
        "text": message.content,
        "thinking": "".join(part.text for part in message.parts if isinstance(part, Thinking)),
        "calls": [(call.id, call.name, call.malformed or json_thaw(call.arguments)) for call in message.calls],
    }


SPEAKERS = {"anthropic.messages": Anthropic, "openai.chat": OpenAICompatible, "openai.responses": OpenAI}
ENDPOINTS = list(SPEAKERS)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_recorded_cuts_change_nothing(endpoint: str) -> None:
    for path in recordings(endpoint)[:: deep(12, 6)]:
        seen = []
        for options in (
            {"chunk": "event"},
            {"chunk": "boundary", "newline": "crlf"},
            {"chunk": "bytes:7", "keepalive": True, "newline": "cr"},
        ):
            read = await read_all(path, endpoint, **options)
            seen.append(
                [
                    (found.message, found.usage) if isinstance(found, Reply) else (found.kind, str(found))
                    for _, found in read
                ]
            )
        assert seen[0] == seen[1] == seen[2], path.name


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_every_status_has_its_kind(endpoint: str) -> None:
    seen = 0
    for path in filter(has_failures, recordings(endpoint)):
        for line, found in await read_all(path, endpoint):
            status = line["response"]["status"]
            if status == 200:
                continue
            seen += 1
            assert isinstance(found, ModelError), path.name
            assert found.status == status
            assert found.provider in str(found)
            assert found.kind in KINDS.get(
                status, {"invalid_request", "payment", "not_found", "context_overflow", "rate_limit", "server", "auth"}
            )
    assert seen >= 8


async def test_anthropic_equals_its_sdk() -> None:
    anthropic = pytest.importorskip("anthropic")
    compared = 0
    for path in recordings("anthropic.messages")[:: deep(12, 6)]:  # all of them agree; a sixth is quick
        ours = await read_all(path, "anthropic.messages", chunk="whole")
        async with (
            serve(path, chunk="whole") as server,
            anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client,
        ):
            for line, found in ours:
                message = None
                with contextlib.suppress(anthropic.AnthropicError, json.JSONDecodeError):
                    message = await sdk_message(client, line)
                if message is None or line["response"]["status"] != 200:
                    assert isinstance(found, ModelError) or "openrouter" in path.name, (
                        path.name
                    )  # the SDK fails at [DONE]
                    continue
                assert isinstance(found, Reply), (path.name, found)
                if (line["response"].get("body") or "").count('"message_start"') > 2:
                    continue  # three replies in one body: the SDK reads on after the first one's end, and mixes them
                blocks = message["content"]
                assert plain(found.message) == {
                    "text": "".join(block["text"] for block in blocks if block["type"] == "text"),
                    "thinking": "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
                    "calls": [
                        (block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"
                    ],
                }, path.name
                others = [
                    block["type"]
                    for block in blocks
                    if block["type"] not in ("text", "thinking", "tool_use", "redacted_thinking")
                ]
                kept = [
                    as_object(part.private.data)["type"] for part in found.message.parts if isinstance(part, Opaque)
                ]
                assert kept == others, path.name
                check_anthropic_usage(message["usage"], found)
                assert found.response_id == message["id"]
                compared += 1
    assert compared >= deep(12, 25)


async def sdk_message(client, line: dict) -> dict:
    arguments = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
    if not streamed(line):
        return (await client.messages.create(**arguments)).to_dict(warnings=False)
    async with client.beta.messages.stream(**arguments) as stream:
        return (await stream.get_final_message()).to_dict(warnings=False)


def streamed(line: dict) -> bool:
    return (line["response"].get("body") or "").lstrip()[:1] not in ("{", "[")


def check_anthropic_usage(told: dict, found: Reply) -> None:
    usage = found.usage
    if told.get("iterations"):
        rounds = told["iterations"]
        billed = sum(charge.usage.total_input + charge.usage.output for charge in found.charges)
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        assert billed == sum(entry.get(name) or 0 for entry in rounds for name in names)
        return
    assert usage.input == (told.get("input_tokens") or 0)
    assert usage.output == (told.get("output_tokens") or 0)
    assert usage.cache_read == (told.get("cache_read_input_tokens") or 0)
    assert usage.cache_write + usage.cache_write_1h == (told.get("cache_creation_input_tokens") or 0)
    assert [charge.usage for charge in found.charges] == [usage]


async def test_chat_equals_the_openai_sdk() -> None:
    openai = pytest.importorskip("openai")
    compared = 0
    for path in recordings("openai.chat")[:: deep(18, 6)]:
        ours = await read_all(path, "openai.chat", chunk="whole")
        async with (
            serve(path, chunk="whole") as server,
            openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
        ):
            for line, found in ours:
                theirs = None
                with contextlib.suppress(openai.OpenAIError):
                    theirs = await sdk_completion(client, line)
                if theirs is None or line["response"]["status"] != 200:
                    assert isinstance(found, ModelError), path.name
                    continue
                if isinstance(found, ModelError):  # empty streams, which the SDK takes for replies
                    assert found.kind == "cut"
                    assert theirs == {"text": "", "thinking": "", "calls": [], "usage": None}
                    continue
                usage = theirs.pop("usage")
                mine = plain(found.message)
                if any(call["legacy"] for call in theirs["calls"]):
                    continue
                theirs["calls"] = [(call["id"], call["name"], parsed(call["arguments"])) for call in theirs["calls"]]
                assert mine == theirs, path.name
                if usage:
                    heard = (
                        usage.get("prompt_audio_seconds") and usage["prompt_tokens_details"]["audio_tokens"]
                    )  # Mistral
                    assert found.usage.total_input == usage.get("prompt_tokens", 0) + (heard or 0), path.name
                    assert found.usage.output >= usage.get("completion_tokens", 0), path.name
                else:
                    assert found.charges[0].estimated, path.name
                compared += 1
    assert compared >= deep(20, 70)


async def sdk_completion(client, line: dict) -> dict:
    arguments = {"model": line["model"] or "m", "messages": [{"role": "user", "content": "hi"}]}
    if not streamed(line):
        completion = (await client.chat.completions.create(**arguments)).to_dict(warnings=False)
        chunks = [
            {
                **completion,
                "choices": [{**completion["choices"][0], "delta": completion["choices"][0].get("message") or {}}],
            }
        ]
    else:
        chunks = [
            chunk.to_dict(warnings=False)
            async for chunk in await client.chat.completions.create(stream=True, **arguments)
        ]
    text, thinking, calls, usage = "", "", {}, None
    for chunk in chunks:
        choice = (chunk.get("choices") or [{}])[0]
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage") or choice.get("usage") or usage
        delta = choice.get("delta") or {}
        text += content_text(delta.get("content")) + (delta.get("refusal") or "")
        thinking += delta.get("reasoning_content") or delta.get("reasoning") or content_thinking(delta.get("content"))
        for number, call in enumerate(delta.get("tool_calls") or ()):
            kept = calls.setdefault(call.get("index", number), {"id": "", "name": "", "arguments": "", "legacy": False})
            kept["id"] = kept["id"] or call.get("id") or ""
            kept["name"] = kept["name"] or (call.get("function") or {}).get("name") or ""
            kept["arguments"] += (call.get("function") or {}).get("arguments") or ""
        if delta.get("function_call"):
            calls["legacy"] = {"legacy": True}
    return {"text": text, "thinking": thinking, "calls": list(calls.values()), "usage": usage}


def parsed(arguments: str) -> object:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def content_text(content: object) -> str:
    if isinstance(content, dict):
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    if isinstance(content, list):
        return "".join(item.get("text") or "" for item in content if item.get("type") == "text")
    return content or ""  # pyright: ignore[reportReturnType]


def content_thinking(content: object) -> str:
    if not isinstance(content, list):
        return ""
    return "".join(piece["text"] for item in content if item.get("type") == "thinking" for piece in item["thinking"])


@later
async def test_responses_as_openai_sdk_reads_them() -> None:
    openai = pytest.importorskip("openai")
    compared = 0
    for path in recordings("openai.responses")[:: deep(9, 3)]:
        ours = await read_all(path, "openai.responses", chunk="whole")
        async with (
            serve(path, chunk="whole") as server,
            openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
        ):
            for line, found in ours:
                theirs = None
                with contextlib.suppress(openai.OpenAIError):
                    theirs = await sdk_response(client, line)
                if theirs is None or theirs["status"] == "queued" or line["response"]["status"] != 200:
                    assert isinstance(found, ModelError), path.name  # a cut stream is silence to the SDK
                    continue
                assert isinstance(found, Reply), (path.name, found)
                check_response(theirs, found, path.name)
                compared += 1
    assert compared >= deep(20, 60)


async def sdk_response(client, line: dict) -> dict | None:
    """The last form of a response; with the items of the stream where the last event has none."""
    if not streamed(line):
        return (await client.responses.create(model="m", input="hi")).to_dict(warnings=False)
    items: dict[int, dict] = {}
    async for each in await client.responses.create(model="m", input="hi", stream=True):
        event = each.to_dict(warnings=False)
        if event["type"] == "response.output_item.done":
            items[event["output_index"]] = event["item"]
        if event["type"] in ("response.completed", "response.incomplete"):
            response = event["response"]
            return {**response, "output": response["output"] or [items[index] for index in sorted(items)]}
    return None


def check_response(theirs: dict, found: Reply, name: str) -> None:
    output = theirs["output"]
    contents = [part for item in output if item["type"] == "message" for part in item["content"]]
    thoughts = [
        "\n\n".join(part["text"] for part in item.get("summary") or item.get("content") or ())
        for item in output
        if item["type"] == "reasoning"
    ]
    assert plain(found.message) == {
        "text": "".join(part.get("text") or part.get("refusal") or "" for part in contents),
        "thinking": "".join(thoughts),
        "calls": [
            (item["call_id"], item["name"], parsed(item["arguments"]))
            for item in output
            if item["type"] == "function_call"
        ],
    }, name
    kept = [as_object(part.private.data)["type"] for part in found.message.parts if isinstance(part, Opaque)]
    ours = ("message", "function_call", "reasoning")
    assert kept == [item["type"] for item in output if item["type"] not in ours], name
    reasons = {"max_output_tokens": "max_tokens", "content_filter": "content_filter"}
    if theirs["status"] == "incomplete":
        assert found.message.stop == reasons[theirs["incomplete_details"]["reason"]], name
    usage = theirs["usage"]
    assert (found.usage.total_input, found.usage.output) == (usage["input_tokens"], usage["output_tokens"]), name
    assert found.usage.cache_read == (usage.get("input_tokens_details") or {}).get("cached_tokens", 0), name
    assert found.response_id == theirs["id"]
