"""Streams as they really come: cut, silent, broken, whole where a stream was asked for. Real HTTP, exact bytes."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from decimal import Decimal

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError
from sagent.events import TextDelta
from sagent.lib.json import sha256_hex
from sagent.messages import ToolCall, user
from sagent.model import Billed, Delta, Model, Reply, Request, TextPart
from sagent.providers import Anthropic, Google, OpenAICompatible, Timeouts, provider_named
from sagent.providers.wire import exchange
from sagent.testing.script import Turn
from sagent.testing.server import FakeProviderServer
from tests.waiting import until

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
PING = b"event: ping\ndata: {}\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(data: object) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def page(data: bytes, kind: bytes = b"application/json", status: bytes = b"200 OK") -> list[bytes]:
    return [b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (status, kind, len(data)) + data]


def says(text: str, finish: str | None = None) -> bytes:
    return event({"id": "c1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


USAGE = event({"id": "c1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}})
DONE = b"data: [DONE]\n\n"
QUICK = Timeouts(stall=0.75, reasoning_stall=2.0, connect=5)  # long enough for a busy machine to write in time


@asynccontextmanager
async def chat(url: str, timeouts: Timeouts | None = None) -> AsyncGenerator[Model]:
    provider = OpenAICompatible.from_key("", base_url=url, timeouts=timeouts)
    yield provider.model("m")
    await provider.aclose()


async def ask(model: Model) -> tuple[list[object], Reply]:
    *deltas, reply = [item async for item in model.stream(Request("c", [user("hi")]))]
    assert isinstance(reply, Reply)
    return deltas, reply  # pyright: ignore[reportReturnType]


async def failure(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model)
    assert (caught.value.provider, caught.value.model) == (model.provider, model.id)
    return caught.value


async def test_reply_cost_and_digest_of_sent_bytes(raw_server) -> None:
    async with (
        raw_server([HEAD, chunk(says("he") + says("llo", "stop") + USAGE + DONE), END]) as server,
        chat(server.url) as model,
    ):
        deltas, reply = await ask(model)
        assert deltas[0] == TextPart("hello")  # what came in one piece is told in one piece
        assert isinstance(deltas[1], Billed)
        assert (reply.message.content, reply.message.model, reply.response_id) == ("hello", "openai-compatible/m", "c1")
        assert (reply.usage.input, reply.usage.output) == (9, 2)
        body = server.requests[0].partition(b"\r\n\r\n")[2]
        assert (reply.digest.sha256, reply.digest.size) == (sha256_hex(body), len(body))


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD, chunk(says("he")), None],
        [HEAD, chunk(says("he")), END],
        [HEAD, chunk(says("he") + b'data: {"choi'), END],
        [HEAD, END],
        [HEAD, chunk(b"data: [DONE]\n\n"), END],
    ],
)
async def test_stream_without_closing_event_is_cut(raw_server, pieces) -> None:
    async with raw_server(pieces) as server, chat(server.url) as model:
        assert (await failure(model)).kind == "cut"


async def test_finished_reply_ignores_pings(raw_server, monkeypatch) -> None:
    monkeypatch.setattr("sagent.providers.wire.exchange._TRAILER_TIMEOUT_SECONDS", 0.05)
    pings = [0.01, chunk(PING)] * 6_000
    async with raw_server([HEAD, chunk(says("hello", "stop") + USAGE), *pings]) as server, chat(server.url) as model:
        async with asyncio.timeout(60):
            _, reply = await ask(model)
    assert (reply.message.content, reply.usage.output) == ("hello", 2)


async def collect(stream: AsyncIterator[Delta | Reply], heard: list[Delta | Reply]) -> None:
    async for item in stream:
        heard.append(item)


@pytest.mark.parametrize("talk", ["word ", "wo rd", "x" * 40])
@pytest.mark.parametrize("of", ["anthropic", "openai", "google", "openai-compatible"])
async def test_server_past_output_limit_is_left(of: str, talk: str) -> None:
    async with FakeProviderServer([Turn(text=talk * (24_000 // len(talk)), pieces=7)]) as server:
        provider = provider_named(of, key="k" * 8, base_url=server.url)
        heard: list[Delta | Reply] = []
        stream = provider.model("claude-sonnet-4-6").stream(Request("c", [user("hi")], max_output=300))
        with pytest.raises(ModelError, match="it continued after the 300 tokens asked for") as caught:
            await collect(stream, heard)
        await provider.aclose()
    said = "".join(delta.text for delta in heard if isinstance(delta, TextPart))
    assert caught.value.sent
    assert not caught.value.retryable
    assert len(said.split()) <= 303
    assert 600 < len(said) <= 64 * 301 + 7


@pytest.mark.parametrize("flood", [PING, b"data: " + b"x" * 40, event({"choices": [], "other": "x" * 40})])
async def test_endless_stream_is_left(raw_server, monkeypatch: pytest.MonkeyPatch, flood: bytes) -> None:
    monkeypatch.setattr(exchange, "_MAX_STREAM_BYTES", 5_000)
    pieces = [HEAD, *[chunk(flood * 40)] * 20, END]
    async with raw_server(pieces) as server, chat(server.url) as model:
        error = await failure(model)
    assert "longer than 5,000 bytes" in str(error)
    assert not error.retryable


@pytest.mark.parametrize(
    ("bound", "first", "flood"), [("_MAX_STREAM_BYTES", b"", b" \n"), ("_MAX_BODY_BYTES", b"{", b"x" * 40)]
)
async def test_endless_answers_are_left(
    raw_server, monkeypatch: pytest.MonkeyPatch, bound: str, first: bytes, flood: bytes
) -> None:
    monkeypatch.setattr(exchange, bound, 5_000)
    pieces = [HEAD, chunk(first + flood * 40), *[chunk(flood * 400)] * 20, END]
    async with raw_server(pieces) as server, chat(server.url) as model:
        error = await failure(model)
    assert "longer than 5,000 bytes" in str(error)
    assert not error.retryable


async def test_answer_of_spaces_is_not_left(raw_server) -> None:
    """OpenAI's models have one token for 128 of them, and may write nothing else up to the limit."""
    pieces = [HEAD, *[chunk(says(" " * 128))] * 20, chunk(says("", "length") + USAGE + DONE), END]
    async with raw_server(pieces) as server, chat(server.url) as model:
        heard: list[Delta | Reply] = []
        await collect(model.stream(Request("c", [user("hi")], max_output=20)), heard)
    assert isinstance(reply := heard[-1], Reply)
    assert reply.message.stop == "max_tokens"


def thinks(text: str) -> bytes:
    return event({"id": "c1", "choices": [{"index": 0, "delta": {"reasoning": text}}]})


async def test_summary_may_exceed_thought_boundedly(raw_server) -> None:
    request = Request("c", [user("hi")], max_output=20)
    short = [HEAD, chunk(thinks("word " * 130) + says("256", "stop") + USAGE + DONE), END]
    endless = [HEAD, chunk(thinks("word " * 90) * 5 + says("256", "stop") + USAGE + DONE), END]
    async with raw_server(short) as server, chat(server.url) as model:
        assert [item async for item in model.stream(request)]
    async with raw_server(endless) as server, chat(server.url) as model:
        with pytest.raises(ModelError, match="it continued after the 20 tokens"):
            await collect(model.stream(request), [])


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD, chunk(says("hello", "stop")), END],  # no [DONE]
        [HEAD, chunk(says("hello", "stop")), None],  # not even an end
        [HEAD, chunk(says("hello") + DONE), END],  # no finish reason
        [HEAD, chunk(says("hello", "stop") + DONE + b"data: rubbish\n\n"), END],
        [HEAD, chunk(says("hello", "stop") + DONE[:-2]), END],  # no blank line
        [HEAD, chunk(says("hello", "stop") + event({"error": {"code": 500, "message": "late"}})), END],
        [HEAD, chunk(says("hello", "stop") + DONE), 30.0],  # the stream stays open
        [HEAD, chunk(says("hello", "stop")), 30.0],
    ],
)
async def test_complete_reply_survives_bad_end(raw_server, pieces) -> None:
    async with raw_server(pieces) as server, chat(server.url, QUICK) as model:
        _, reply = await ask(model)
        assert reply.message.content == "hello"
        assert reply.charges[0].estimated
        assert reply.usage.output == 1


async def test_non_json_line_is_protocol_error(raw_server) -> None:
    async with raw_server([HEAD, chunk(says("he") + b"data: {broken\n\n"), END]) as server, chat(server.url) as model:
        told = []

        async def listen() -> None:
            async for item in model.stream(Request("c", [user("hi")])):
                told.append(item)

        with pytest.raises(ModelError) as caught:
            await listen()
        assert caught.value.kind == "protocol"
        assert told == [TextPart("he")]


@pytest.mark.parametrize("before", [b"", says("hal")])
async def test_error_in_its_own_sse_field(raw_server, before: bytes) -> None:
    """llama.cpp's until late 2025, with a proper end after it."""
    error = {"code": 400, "message": "the request exceeds the available context size", "type": "invalid_request_error"}
    stream = before + b"error: " + json.dumps(error).encode() + b"\n\n" + DONE
    async with raw_server([HEAD, chunk(stream), END]) as server, chat(server.url) as model:
        failed = await failure(model)
    assert (failed.kind, failed.status, failed.args[0]) == ("context_overflow", 400, error["message"])


async def test_error_in_a_stream(raw_server) -> None:
    failed = event({"error": {"code": 502, "message": "Provider disconnected"}, "choices": []})
    async with raw_server([HEAD, chunk(says("he") + failed), END]) as server, chat(server.url) as model:
        error = await failure(model)
        assert (error.kind, error.status) == ("server", 502)
        assert "Provider disconnected" in str(error)


TOLD = {"prompt_tokens": 90, "completion_tokens": 7, "total_tokens": 97, "cost": 0.25, "is_byok": False}
BROKEN = {"code": 502, "message": "Provider disconnected"}


@pytest.mark.parametrize(
    "answer",
    [
        [HEAD, chunk(says("he") + event({"error": BROKEN, "choices": [], "usage": TOLD})), END],
        [HEAD, chunk(says("he") + event({"choices": [{"index": 0, "finish_reason": "error"}], "usage": TOLD})), END],
        [HEAD, chunk(event({"choices": [{"index": 0, "finish_reason": "error", "usage": TOLD}]})), END],
        [HEAD, chunk(event({"error": BROKEN, "x_groq": {"usage": TOLD}})), END],
        [HEAD, chunk(event({"error": BROKEN}) + event({"choices": [], "usage": TOLD}) + DONE), END],
        [HEAD, chunk(event({"error": BROKEN})), 0.02, chunk(event({"choices": [], "usage": TOLD})), 30.0],
        page(json.dumps({"error": BROKEN, "usage": TOLD}).encode()),
        page(json.dumps({"error": BROKEN, "usage": TOLD}).encode(), status=b"502 Bad Gateway"),
        page(json.dumps({"choices": [{"index": 0, "finish_reason": "error"}], "usage": TOLD}).encode()),
    ],
)
async def test_failed_reply_keeps_its_bill(raw_server, answer) -> None:
    heard: list[Delta | Reply] = []
    async with raw_server(answer) as server, chat(server.url) as model:
        with pytest.raises(ModelError) as caught:
            await collect(model.stream(Request("c", [user("hi")])), heard)
    assert caught.value.kind == "server"
    (bill,) = (item.charges[0] for item in heard if isinstance(item, Billed))
    assert (bill.usage.input, bill.usage.output, str(bill.usd)) == (90, 7, "0.25")


def streamed(failed: dict) -> list[bytes]:
    """An error, and then the end of the response that it was in."""
    ended = {"type": "response.failed", "response": failed} if "status" in failed else failed
    return [HEAD, chunk(event({"type": "error", "error": BROKEN}) + event(ended)), END]


@pytest.mark.parametrize("answer", [lambda failed: page(json.dumps(failed).encode()), streamed])
@pytest.mark.parametrize("way", ["openai", "anthropic", "google"])
async def test_failed_reply_of_other_families_is_billed(raw_server, way: str, answer) -> None:
    told = {
        "openai": {"status": "failed", "output": [], "usage": {"input_tokens": 90, "output_tokens": 7}},
        "anthropic": {"type": "error", "usage": {"input_tokens": 90, "output_tokens": 7}},
        "google": {"usageMetadata": {"promptTokenCount": 90, "candidatesTokenCount": 7}},
    }[way]
    heard: list[Delta | Reply] = []
    async with raw_server(answer({"error": BROKEN, **told})) as server:
        provider = provider_named(way, key="k" * 8, base_url=server.url)
        with pytest.raises(ModelError, match="disconnected"):
            await collect(provider.model("m").stream(Request("c", [user("hi")])), heard)
        await provider.aclose()
    (bill,) = (item.charges[0] for item in heard if isinstance(item, Billed))
    assert (bill.usage.input, bill.usage.output) == (90, 7)


@pytest.mark.parametrize("status", [b"400 Bad Request", b"200 OK"])
async def test_failed_generation_is_retried_twice(raw_server, status: bytes) -> None:
    misfired = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<fn=x>"}
    refused = page(json.dumps({"error": {**misfired, "status_code": 400}}).encode(), status=status)
    streamed = [HEAD, chunk(says("<fn=x>") + event({"error": misfired})), END]
    good = [HEAD, chunk(says("hello", "stop") + USAGE + DONE), END]
    async with raw_server(refused, streamed, good) as server, chat(server.url) as model:
        result = await Agent(model, limits=RunLimits(max_retries=8)).run("hi")
        assert (len(server.requests), result.content) == (3, "hello")
        assert b"fn=x" not in server.requests[-1], "what was no call is not kept"
    async with raw_server(refused) as server, chat(server.url) as model:
        with pytest.raises(ModelError, match="Failed to call a function"):
            await Agent(model, limits=RunLimits(max_retries=8)).run("hi")
        assert len(server.requests) == 3


async def test_endless_error_body_keeps_status(raw_server, monkeypatch) -> None:
    monkeypatch.setattr("sagent.providers.wire.exchange._TRAILER_TIMEOUT_SECONDS", 0.05)
    told = b'{"error":{"message":"slow down"}}'
    endless = b"HTTP/1.1 429 Too Many\r\nretry-after: 9\r\ncontent-length: 5000\r\n\r\n" + told
    async with raw_server([endless, 30.0]) as server, chat(server.url) as model:
        error = await failure(model)
        assert (error.kind, error.status, error.retry_after) == ("rate_limit", 429, 9.0)
        assert "slow down" in str(error)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (page(b"<html><title>Sign in</title></html>", b"text/html"), "server", "Sign in"),
        (page(b"<html><h1>502 Bad Gateway</h1></html>", b"text/html", b"502 Bad Gateway"), "server", "502 Bad Gateway"),
        (page(b'{"error":{"message":"slow down"}}', status=b"429 Too Many"), "rate_limit", "slow down"),
        (page(b'{"error":{"message":"no such model","code":404}}'), "not_found", "no such model"),
        (page(b'[{"error":{"code":400,"message":"API key not valid"}}]'), "auth", "API key not valid"),
        (page(b'{"half":'), "protocol", "not JSON"),
        (page(b'{"hello":"there"}'), "protocol", "not a reply"),
        (page(b""), "cut", "ended"),
        (page(b"upstream connect error", b"text/plain"), "protocol", "upstream connect error"),
        (page(b"<html><h1>Refused</h1></html>", b"text/html", b"451 Refused"), "invalid_request", "Refused"),
    ],
)
async def test_non_stream_answers(raw_server, answer, kind, words) -> None:
    async with raw_server(answer) as server, chat(server.url) as model:
        error = await failure(model)
        assert error.kind == kind
        assert words in str(error)


async def test_half_character_spoils_no_answer(raw_server) -> None:
    """Some servers send the half of a character that a limit cut."""
    said = b'{"type": "message", "stop_reason": "max_tokens", "content": [{"type": "text", "text": "Hi \xf0\x9f"}]}'
    async with raw_server(page(said)) as server:
        provider = provider_named("anthropic", key="k" * 8, base_url=server.url)
        assert (await ask(provider.model("m")))[1].message.content == "Hi \ufffd"
        await provider.aclose()


@pytest.mark.parametrize("form", ["data: %s\n", "%s\n"])
async def test_unseparated_events_and_json_lines(raw_server, form) -> None:
    chunks = ({"delta": {"content": "Hel"}}, {"delta": {"content": "lo"}, "finish_reason": "stop"})
    lines = [json.dumps({"id": "c1", "choices": [{"index": 0, **chunk}]}) for chunk in chunks]
    async with raw_server(page("".join(form % line for line in lines).encode())) as server, chat(server.url) as model:
        assert (await ask(model))[1].message.content == "Hello"


def calls(arguments: str) -> bytes:
    call = {"index": 0, "id": "1", "function": {"name": "Write", "arguments": arguments}}
    return event({"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})


FAILED = event({"error": {"message": "Flagged", "type": "invalid_request_error"}})


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ([HEAD, chunk(calls('{"a') + FAILED), END], True),  # a model had written
        ([HEAD, chunk(FAILED), END], False),
        (page(b"<html><title>Sign in</title></html>", b"text/html"), True),  # nobody refused
        (page(b"{}"), True),
        (page(b"[]"), True),
        (page(b"", status=b"522 Timed out"), True),
        (page(b'{"error":{"message":"slow down"}}', status=b"429 Too Many"), False),
        (
            page(b'{"error":{"message":"slow down"},"usage":{"prompt_tokens":0,"cost":0}}', status=b"429 Too Many"),
            False,
        ),
    ],
)
async def test_only_refusal_is_unbilled(raw_server, answer, sent) -> None:
    async with raw_server(answer) as server, chat(server.url) as model:
        assert (await failure(model)).sent == sent


@pytest.mark.parametrize("usage", [{"prompt_tokens": 9}, {"completion_tokens": 80}])
async def test_half_told_bill_is_an_estimate(raw_server, usage) -> None:
    told = event({"id": "c1", "choices": [], "usage": usage})
    answer = [HEAD, chunk(says("word " * 80, "stop") + told + DONE), END]
    async with raw_server(answer) as server, chat(server.url) as model:
        _, reply = await ask(model)
        assert reply.charges[0].estimated


async def test_one_piece_reply_is_taken(raw_server) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"a"}'}}
    body = {
        "id": "c9",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {"role": "assistant", "content": "ok", "tool_calls": [call]},
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3},
    }
    async with raw_server(page(b"\n  \n" + json.dumps(body, indent=1).encode())) as server, chat(server.url) as model:
        _, reply = await ask(model)
        assert reply.message.content == "ok"
        assert reply.message.calls == (ToolCall("1", "Read", reply.message.calls[0].arguments),)
        assert (reply.message.stop, reply.usage.output) == ("tool_use", 3)


async def test_silence_ends_call_despite_pings(raw_server) -> None:
    silent = [HEAD, chunk(says("he")), 30.0]
    pinging = [HEAD, chunk(says("he")), *[0.15, chunk(b": ping\n\n")] * 8, chunk(says("llo", "stop") + DONE), END]
    async with raw_server(silent, pinging) as server, chat(server.url, QUICK) as model:
        error = await failure(model)
        assert (error.kind, error.retryable) == ("stalled", True)
        assert "0.75 s" in str(error)
        _, reply = await ask(model)
        assert reply.message.content == "hello"


async def test_longer_silence_before_first_event(raw_server) -> None:
    thought = event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]})
    late = [1.0, HEAD, 0.05, chunk(thought), 1.0, chunk(says("hello", "stop") + DONE), END]
    never = [30.0]
    half = [HEAD, chunk(b"data: {"), *[0.2, chunk(b" ")] * 30]
    async with raw_server(late, never, half) as server, chat(server.url, QUICK) as model:
        assert (await ask(model))[1].message.content == "hello"
        assert (await failure(model)).kind == "stalled"
        assert (await failure(model)).kind == "stalled"  # bytes that make no event are no life


async def test_slow_reader_is_no_silent_provider(raw_server) -> None:
    pieces = [HEAD, chunk(says("a")), chunk(says("b")), chunk(says("c", "stop") + DONE), END]
    async with raw_server(pieces) as server, chat(server.url, QUICK) as model:
        told = []
        async for item in model.stream(Request("c", [user("hi")])):
            await asyncio.sleep(1.0)
            told.append(item)
        assert isinstance(told[-1], Reply)


async def test_left_or_cancelled_call_frees_next(raw_server) -> None:
    open_end = [HEAD, chunk(says("he")), 30.0]
    good = [HEAD, chunk(says("hello", "stop") + USAGE + DONE), END]
    async with raw_server(open_end, open_end, good, good) as server, chat(server.url) as model:
        async with aclosing(model.stream(Request("c", [user("hi")]))) as deltas:  # pyright: ignore[reportArgumentType]
            assert await anext(deltas) == TextPart("he")
        asking = asyncio.create_task(ask(model))
        await until(lambda: len(server.requests) == 2, task=asking)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await ask(model))[1].message.content == "hello"
        connections = server.connections
        assert (await ask(model))[1].message.content == "hello"
        assert server.connections == connections  # the finished one is used again


async def test_interrupted_call_bills_its_arguments(raw_server) -> None:
    """They are not shown as they come, but the model has made them."""
    call = {"index": 0, "id": "c", "function": {"name": "Write", "arguments": '{"content": "' + "ab" * 6_000}}
    written = event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    async with raw_server([HEAD, chunk(written + says("so")), 30.0]) as server, chat(server.url) as model:
        prices = PriceBook({"openai-compatible/m": {"input": 0, "output": 1}})
        agent = Agent(model, resources=Resources(ledger=Ledger(Decimal(5), prices)))
        agent.listen(lambda one: agent.interrupt() if isinstance(one, TextDelta) else None)
        assert (await agent.run("Write it.")).stop_reason == "interrupted"
        cost = agent.ledger.cost()
        assert cost.total + cost.unbilled >= Decimal("0.012")
        await agent.aclose()


async def test_small_pieces_are_read_together(raw_server) -> None:
    words = [f"{number} " for number in range(400)]
    pieces: list[object] = [HEAD]
    for word in words:
        pieces += [chunk(says(word)), 0.001]
    pieces += [chunk(says("end", "stop") + USAGE + DONE), END]
    async with raw_server(pieces, pieces) as server, chat(server.url) as model:
        for _ in range(2):  # on one connection
            started = asyncio.get_running_loop().time()
            deltas, reply = await ask(model)
            seconds = asyncio.get_running_loop().time() - started
            texts = [delta.text for delta in deltas if isinstance(delta, TextPart)]
            assert "".join(texts) == reply.message.content == "".join(words) + "end"
            assert len(texts) <= 45 + seconds / 0.025  # after forty one by one, those of each 25 ms together
        assert server.connections == 1


async def test_stall_is_told_from_cancellation(raw_server) -> None:
    """Cancelling a stalled call cancels it; nothing of the watch is left behind in the task."""
    async with raw_server([HEAD, chunk(says("he")), 30.0]) as server, chat(server.url, QUICK) as model:
        assert (await failure(model)).kind == "stalled"
        task = asyncio.current_task()
        assert task
        assert task.cancelling() == 0


async def test_models_of_a_server(raw_server) -> None:
    listing = {"data": [{"id": "a", "context_length": 4096}, {"id": "b"}]}
    anthropic = {"data": [{"id": "claude-x", "display_name": "Claude X"}, {"id": "claude-opus-4-1-20250805"}]}
    async with raw_server(page(json.dumps(listing).encode())) as server:
        provider = OpenAICompatible.from_key("", base_url=server.url)
        infos = await provider.models()
        assert [(info.id, info.limits.window) for info in infos] == [("a", 4096), ("b", None)]
        assert server.requests[0].startswith(b"GET /v1/models HTTP/1.1")
        await provider.aclose()
    async with raw_server(page(json.dumps(anthropic).encode()), page(b"{}", status=b"401 No")) as server:
        provider = Anthropic.from_key("key-of-mine", base_url=f"{server.url}/v1/")
        infos = await provider.models()
        assert [(info.id, info.name, info.limits.max_output) for info in infos] == [
            ("claude-x", "Claude X", None),
            ("claude-opus-4-1-20250805", "", 32_000),
        ]
        assert server.requests[0].startswith(b"GET /v1/models?limit=1000 HTTP/1.1")
        assert b"x-api-key: key-of-mine" in server.requests[0]
        with pytest.raises(ModelError) as caught:
            await provider.models()
        assert caught.value.kind == "auth"
        await provider.aclose()


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
async def test_json_nan_breaks_nothing(raw_server, number: str) -> None:
    """Wherever it stands: in counts, in arguments, or in what is kept to be sent back."""
    body = """{"candidates": [{"content": {"parts": [
        {"functionCall": {"name": "A", "args": {"n": NUMBER}}}, {"executableCode": {"code": NUMBER}}
    ]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": NUMBER}}"""
    async with raw_server(page(body.replace("NUMBER", number).encode())) as server:
        provider = Google.from_key("key-for-tests", base_url=server.url)
        model = provider.model("m")
        _, reply = await ask(model)
        assert dict(reply.message.calls[0].arguments) == {"n": number}
        assert reply.charges[0].estimated
        assert number in model.prepare(Request("c", [user("hi"), reply.message])).body.data.decode()
        await provider.aclose()
