"""The fake provider, as official SDKs see it and byte by byte."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false, reportOptionalMemberAccess=false

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from sagent.testing.server import (
    Call,
    Cut,
    ErrorEvent,
    Fail,
    FakeProviderServer,
    Listed,
    Raw,
    Received,
    Stall,
    Step,
    Turn,
    Usage,
    Wire,
    parse_script,
)
from tests.depth import later

ASK = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
FULL = Turn(
    text="Grüße, 世界 🌍. A line\nand another.",
    thinking="Let me see …",
    calls=(Call("read", {"path": "a.py", "deep": {"x": [1, None]}}), Call("bash", '{"command": "ls"}', id="my-id_1")),
    usage=Usage(input=10, cache_read=200, cache_write=30, cache_write_1h=4, output=50, reasoning=7),
    pieces=5,
)


# Talking to the server without a client library: one connection, one request, all bytes of the response.


def http(server: FakeProviderServer, body: object, path: str = "/v1/messages", **headers: str) -> bytes:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"x-api-key": "k", "anthropic-version": "2023-06-01", "connection": "close"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"POST {path} HTTP/1.1\r\nhost: x\r\n{lines}content-length: {len(payload)}\r\n\r\n".encode() + payload


@contextlib.asynccontextmanager
async def connected(
    server: FakeProviderServer,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    try:
        async with asyncio.timeout(60):
            yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def talk(server: FakeProviderServer, request: bytes) -> tuple[int, bytes]:
    """Status and raw body (chunked framing included) until the server closes."""
    async with connected(server) as (reader, writer):
        writer.write(request)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


async def ask(server: FakeProviderServer, body: object, path: str = "/v1/messages", **headers: str) -> tuple[int, str]:
    """Status and the error's message."""
    status, raw = await talk(server, http(server, body, path, **headers))
    return status, json.loads(raw)["error"]["message"]


def chunks(raw: bytes) -> tuple[list[bytes], bool]:
    """The HTTP chunks, and whether the body was ended properly."""
    found: list[bytes] = []
    while raw:
        size, _, rest = raw.partition(b"\r\n")
        if size == b"0":
            return found, True
        found.append(rest[: int(size, 16)])
        raw = rest[int(size, 16) + 2 :]
    return found, False


def events(raw: bytes) -> list[dict]:
    """The JSON of every event of a stream with LF newlines."""
    lines = b"".join(chunks(raw)[0]).decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def anthropic_client(server: FakeProviderServer, **options: object):
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(api_key="k", base_url=server.url, **options)


def openai_client(server: FakeProviderServer, **options: object):
    from openai import AsyncOpenAI

    return AsyncOpenAI(api_key="k", base_url=server.url + "/v1", **options)


# Anthropic Messages


@pytest.mark.costly
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_anthropic_sdk_reads_scripted_turn(streamed):
    async with FakeProviderServer([FULL]) as server, anthropic_client(server) as client:
        if streamed:
            async with client.messages.stream(**ASK) as stream:
                message = await stream.get_final_message()
        else:
            message = await client.messages.create(**ASK)
    thinking, text, first, second = message.content
    assert (thinking.thinking, text.text) == (FULL.thinking, FULL.text)
    assert thinking.signature
    assert (first.name, first.input) == ("read", {"path": "a.py", "deep": {"x": [1, None]}})
    assert first.id.startswith("toolu_")
    assert (second.id, second.name, second.input) == ("my-id_1", "bash", {"command": "ls"})
    assert (message.stop_reason, message.model) == ("tool_use", "m")
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (10, 200, 34)
    assert usage.cache_creation.ephemeral_5m_input_tokens == 30
    assert usage.cache_creation.ephemeral_1h_input_tokens == 4
    assert usage.output_tokens == 50
    assert usage.output_tokens_details.thinking_tokens == 7
    assert server.billed == [FULL.usage]


async def test_anthropic_events_in_real_order():
    async with FakeProviderServer([Turn(text="abcdef", pieces=4)]) as server:
        _, raw = await talk(server, http(server, {**ASK, "stream": True}))
    start, opening, ping, *deltas, closing, last, stop = events(raw)
    assert [event["type"] for event in (start, opening, ping, closing, last, stop)] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [delta["delta"]["text"] for delta in deltas] == ["abcd", "ef"]
    assert start["message"]["usage"]["output_tokens"] == 1
    assert "cache_creation" not in last["usage"]


@pytest.mark.parametrize(
    ("stop", "anthropic", "openai"),
    [
        ("end", "end_turn", "stop"),
        ("max_tokens", "max_tokens", "length"),
        ("content_filter", "refusal", "content_filter"),
        ("weird", "weird", "weird"),
    ],
)
async def test_stop_reasons_are_translated(stop, anthropic, openai):
    async with FakeProviderServer([Turn("x", stop=stop)], repeat_last=True) as server:
        _, raw = await talk(server, http(server, ASK))
        assert json.loads(raw)["stop_reason"] == anthropic
        _, raw = await talk(server, http(server, ASK, "/v1/chat/completions"))
        assert json.loads(raw)["choices"][0]["finish_reason"] == openai


async def test_non_json_arguments_pass_unchanged():
    async with FakeProviderServer([Turn(calls=(Call("f", '{"a": tru'),), pieces=3)], repeat_last=True) as server:
        _, raw = await talk(server, http(server, {**ASK, "stream": True}))
        parts = [event["delta"].get("partial_json", "") for event in events(raw) if "delta" in event]
        assert "".join(parts) == '{"a": tru'
        _, raw = await talk(server, http(server, {**ASK, "stream": True}, "/chat/completions"))
        calls = [event["choices"][0]["delta"].get("tool_calls", [{}])[0] for event in events(raw)]
        assert "".join(call.get("function", {}).get("arguments", "") for call in calls) == '{"a": tru'


# OpenAI Chat Completions


async def test_openai_sdk_reads_streamed_turn():
    content = thinking = ""
    calls: dict[int, list[str]] = {}
    async with FakeProviderServer([FULL]) as server, openai_client(server) as client:
        stream = await client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True})
        found = [chunk async for chunk in stream]
    for chunk in found[:-1]:
        assert chunk.usage is None
        delta = chunk.choices[0].delta
        content += delta.content or ""
        thinking += getattr(delta, "reasoning_content", "")
        for call in delta.tool_calls or ():
            entry = calls.setdefault(call.index, [call.id, call.function.name, ""])
            entry[2] += call.function.arguments
    assert found[0].choices[0].delta.role == "assistant"
    assert (content, thinking) == (FULL.text, FULL.thinking)
    assert calls[0][0].startswith("call_")
    assert (calls[0][1], json.loads(calls[0][2])) == ("read", FULL.calls[0].arguments)
    assert calls[1] == ["my-id_1", "bash", '{"command": "ls"}']
    assert found[-2].choices[0].finish_reason == "tool_calls"
    assert found[-1].choices == []
    check_chat_usage(found[-1].usage)


async def test_openai_sdk_reads_whole_turn():
    async with FakeProviderServer([FULL]) as server, openai_client(server) as client:
        completion = await client.chat.completions.create(**ASK)
    message = completion.choices[0].message
    assert (message.content, message.reasoning_content) == (FULL.text, FULL.thinking)
    assert [call.function.name for call in message.tool_calls] == ["read", "bash"]
    assert message.tool_calls[1].function.arguments == '{"command": "ls"}'
    assert completion.choices[0].finish_reason == "tool_calls"
    check_chat_usage(completion.usage)


def check_chat_usage(usage):
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (244, 50, 294)
    assert usage.prompt_tokens_details.cached_tokens == 200
    assert usage.prompt_tokens_details.cache_write_tokens == 34
    assert usage.completion_tokens_details.reasoning_tokens == 7


async def test_chat_stream_usage_only_when_asked():
    async with FakeProviderServer([Turn("hello")]) as server:
        _, raw = await talk(server, http(server, {**ASK, "stream": True}, "/openai/v1/chat/completions"))
    assert b"usage" not in raw
    assert raw.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


async def test_both_sdks_list_the_models():
    rows = ["a", Listed("b", name="B", window=1000, max_output=100)]
    async with FakeProviderServer(models=rows) as server, anthropic_client(server) as first:
        listed = [model async for model in first.models.list()]
        assert [(model.id, model.display_name, model.max_input_tokens, model.max_tokens) for model in listed] == [
            ("a", "a", None, None),
            ("b", "B", 1000, 100),
        ]
        async with openai_client(server) as second:
            assert [model.id async for model in second.models.list()] == ["a", "b"]


# The script


async def test_steps_in_order_then_final_error():
    async with FakeProviderServer([Turn("one"), Fail(400)]) as server, anthropic_client(server) as client:
        assert (await client.messages.create(**ASK)).content[0].text == "one"
        for word in ("invalid_request_error", "the script is used up: it has 2 steps, and this is model request 3"):
            with pytest.raises(Exception, match=word):
                await client.messages.create(**ASK)
    assert len(server.requests) == 3


async def test_script_may_be_sync_or_async_function():
    def plain(request: Received) -> Step:
        return Turn(f"{request.family} {request.json['model']}")

    async def slow(request: Received) -> Step:
        await asyncio.sleep(0)
        return plain(request)

    for script in (plain, slow):
        async with FakeProviderServer(script) as server, openai_client(server) as client:
            completion = await client.chat.completions.create(**ASK)
            assert completion.choices[0].message.content == "chat m"


async def test_assertion_in_script_fails_the_test():
    def script(_: Received) -> Step:
        raise AssertionError("not what I expected")

    async def run() -> None:
        async with FakeProviderServer(script) as server:
            told.append(await ask(server, ASK))

    told: list[tuple[int, str]] = []
    with pytest.raises(AssertionError, match="not what I expected"):
        await run()
    assert told == [(500, "the script failed: AssertionError: not what I expected")]


async def test_requests_tell_all_and_ids_repeat():
    ids = []
    for _ in range(2):
        async with FakeProviderServer([Turn(calls=(Call("f"), Call("f")))]) as server:
            _, raw = await talk(server, http(server, ASK, "/proxy/v1/messages?beta=true", X_Extra="1"))
        ids.append([block["id"] for block in json.loads(raw)["content"]])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2
    (request,) = server.requests
    assert (request.method, request.path, request.query) == ("POST", "/proxy/v1/messages", "beta=true")
    assert (request.json, json.loads(request.body), request.headers["x-extra"]) == (ASK, ASK, "1")


async def test_connections_are_kept_and_numbered():
    async with FakeProviderServer([Turn("x")], repeat_last=True) as server:
        async with anthropic_client(server) as client:
            for _ in range(2):
                async with client.messages.stream(**ASK) as stream:
                    await stream.get_final_message()
                await client.messages.create(**ASK)
        await talk(server, http(server, ASK))
    assert [request.connection for request in server.requests] == [1, 1, 1, 1, 2]


async def test_chunked_bodies_and_100_continue():
    body = json.dumps(ASK).encode()
    head = http(server := FakeProviderServer([Turn("x")]), b"").replace(b"content-length: 0", b"expect: 100-continue")
    head = head.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n")
    async with server, connected(server) as (reader, writer):
        writer.write(head)
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"5\r\n" + body[:5] + b"\r\n" + b"%x\r\n" % (len(body) - 5) + body[5:] + b"\r\n0\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    assert server.requests[0].json == ASK


# The wire


async def stream_of(turn: Turn, wire: Wire) -> list[bytes]:
    async with FakeProviderServer([turn], wire=wire) as server:
        _, raw = await talk(server, http(server, {**ASK, "stream": True}))
    found, ended = chunks(raw)
    assert ended
    return found


async def test_chunk_modes_send_the_same_bytes():
    turn = Turn("Grüße 🌍")
    by_event = await stream_of(turn, Wire())
    assert all(event.startswith(b"event: ") and event.endswith(b"\n\n") for event in by_event)
    whole = b"".join(by_event)
    assert await stream_of(turn, Wire("whole")) == [whole]
    assert await stream_of(turn, Wire("bytes")) == [bytes([byte]) for byte in whole]
    sevens = await stream_of(turn, Wire(7))
    assert b"".join(sevens) == whole
    assert {len(chunk) for chunk in sevens[:-1]} == {7}


async def test_newlines_and_comments():
    whole = b"".join(await stream_of(Turn("x"), Wire()))
    assert b"".join(await stream_of(Turn("x"), Wire(newline="\r\n"))) == whole.replace(b"\n", b"\r\n")
    assert b"".join(await stream_of(Turn("x"), Wire(newline="\r"))) == whole.replace(b"\n", b"\r")
    commented = await stream_of(Turn("x"), Wire(comment="OPENROUTER PROCESSING"))
    assert all(event.startswith(b": OPENROUTER PROCESSING\n\nevent: ") for event in commented)


@later
@pytest.mark.costly
@pytest.mark.parametrize("wire", [Wire("bytes", "\r", "hm"), Wire(3, "\r\n")], ids=str)
async def test_sdks_read_every_layout(wire):
    async with FakeProviderServer([FULL], wire=wire, repeat_last=True) as server, anthropic_client(server) as client:
        async with client.messages.stream(**ASK) as stream:
            assert (await stream.get_final_message()).content[1].text == FULL.text
        async with openai_client(server) as second:
            found = await second.chat.completions.create(**ASK, stream=True)
            texts = [chunk.choices[0].delta.content or "" async for chunk in found]
            assert "".join(texts) == FULL.text


async def test_split_surrogates_are_escaped():
    (_, raw) = await first_answer(Turn("\ud83d\ude00", pieces=1), {**ASK, "stream": True})
    texts = [event["delta"]["text"] for event in events(raw) if event["type"] == "content_block_delta"]
    assert texts == ["\ud83d", "\ude00"]


# Faults


async def first_answer(step: Step, body: object, path: str = "/v1/messages") -> tuple[int, bytes]:
    async with FakeProviderServer([step]) as server:
        return await talk(server, http(server, body, path))


STREAM = {**ASK, "stream": True}


async def test_cut_stream_ends_without_or_early():
    turn = Turn("abcdef", pieces=1)
    _, raw = await first_answer(Cut(turn, after_events=4, how="close"), STREAM)
    found, ended = chunks(raw)
    assert (len(found), ended) == (4, False)
    _, raw = await first_answer(Cut(turn, after_events=4, how="clean"), STREAM)
    found, ended = chunks(raw)
    assert (len(found), ended) == (4, True)


@pytest.mark.parametrize("body", [STREAM, ASK], ids=["streamed", "whole"])
async def test_reset_closes_the_connection(body):
    async with (
        FakeProviderServer([Cut(Turn("abcdef"), after_events=2, how="reset")]) as server,
        connected(server) as (reader, writer),
    ):
        writer.write(http(server, body))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        with pytest.raises(ConnectionResetError):
            await reader.read()


@pytest.mark.parametrize("body", [STREAM, ASK], ids=["streamed", "whole"])
async def test_connection_can_drop_before_head(body):
    async with FakeProviderServer([Cut(after_events=-1)]) as server, connected(server) as (reader, writer):
        writer.write(http(server, body))
        assert await reader.read() == b""


async def test_clean_cut_keeps_connection():
    steps = [Cut(Turn("abc"), 1, "clean"), Turn("whole")]
    async with FakeProviderServer(steps) as server, connected(server) as (reader, writer):
        writer.write(http(server, STREAM, connection="keep-alive"))
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(http(server, ASK))
        assert b'"whole"' in await reader.read()
    assert [request.connection for request in server.requests] == [1, 1]


async def test_json_body_breaks_off_midway():
    async with FakeProviderServer([Turn("abc"), Cut(Turn("abc"), 1, "clean"), Cut(Turn("abc"), 1)]) as server:
        bodies = [(await talk(server, http(server, ASK)))[1] for _ in range(3)]
    whole = json.loads(bodies[0])
    for body in bodies[1:]:
        assert 0 < len(body) < len(bodies[0])
        with pytest.raises(json.JSONDecodeError):
            json.loads(body)
    assert whole["content"][0]["text"] == "abc"


@pytest.mark.parametrize("path", ["/v1/messages", "/chat/completions"])
async def test_stalled_stream_resumes_after_pings(path):
    turn = Turn("abcdef", pieces=2)
    _, plain = await first_answer(turn, STREAM, path)
    stall = Stall(turn, after_events=2, seconds=0.05, pings=True, ping_every=0.01)
    _, raw = await first_answer(stall, STREAM, path)
    (before, _), (after, ended) = chunks(plain), chunks(raw)
    ping = b'event: ping\ndata: {"type": "ping"}\n\n' if path == "/v1/messages" else b": ping\n\n"
    extra = len(after) - len(before)
    assert ended
    assert extra >= 1
    assert after == [*before[:2], *[ping] * extra, *before[2:]]


@pytest.mark.parametrize("body", [STREAM, ASK], ids=["streamed", "whole"])
async def test_silent_stall_then_complete(body):
    _, raw = await first_answer(Turn("abc"), body)
    assert await first_answer(Stall(Turn("abc"), 1, seconds=0.01), body) == (200, raw)


async def test_hang_up_during_silence_is_noticed():
    async with FakeProviderServer([Stall(Turn("abc"), 1)]) as server:
        async with connected(server) as (reader, writer):
            writer.write(http(server, STREAM))
            await reader.readuntil(b"message_start")
        async with asyncio.timeout(60):
            while not server.abandoned:
                await asyncio.sleep(0.001)
    assert server.abandoned == server.requests


async def test_closing_server_ends_stalls_at_once():
    async with contextlib.AsyncExitStack() as stack:
        server = FakeProviderServer([Stall(Turn("abc"), 1), Turn("x", delay=float("inf"))])
        async with server:
            links = [await stack.enter_async_context(connected(server)) for _ in range(3)]
            for _, writer in links[:2]:
                writer.write(http(server, STREAM))
            async with asyncio.timeout(60):
                while len(server.requests) < 2:
                    await asyncio.sleep(0.001)
        for reader, _ in links:
            async with asyncio.timeout(60):
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            assert reader.at_eof() or reader.exception()


async def test_error_event_ends_the_stream():
    step = ErrorEvent(Turn("abc", pieces=1), after_events=4)
    _, raw = await first_answer(step, STREAM)
    error = events(raw)[-1]
    assert (error["type"], error["error"]) == ("error", {"type": "overloaded_error", "message": "Overloaded"})
    assert len(events(raw)) == 5
    _, raw = await first_answer(ErrorEvent(Turn("abc"), 1, "server_error", "Boom"), STREAM, "/chat/completions")
    assert events(raw)[-1]["error"]["message"] == "Boom"
    assert b"[DONE]" not in raw
    assert (await first_answer(step, ASK))[0] == 529
    assert (await first_answer(ErrorEvent(type="rate_limit_exceeded"), ASK, "/chat/completions"))[0] == 429


async def test_sdk_sees_an_error_event():
    from anthropic import APIStatusError

    async with FakeProviderServer([ErrorEvent(Turn("abc"), 3)]) as server, anthropic_client(server) as client:
        with pytest.raises(APIStatusError) as caught:
            async with client.messages.stream(**ASK) as stream:
                await stream.get_final_message()
    assert caught.value.type == "overloaded_error"


async def test_failures_have_family_shape():
    import anthropic
    import openai

    fail = Fail(429, headers={"retry-after": "7"}, message="slow down")
    async with FakeProviderServer([fail], repeat_last=True) as server:
        async with anthropic_client(server, max_retries=0) as first:
            with pytest.raises(anthropic.RateLimitError, match="slow down") as caught:
                await first.messages.create(**ASK)
        async with openai_client(server, max_retries=0) as second:
            with pytest.raises(openai.RateLimitError, match="slow down") as other:
                await second.chat.completions.create(**ASK)
    assert caught.value.type == "rate_limit_error"
    assert other.value.code == "rate_limit_exceeded"
    assert caught.value.response.headers["retry-after"] == "7"
    assert server.billed == []


async def test_failure_bodies_are_sent_as_given():
    assert await first_answer(Fail(503, "<html>"), ASK) == (503, b"<html>")
    assert await first_answer(Fail(503, {"no": 1}), ASK) == (503, b'{"no":1}')
    assert await first_answer(Raw(502, body=b"\xff bad gateway"), ASK) == (502, b"\xff bad gateway")


# Billing


async def test_server_bills_counted_told_or_worst():
    given = Usage(input=5, cache_read=6, output=7)
    script = [Turn("x" * 40, thinking="y" * 8), Turn("x", usage=given)]
    async with FakeProviderServer(script, repeat_last=True) as server:
        await talk(server, http(server, ASK))
        await talk(server, http(server, STREAM))
    size = len(json.dumps(ASK))
    assert server.billed == [Usage(input=size // 4, output=12, reasoning=2), given]
    async with FakeProviderServer(script, bill="worst") as server, openai_client(server) as client:
        await client.chat.completions.create(model="m", messages=ASK["messages"], max_completion_tokens=77)
        _, raw = await talk(server, http(server, ASK))
    first, second = (len(request.body) for request in server.requests)
    assert server.billed == [Usage(input=first, output=77), Usage(input=second, output=50)]
    assert json.loads(raw)["usage"]["output_tokens"] == 50
    assert [charge.model for charge in server.charges] == ["m", "m"]


# What the real API refuses


def conversation(*messages: Mapping[str, object], **members: object) -> dict[str, object]:
    return {**ASK, "messages": list(messages), **members}


def says(role: str, *blocks: object) -> dict[str, object]:
    return {"role": role, "content": list(blocks)}


def text(words: str = "hi", **members: object) -> dict[str, object]:
    return {"type": "text", "text": words, **members}


def use(call_id: str) -> dict[str, object]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def result(call_id: str) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


HI = says("user", text())
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{not json", "could not parse"),
        (b"[]", "could not parse"),
        ({**ASK, "max_tokens": None}, "max_tokens: Field required"),
        ({**ASK, "model": ""}, "model: Field required"),
        (conversation(), "at least one message"),
        (conversation({"role": "system", "content": "x"}), "messages.0.role"),
        (conversation(says("assistant", text())), 'must use the "user" role'),
        (conversation(HI, says("assistant"), HI), "messages.1: all messages must have non-empty content"),
        (conversation(says("user", text(""))), "messages.0.content.0: text content blocks must"),
        (conversation(HI, says("assistant", use("a")), HI), "messages.1: `tool_use` ids were found without"),
        (conversation(HI, says("assistant", use("a"))), "messages.1: `tool_use` ids were found without"),
        (conversation(HI, says("assistant", use("a")), says("user", text(), result("a"))), "messages.1: `tool_use`"),
        (conversation(HI, says("assistant", use("a"), use("b")), says("user", result("a"))), "after: b"),
        (conversation(HI, says("user", result("a"))), "messages.1.content.0: unexpected `tool_use_id`"),
        (conversation(HI, says("assistant", use("a"), use("a")), says("user", result("a"))), "must be unique"),
        (conversation(HI, says("assistant", use("a")), says("user", result("a"), result("a"))), "a single result"),
        (conversation(HI, says("assistant", use("a b"))), "tool_use.id: String should match"),
        (conversation(says("user", *[text(**MARK)] * 3), system=[text(**MARK)], tools=[MARK]), "Found 5"),
        (conversation(HI, system=[text("")]), "system: text content blocks"),
        (conversation(HI, tools=[{"name": "a.b", "input_schema": {}}]), "tools.0.name"),
        (conversation(HI, tools=[{"name": "a", "input_schema": {}}] * 2), "must be unique"),
        (conversation(HI, thinking={"type": "enabled", "budget_tokens": 2000}), "greater than `thinking"),
        (conversation(HI, says("assistant", {"type": "thinking", "thinking": "x"}, text()), HI), "signature"),
    ],
)
async def test_anthropic_refuses_malformed(body, complaint):
    async with FakeProviderServer() as server:
        status, message = await ask(server, body)
    assert status == 400
    assert complaint in message


async def test_anthropic_accepts_loop_it_signed():
    async with FakeProviderServer([FULL, Turn("done")], repeat_last=True) as server:
        _, raw = await talk(server, http(server, ASK))
        reply = json.loads(raw)["content"]
        results = says("user", *(result(block["id"]) for block in reply[2:]), text("and?"))
        status, _ = await talk(server, http(server, conversation(HI, says("assistant", *reply), results)))
        assert status == 200
        reply[0]["thinking"] += "!"
        status, message = await ask(server, conversation(HI, says("assistant", *reply), results))
    assert (status, message) == (400, "messages.1.content.0: Invalid `signature` in `thinking` block")


async def test_anthropic_version_must_be_named():
    warm = {**ASK, "temperature": 1}
    async with FakeProviderServer([Turn("x")]) as server:
        assert (await ask(server, warm, anthropic_version="2026-10-21"))[0] == 400
        assert (await ask(server, ASK, anthropic_version=""))[1] == "anthropic-version: header is required"
        assert (await talk(server, http(server, warm)))[0] == 200


def calls(*ids: str, arguments: object = "{}") -> dict[str, object]:
    made = [{"id": i, "type": "function", "function": {"name": "f", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def tool(call_id: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "could not parse"),
        (conversation(), "empty array"),
        ({**ASK, "model": None}, "you must provide a model"),
        (conversation({"role": "robot", "content": "x"}), "Invalid value: 'robot'"),
        (conversation({"role": "user", "content": None}), "expected a string, got null"),
        (conversation(HI, calls("a"), HI), "did not have response messages: a"),
        (conversation(HI, calls("a", "b"), tool("b")), "did not have response messages: a"),
        (conversation(HI, tool("a")), "must be a response to a preceeding message"),
        (conversation(HI, calls("a"), tool("a"), tool("a")), "must be a response to a preceeding message"),
        (conversation(HI, calls("a", arguments={}), tool("a")), "function.arguments': expected a string"),
        (conversation(HI, calls("a" * 41), tool("a" * 41)), "maximum length 40"),
        (conversation(HI, {"role": "assistant", "content": "x", "tool_calls": []}), "tool_calls': empty array"),
        (conversation(HI, tools=[{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name"),
        (conversation(HI, stream_options={"include_usage": True}), "only allowed when 'stream'"),
    ],
)
async def test_openai_refuses_malformed(body, complaint):
    async with FakeProviderServer() as server:
        status, message = await ask(server, body, "/v1/chat/completions")
    assert status == 400
    assert complaint in message


async def test_openai_accepts_a_whole_loop():
    body = conversation({"role": "system", "content": "x"}, HI, calls("a", "b"), tool("b"), tool("a"), HI)
    async with FakeProviderServer([Turn("x")]) as server:
        assert (await talk(server, http(server, body, "/v1/chat/completions")))[0] == 200


async def test_refused_request_uses_no_step():
    async with FakeProviderServer([Turn("x")]) as server:
        assert (await ask(server, conversation()))[0] == 400
        assert (await talk(server, http(server, ASK)))[0] == 200
    assert len(server.billed) == 1
    async with FakeProviderServer([Turn("x")], strict=False) as server:
        assert (await talk(server, http(server, b"nonsense")))[0] == 200


async def test_key_is_needed_unless_switched_off():
    async with FakeProviderServer([Turn("x")]) as server:
        for path in ("/v1/messages", "/v1/chat/completions"):
            assert (await ask(server, ASK, path, x_api_key=""))[0] == 401
            assert (await ask(server, ASK, path, x_api_key="", authorization="Bearer "))[0] == 401
        assert (await talk(server, http(server, ASK, x_api_key="", authorization="Bearer k")))[0] == 200
    async with FakeProviderServer([Turn("x")], require_key=False) as server:
        assert (await talk(server, http(server, ASK, x_api_key="")))[0] == 200


async def test_unknown_paths_and_methods():
    async with FakeProviderServer() as server:
        assert (await ask(server, ASK, "/v1/unknown"))[0] == 404
        assert (await ask(server, ASK, "/v1/models"))[0] == 405
        assert (await talk(server, b"nonsense\r\n\r\n"))[0] == 400


# Threads, processes, JSON


def test_server_in_a_thread():
    with FakeProviderServer([Turn("x"), Stall(Turn("y"), 1)]).in_thread() as server:
        request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(ASK).encode())
        request.add_header("authorization", "Bearer k")
        with urllib.request.urlopen(request) as response:
            assert json.load(response)["choices"][0]["message"]["content"] == "x"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(request)
    with pytest.raises(RuntimeError, match="has not started"):
        _ = FakeProviderServer().url


def test_script_in_json():
    steps = parse_script(
        """[
        {"text": "hi", "calls": [{"name": "f", "arguments": {"a": 1}, "id": "i"}], "usage": {"input": 3}},
        {"kind": "cut", "turn": {"text": "x"}, "after_events": 2, "how": "reset"},
        {"kind": "stall", "turn": {}, "seconds": 1.5, "pings": true},
        {"kind": "error", "turn": {"text": "x"}, "message": "m"},
        {"kind": "fail", "status": 529, "headers": {"retry-after": "1"}},
        {"kind": "raw", "status": 502, "body": "<html>"}
        ]"""
    )
    assert steps == [
        Turn("hi", calls=(Call("f", {"a": 1}, "i"),), usage=Usage(input=3)),
        Cut(Turn("x"), 2, "reset"),
        Stall(Turn(), seconds=1.5, pings=True),
        ErrorEvent(Turn("x"), message="m"),
        Fail(529, headers={"retry-after": "1"}),
        Raw(502, body=b"<html>"),
    ]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("{}", "a JSON array of steps"),
        ('[{"text": "x"}, {"kind": "tern"}]', "step 2 of the script: unknown kind 'tern'"),
        ('[{"txet": "x"}]', "step 1 of the script: .*txet"),
        ('[{"kind": "cut", "turn": 3}]', "step 1 of the script: an object is needed"),
    ],
)
def test_mistakes_in_json_script_are_named(script, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse_script(script)


def test_server_from_a_shell(tmp_path: Path):
    script, port_file = tmp_path / "script.json", tmp_path / "port"
    script.write_text('[{"text": "from a file"}]')
    command = [sys.executable, "-m", "sagent.testing.server", "--script", script, "--port-file", port_file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            assert url == f"http://127.0.0.1:{port_file.read_text()}"
            request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(ASK).encode())
            request.add_header("authorization", "Bearer k")
            with urllib.request.urlopen(request) as response:
                assert json.load(response)["choices"][0]["message"]["content"] == "from a file"
        finally:
            process.terminate()


def test_wrong_script_of_a_shell_is_named(tmp_path: Path):
    script = tmp_path / "script.json"
    script.write_text('["words alone"]')
    command = [sys.executable, "-m", "sagent.testing.server", "--script", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"{script}: step 1" in done.stderr and "Traceback" not in done.stderr


@later
@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("sagent.testing", ["sagent.testing.server", "pytest"]),
        ("sagent.testing.server", ["anthropic", "openai", "httpx2", "pydantic", "argparse", "http.client"]),
    ],
)
def test_importing_costs_little(module, unwanted):
    code = f"import sys, {module}; print([m for m in sys.modules if m in sys.argv[1:]])"
    done = subprocess.run([sys.executable, "-c", code, *unwanted], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("rounds", range(6))
async def test_connection_at_close_is_hung_up(rounds: int) -> None:
    async with FakeProviderServer() as server:
        client = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
        for _ in range(rounds):
            await asyncio.sleep(0)
    with client, contextlib.suppress(ConnectionError):
        client.settimeout(30)
        assert client.recv(1) == b"", "the loop does not go on: all was closed"
