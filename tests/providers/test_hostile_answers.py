"""Servers that say what cannot be, or never end: a bill stays a bound, and memory too."""

import gzip
import json
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from sagent.errors import ModelError
from sagent.lib.json import as_array, as_object
from sagent.messages import Image, Text, user
from sagent.model import Reply, Request
from sagent.plugins.clouds.converse_events import ConverseReplyReader
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible, Timeouts
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.families.google.events import GenerateReplyReader
from sagent.providers.families.responses.events import ResponsesReplyReader
from sagent.providers.wire import exchange, reply
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.reply import ReplyReader
from sagent.providers.wire.transport import Answer, inflated
from sagent.testing.server import FakeProviderServer, Turn, Wire
from sagent.usage import Usage

ORIGIN = Origin("p", "m", "", "")
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n%s\r\n"
PROVIDERS = (Anthropic, OpenAI, OpenAICompatible, Google)


def anthropic(read: object, wrote: object) -> ReplyReader:
    reader = MessagesReplyReader(ORIGIN)
    usage = {"input_tokens": read, "output_tokens": wrote}
    reader.whole({"type": "message", "content": [{"type": "text", "text": "word " * 8}], "usage": usage}, [])
    return reader


def chat(read: object, wrote: object, **more: object) -> ReplyReader:
    reader = ChatReplyReader(ORIGIN, "chat")
    usage = {"prompt_tokens": read, "completion_tokens": wrote, **more}
    reader.whole({"choices": [{"message": {"content": "word " * 8}}], "usage": usage}, [])
    return reader


def google(read: object, wrote: object) -> ReplyReader:
    reader = GenerateReplyReader(ORIGIN)
    usage = {"promptTokenCount": read, "candidatesTokenCount": wrote}
    candidate = {"content": {"parts": [{"text": "word " * 8}]}, "finishReason": "STOP"}
    reader.whole({"candidates": [candidate], "usageMetadata": usage}, [])
    return reader


def responses(read: object, wrote: object) -> ReplyReader:
    reader = ResponsesReplyReader(ORIGIN, "responses")
    item = {"type": "message", "content": [{"type": "output_text", "text": "word " * 8}]}
    reader.whole({"output": [item], "usage": {"input_tokens": read, "output_tokens": wrote}}, [])
    return reader


def converse(read: object, wrote: object) -> ReplyReader:
    reader = ConverseReplyReader(ORIGIN, "converse")
    usage = {"inputTokens": read, "outputTokens": wrote}
    content = [{"text": "word " * 8}]
    reader.whole({"output": {"message": {"content": content}}, "stopReason": "end_turn", "usage": usage}, [])
    return reader


FAMILIES = pytest.mark.parametrize("family", [anthropic, chat, converse, google, responses])
IMPOSSIBLE = (-5, -0.5, "NaN", "Infinity", "many", True, [], {}, None)  # NaN is text by the time it is read


@FAMILIES
@pytest.mark.parametrize("value", IMPOSSIBLE, ids=repr)
def test_impossible_count_is_estimated(family, value: object) -> None:
    for usage, (charge,) in (family(value, 9).bill(400), family(value, value).bill(400)):
        assert usage.input == 100
        assert charge.estimated
    usage, (charge,) = family(30, value).bill(400)
    assert usage == Usage(input=30, output=10)
    assert charge.estimated


@FAMILIES
@pytest.mark.parametrize("value", [1e30, 10**4000, "9" * 50], ids=["1e30", "10**4000", "digits"])
def test_huge_count_is_kept(family, value: object) -> None:
    for usage, (charge,) in (family(value, 9).bill(400), family(9, value).bill(400)):
        assert usage.input + usage.output == 10**12 + 9
        assert not charge.estimated


@FAMILIES
@pytest.mark.parametrize("value", [8, 8.0, "8"], ids=repr)
def test_count_in_any_spelling_is_read(family, value: object) -> None:
    usage, (charge,) = family(30, value).bill(400)
    assert usage == Usage(input=30, output=8)
    assert not charge.estimated


@pytest.mark.parametrize("name", ["cost", "cost_in_usd_ticks"])
def test_impossible_price_is_none(name: str) -> None:
    for value in (-5, "NaN", "Infinity", True, []):
        assert chat(30, 8, **{name: value}).charges()[0].usd is None
    assert chat(30, 8, **{name: 0}).charges()[0].usd is None  # a gateway that knows none
    (huge,) = chat(30, 8, **{name: 10**4000}).charges()
    assert huge.usd is not None
    assert 0 < huge.usd <= 10**18


async def asked(model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        _ = [item async for item in model.stream(Request("c", [user("hi")]))]
    return caught.value


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize(
    "piece", [b"data: " + b"x" * 90 + b"\n", b"x" * 100, b"data:\n" * 9], ids=["lines", "line", "short"]
)
async def test_endless_event_is_left_at_bound(raw_server, monkeypatch, kind, piece: bytes) -> None:
    monkeypatch.setattr(exchange, "_MAX_BODY_BYTES", 3_000)
    pieces = [b"%x\r\n%s\r\n" % (len(piece), piece)] * 60
    async with raw_server([HEAD % b"", *pieces]) as server:
        provider = kind.from_key("k", base_url=server.url, timeouts=Timeouts(stall=20, reasoning_stall=20))
        error = await asked(provider.model("m"))
        assert (error.kind, error.retryable) == ("protocol", False)
        assert "3,000 bytes" in str(error)
        await provider.aclose()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


DEEP = (  # JSON that Python reads, and what is made of it is deeper than it goes
    (Anthropic, '{"type": "content_block_start", "content_block": {"type": "tool_use", "input": {"a": %s}}}'),
    (OpenAI, '{"type": "response.completed", "response": {"output": [{"type": "function_call", "caller": %s}]}}'),
    (OpenAICompatible, '{"choices": [{"delta": {"content": "x", "annotations": [%s]}, "finish_reason": "stop"}]}'),
    (
        Google,
        '{"candidates": [{"content": {"parts": [{"functionCall": {"args": {"a": %s}}}]}, "finishReason": "STOP"}]}',
    ),
)


@pytest.mark.parametrize(("kind", "event"), DEEP, ids=lambda value: getattr(value, "__name__", ""))
async def test_deeply_nested_answer_is_refused(raw_server, kind, event: str) -> None:
    end = 'data: {"type": "message_stop"}\n\n' if kind is Anthropic else "data: [DONE]\n\n"
    body = f"data: {event % nested(700)}\n\n{end}".encode()
    async with raw_server([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body]) as server:
        provider = kind.from_key("k", base_url=server.url)
        error = await asked(provider.model("m"))
        assert (error.kind, error.retryable, error.sent) == ("protocol", False, True)
        assert "nested too deeply" in str(error)
        await provider.aclose()


@pytest.mark.parametrize("path", ["$" + ".a" * 3_000, f"$.a[{'9' * 5_000}]"], ids=["steps", "index"])
async def test_path_to_nowhere_is_no_own_fault(raw_server, path: str) -> None:
    call = {"name": "f", "partialArgs": [{"jsonPath": path, "stringValue": "x"}]}
    event = {"candidates": [{"content": {"parts": [{"functionCall": call}]}, "finishReason": "STOP"}]}
    body = f"data: {json.dumps(event)}\n\n".encode()
    async with raw_server([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body]) as server:
        provider = Google.from_key("k", base_url=server.url)
        model = provider.model("m")
        if "[" in path:
            *_, reply = [item async for item in model.stream(Request("c", [user("hi")]))]
            assert isinstance(reply, Reply)
            assert as_array(reply.message.calls[0].arguments["a"]) == ("x",)
        else:
            assert (await asked(model)).kind == "protocol"
        await provider.aclose()


PINGS = (
    b'event: ping\ndata: {"type": "ping"}\n\n' * 3,
    b": still here\n\n" * 7,
    b'data: {"type": "ping"}\n\n: un',
)


@pytest.mark.parametrize("way", ["direct", "sdk"])
@pytest.mark.parametrize("piece", PINGS, ids=["pings", "comments", "halves"])
async def test_endless_pings_are_left_at_bound(raw_server, monkeypatch, piece: bytes, way) -> None:
    if way == "sdk":
        pytest.importorskip("httpx2")
    monkeypatch.setattr(exchange, "_MAX_EMPTY_BYTES", 3_000)
    async with raw_server([HEAD % b"", *[b"%x\r\n%s\r\n" % (len(piece), piece)] * 300]) as server:
        provider = Anthropic.from_key("k", base_url=server.url, transport=way, timeouts=Timeouts(20, 20))
        error = await asked(provider.model("m"))
        assert (error.kind, error.retryable) == ("protocol", False)
        await provider.aclose()


async def test_pings_between_text_are_unbounded(monkeypatch) -> None:
    """Nor has an event of many pieces, such as a picture."""
    monkeypatch.setattr(exchange, "_MAX_EMPTY_BYTES", 3_000)
    turn = Turn(text="word " * 400, pieces=5)
    async with FakeProviderServer([turn], wire=Wire(chunks=100, comment="c" * 150)) as server:
        provider = Anthropic.from_key("k", base_url=server.url)
        *_, reply = [item async for item in provider.model("m").stream(Request("c", [user("hi")]))]
        assert isinstance(reply, Reply)
        assert reply.message.content == turn.text
        await provider.aclose()


async def test_little_is_read_after_error_or_reply() -> None:
    """However many bytes the next ones stand for."""
    read = 0

    async def bomb() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(50):
            read += 1_000_000
            yield bytes(1_000_000)

    async def nothing() -> None: ...

    assert len(await exchange._rest(Answer(200, {}, bomb(), nothing))) == exchange.MAX_ERROR_BYTES
    assert read == 1_000_000


EMPTY_PARTS = (
    (MessagesReplyReader(ORIGIN), {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}}),
    (
        ChatReplyReader(ORIGIN, "chat"),
        {"choices": [{"delta": {"tool_calls": [{"id": "A", "function": {"name": "f"}}]}}]},
    ),
    (GenerateReplyReader(ORIGIN), {"candidates": [{"content": {"parts": [{"x": 1}] * 5}}]}),
    (ResponsesReplyReader(ORIGIN, "r"), {"type": "response.output_item.added", "item": {"type": "x"}}),
)


@pytest.mark.parametrize(("reader", "event"), EMPTY_PARTS)
def test_empty_parts_have_a_bound(monkeypatch, reader: ReplyReader, event: dict) -> None:
    monkeypatch.setattr(reply, "MAX_PARTS", 20)

    def flood() -> None:
        for number in range(30):
            reader.feed(json.loads(json.dumps(event).replace("A", f"call_{number}")), [])

    with pytest.raises(ModelError, match="more than 20 parts"):
        flood()


def test_each_image_is_compared_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway may repeat what it has drawn in each chunk, and never end."""
    compared, reader = [], ChatReplyReader(ORIGIN, "chat")
    monkeypatch.setattr(Image, "__eq__", lambda one, other: compared.append(other) or one.data == other.data)
    addresses = [f"data:image/png;base64,{b64encode(b'%d' % (number % 300)).decode()}" for number in range(600)]
    for address in addresses:
        drawn = [{"type": "image_url", "image_url": {"url": address}}]
        reader.feed({"choices": [{"index": 0, "delta": {"images": drawn}}]}, [])
    assert [part.data for part in reader.message().parts if isinstance(part, Image)] == [b"%d" % n for n in range(300)]
    assert len(compared) < 3_000


def test_citations_are_bounded() -> None:
    reader = ChatReplyReader(ORIGIN, "chat")
    for number in range(0, 2_000, 100):
        cited = [{"n": number + each} for each in range(100)]
        reader.feed({"choices": [{"delta": {"content": "x", "annotations": cited}}]}, [])
    (part,) = reader.message().parts
    assert isinstance(part, Text)
    assert part.private
    assert len(as_array(as_object(part.private.data)["annotations"])) == 1_000


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_inflated_bytes_come_in_pieces(encoding: str) -> None:
    compress = gzip.compress if encoding == "gzip" else pytest.importorskip("brotli").compress

    async def bomb() -> AsyncIterator[bytes]:
        yield compress(bytes(5_000_000))
        yield b"trailing" * 9

    sizes = [len(piece) async for piece in inflated(bomb(), encoding)]
    assert sum(sizes) == 5_000_000
    assert max(sizes) <= 1024 * 1024


@pytest.mark.parametrize("kind", [Anthropic, OpenAI, Google])
async def test_sdk_error_reading_is_bounded(raw_server, kind) -> None:
    """Whole, an SDK reads it by itself, however long it is."""
    pytest.importorskip("httpx2")
    head = b"HTTP/1.1 400 Bad Request\r\nx-should-retry: false\r\ncontent-length: 10000000\r\n\r\n"
    async with raw_server([head, b"so it is " * 10_000]) as server:  # and then silence
        provider = kind.from_key("k", base_url=server.url, transport="sdk")
        error = await asked(provider.model("m"))
        assert (error.status, error.kind) == (400, "invalid_request")
        await provider.aclose()


@pytest.mark.parametrize("kind", [Anthropic, OpenAI, Google])
async def test_sdk_inflates_only_known_encodings(raw_server, kind) -> None:
    pytest.importorskip("httpx2")
    packed = gzip.compress(zlib.compress(b"data: {}\n\n"))
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate, gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
    async with raw_server([head + packed]) as server:
        provider = kind.from_key("k", base_url=server.url, transport="sdk")
        error = await asked(provider.model("m"))
        assert "encoded as 'deflate, gzip'" in str(error)
        await provider.aclose()


def test_groq_tool_finds_are_no_output() -> None:
    """Its thoughts repeat it, however much it is: the answer is honest."""
    for model, most in (("groq/compound", 8), ("qwen/qwen3-32b", 100)):
        reader = ChatReplyReader(Origin("groq", model, "", ""), "chat")
        found = "<output>" + "word " * 2_000 + "</output>"
        reader.feed({"choices": [{"delta": {"reasoning": found}}]}, [])
        reader.feed({"choices": [{"delta": {"content": "It is so."}}]}, [])
        assert (reader.least_tokens <= most) == (model == "groq/compound")


@pytest.mark.parametrize(
    ("reader", "event"),
    [
        (ChatReplyReader(ORIGIN, "chat"), {"choices": [{"index": 1, "delta": {"content": "one two "}}]}),
        (GenerateReplyReader(ORIGIN), {"candidates": [{"index": 1, "content": {"parts": [{"text": "one two "}]}}]}),
    ],
)
def test_unasked_text_counts_to_limit(reader: ReplyReader, event: dict) -> None:
    for _ in range(10):
        reader.feed(event, [])
    assert reader.least_tokens == 20
    assert reader.message().content == ""


@pytest.mark.parametrize(("said", "counted"), [(b"true", None), (b"-5", None), (b"NaN", None), (b"100", 358)])
async def test_token_count_reply_is_read_strictly(raw_server, said: bytes, counted: int | None) -> None:
    body = b'{"input_tokens": %s}' % said
    async with raw_server([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body]) as server:
        provider = Anthropic.from_key("k", base_url=server.url)
        assert await provider.model("m").count_tokens(Request("c", [user("hi")])) == counted
        await provider.aclose()
