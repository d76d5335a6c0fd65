"""Recordings: on each wire that has them, what they may cost, who takes none; and answers that are spoken."""

import base64
import hashlib
import io
import json
import wave
from collections.abc import Callable
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sagent.cost.prices import PriceBook
from sagent.lib.json import as_array, as_object, json_freeze_object
from sagent.messages import Document, Message, assistant, user
from sagent.model import Request
from sagent.providers import OpenAICompatible
from sagent.providers.registry import infer, provider_named
from sagent.providers.rows import Row, read_rows
from sagent.repl.project import attach
from sagent.testing.model_suite import collect, failure
from sagent.testing.script import Turn
from sagent.testing.server import FakeProviderServer
from sagent.tools.media import media_in
from sagent.usage import Usage
from tests.cost.bounds import bound_of


def recording(seconds: int = 2) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8_000)
        out.writeframes(bytes(16_000 * seconds))
    return file.getvalue()


WAV = recording()
TALK = Document("audio/wav", WAV, "talk.wav")
MP3 = Document("audio/mpeg", (b"\xff\xfb\x90\xc4" + bytes(413)) * 100, "talk.mp3")


def request(*messages: Message, conversation: str = "talk") -> Request:
    return Request(conversation, messages)


async def sent(provider: str, model: str, *messages: Message, rows: dict[str, Row] | None = None) -> Any:
    """The body of a request, as the provider gets it."""
    async with FakeProviderServer([Turn("x")]) as server:
        opened: Any = provider_named(provider, key="k" * 8, base_url=server.url, rows=rows)
        async with aclosing(opened):
            await collect(opened.model(model), request(*messages))
        return server.requests[0].json


@pytest.mark.parametrize(
    ("provider", "model"), [("openai-chat", "gpt-audio"), ("openrouter", "google/gemini-3.8-flash")]
)
@pytest.mark.parametrize(("part", "name"), [(TALK, "wav"), (MP3, "mp3")], ids=["wav", "mp3"])
async def test_chat_hears_as_openai_has_it(provider: str, model: str, part: Document, name: str) -> None:
    body = await sent(provider, model, user("What is said?", part))
    heard = {"data": base64.b64encode(part.data).decode(), "format": name}
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "What is said?"},
        {"type": "input_audio", "input_audio": heard},
    ]


@pytest.mark.parametrize(("part", "kind"), [(TALK, "audio/wav"), (MP3, "audio/mp3")], ids=["wav", "mp3"])
async def test_gemini_hears_it_inline(part: Document, kind: str) -> None:
    body = await sent("google", "gemini-3.8-flash", user("What is said?", part))
    data = base64.b64encode(part.data).decode()
    assert body["contents"][0]["parts"][1] == {"inlineData": {"mimeType": kind, "data": data}}


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-5-5"),
        ("openai", "gpt-5.6-terra"),
        ("openai-chat", "gpt-5.6-terra"),
        ("openrouter", "anthropic/claude-sonnet-5-5"),
        ("groq", "gpt-oss-120b"),
        ("google", "gemma-4-31b-it"),
    ],
)
async def test_deaf_model_is_not_sent_audio(provider: str, model: str) -> None:
    """And what the model has answered already, or another one has, is there in words."""
    async with FakeProviderServer([Turn("x")]) as server:
        opened: Any = provider_named(provider, key="k" * 8, base_url=server.url)
        async with aclosing(opened):
            _, failed = await failure(opened.model(model), request(user("What is said?", TALK)))
            assert not server.requests
            older = user("What is said?", TALK), assistant("Hello."), user("Thanks.")
            await collect(opened.model(model), request(*older))
        body = json.dumps(server.requests[0].json)
    assert (failed.kind, failed.retryable) == ("invalid_request", False)
    assert "talk.wav was not sent" in str(failed)
    assert "recordings" in str(failed)
    assert f"[providers.{provider}]" in str(failed)
    if provider != "google":  # where only Gemma takes none
        assert "[talk.wav: audio/wav, " in body
        assert base64.b64encode(WAV[:300]).decode() not in body


async def test_refused_audio_is_not_remembered() -> None:
    """Whoever asks something else next is answered; a job's word in between changes nothing."""
    async with FakeProviderServer([Turn("x")]) as server:
        opened: Any = provider_named("anthropic", key="k" * 8, base_url=server.url)
        async with aclosing(opened):
            model = opened.model("claude-sonnet-5-5")
            _, failed = await failure(model, request(user("?", TALK), user("It is done.", sender="job:1")))
            await collect(model, request(user("?", TALK), user("Never mind: hello.")))
    assert failed.kind == "invalid_request"
    assert "[talk.wav: audio/wav, " in json.dumps(server.requests[0].json)


async def test_advisor_is_sent_no_audio(tmp_path: Path) -> None:
    async with FakeProviderServer([Turn("x")]) as server:
        opened: Any = provider_named("anthropic", key="k" * 8, base_url=server.url)
        async with aclosing(opened):
            asked = request(user("What is said?", TALK), conversation="s:root:advisor:main:0")
            await collect(opened.model("claude-sonnet-5-5"), asked)
    assert "[talk.wav: audio/wav, " in json.dumps(server.requests[0].json)


async def test_person_may_say_a_model_hears() -> None:
    rows = read_rows({"house": {"base_url": "http://127.0.0.1:1", "abilities": [{"of": "ear-", "audio": True}]}}, "x")
    body = await sent("house", "ear-1", user("?", TALK), rows=dict(rows))
    assert [block["type"] for block in body["messages"][0]["content"]] == ["text", "input_audio"]


async def test_models_of_one_provider_differ() -> None:
    """Each has its own bytes of the conversation that they share."""
    async with FakeProviderServer([Turn("x")] * 3) as server:
        opened: Any = provider_named("openrouter", key="k" * 8, base_url=server.url)
        async with aclosing(opened):
            talk = [user("?", TALK)]
            for model in ("google/gemini-3.8-flash", "openai/gpt-5.5", "google/gemini-3.8-flash"):
                _, reply = await collect(opened.model(model), request(*talk))
                talk += [reply.message, user("go on")]
    kinds = [as_array(as_object(asked.json)["messages"]) for asked in server.requests]
    first = [as_object(messages[0])["content"] for messages in kinds]
    assert isinstance(first[1], str)
    assert first[0] == first[2] != first[1]


class TestCost:
    @pytest.mark.parametrize("seconds", [1, 60])
    @pytest.mark.parametrize(
        ("provider", "model", "tokens"),
        [("google", "gemini-2.5-flash", 32), ("openai-chat", "gpt-audio", 10), ("openai-chat", "gpt-audio-mini", 10)],
    )
    def test_reservation_covers_audio_price(self, seconds: int, provider: str, model: str, tokens: int) -> None:
        """At the tokens for a second that each documents."""
        opened: Any = provider_named(provider, key="k" * 8)
        heard = Document("audio/wav", recording(seconds), "a.wav")
        bound = opened.model(model).max_input_tokens(request(user("?", heard)))
        book = PriceBook()
        held = bound_of(book, provider, model, bound, 0)
        billed = book.price(provider, model, Usage(input=tokens * seconds, fees={"audio_input": tokens * seconds}))
        assert held is not None
        assert billed is not None
        assert billed < held
        assert bound < 1_500 + 256 * seconds  # and not by its bytes

    async def test_chat_bills_sound_at_its_price(self, raw_server: Callable[..., Any]) -> None:
        usage = {
            "prompt_tokens": 1_100,
            "completion_tokens": 150,
            "prompt_tokens_details": {"audio_tokens": 1_000},
            "completion_tokens_details": {"audio_tokens": 100},
        }
        body = {
            "choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}],
            "usage": usage,
        }
        data = json.dumps(body).encode()
        answer = [b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data), data]
        async with raw_server(answer) as server:
            provider = OpenAICompatible.from_key("k" * 8, base_url=server.url)
            async with aclosing(provider):
                _, reply = await collect(provider.model("gpt-audio"), request(user("hi")))
        (charge,) = reply.charges
        assert charge.usage == Usage(input=1_100, output=150, fees={"audio_input": 1_000, "audio_output": 100})
        assert charge.usage.total_input == 1_100
        expected = Decimal(100 * Decimal("2.5") + 1_000 * 32 + 50 * 10 + 100 * 64) / 1_000_000
        assert PriceBook().bill("openai-chat", charge) == expected

    async def test_gemini_bills_sound_at_its_price(self, raw_server: Callable[..., Any]) -> None:
        counts = {
            "promptTokenCount": 1_000,
            "cachedContentTokenCount": 400,
            "candidatesTokenCount": 10,
            "promptTokensDetails": [
                {"modality": "TEXT", "tokenCount": 200},
                {"modality": "AUDIO", "tokenCount": 800},
            ],
            "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 300}, {"modality": "TEXT", "tokenCount": 100}],
        }
        content = {"role": "model", "parts": [{"text": "x"}]}
        body = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": counts}
        data = json.dumps(body).encode()
        answer = [b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data), data]
        async with raw_server(answer) as server:
            opened: Any = provider_named("google", key="k" * 8, base_url=server.url)
            async with aclosing(opened):
                _, reply = await collect(opened.model("gemini-2.5-flash"), request(user("hi")))
        (charge,) = reply.charges
        assert charge.usage.fees == {"audio_input": 500, "audio_cache_read": 300}
        sums = (100 * Decimal("0.3"), 500 * 1, 100 * Decimal("0.03"), 300 * Decimal("0.1"), 10 * Decimal("2.5"))
        assert PriceBook().bill("google", charge) == sum(sums) / 1_000_000

    def test_unpriced_sound_costs_as_text(self) -> None:
        heard, read = Usage(input=100, fees={"audio_input": 100}), Usage(input=100)
        assert PriceBook().price("google", "gemini-3.8-flash", heard) == PriceBook().price(
            "google", "gemini-3.8-flash", read
        )

    def test_person_may_price_audio(self) -> None:
        book = PriceBook({"house/ear": {"input": 1, "output": 2, "audio_input": 11, "audio_output": 1}})
        usage = Usage(input=10, output=10, fees={"audio_input": 10, "audio_output": 10})
        assert book.price("house", "ear", usage) == Decimal("0.00013")  # never less than as text


class TestFiles:
    @pytest.mark.parametrize(("part", "name"), [(TALK, "talk.wav"), (MP3, "talk.mp3")])
    def test_mention_attaches_recording(self, part: Document, name: str, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(part.data)
        assert attach(f"What is said in @{name}?", tmp_path) == ([part], [])

    def test_too_long_recording_is_refused(self) -> None:
        with pytest.raises(ValueError, match="14 MB"):
            media_in(recording(900), "talk.wav")

    def test_broken_recording_is_not_attached(self, tmp_path: Path) -> None:
        (tmp_path / "talk.wav").write_bytes(WAV[:20] + bytes(20))
        parts, wrong = attach("@talk.wav", tmp_path)
        assert not parts
        assert "a recording (WAV, MP3)" in wrong[0]


def test_alias_points_to_hearing_api() -> None:
    assert infer("gpt-audio-mini") == "openai-chat"
    assert infer("gpt-5.5") == "openai"


def spoken(*pieces: bytes, words: str = "Hello there.") -> list[bytes]:
    """A streamed answer as OpenAI has it with modalities ["text", "audio"]: an id, words and sound in pieces."""
    half = len(words) // 2
    deltas: list[dict[str, Any]] = [{"role": "assistant", "audio": {"id": "audio_1", "transcript": words[:half]}}]
    deltas += [{"audio": {"data": base64.b64encode(piece).decode()}} for piece in pieces]
    deltas += [{"audio": {"transcript": words[half:]}}, {"audio": {"expires_at": 1_795_000_000}}]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    return [b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body), body]


class TestSpoken:
    async def answered(self, raw_server: Callable[..., Any], answer: list[bytes]) -> tuple[list[Any], Any, Any]:
        async with raw_server(answer) as server:
            opened: Any = provider_named("openai-chat", key="k" * 8, base_url=server.url)
            async with aclosing(opened):
                options = json_freeze_object(
                    {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "pcm16"}}
                )
                deltas, reply = await collect(
                    opened.model("gpt-audio"), Request("talk", (user("Say hello."),), options=options)
                )
                again = Request("talk", (user("Say hello."), reply.message, user("Again.")), options=options)
                await collect(opened.model("gpt-audio"), again)
            bodies = [json.loads(sent.partition(b"\r\n\r\n")[2]) for sent in server.requests]
        return deltas, reply, bodies

    async def test_spoken_answer_gives_text_and_file(self, raw_server: Callable[..., Any]) -> None:
        samples = bytes(range(250)) * 96  # half a second
        deltas, reply, bodies = await self.answered(raw_server, spoken(samples[:7_001], samples[7_001:]))
        assert "".join(getattr(delta, "text", "") for delta in deltas) == "Hello there."
        text, sound = reply.message.parts
        assert (text.text, sound.media_type, sound.name) == ("Hello there.", "audio/wav", "answer.wav")
        with wave.open(io.BytesIO(sound.data)) as file:
            assert (file.getframerate(), file.getnchannels(), file.readframes(100_000)) == (24_000, 1, samples)
        assert reply.notes == (
            f"the answer's sound, answer.wav, is kept with the session as {hashlib.sha256(sound.data).hexdigest()}",
        )
        assert bodies[0]["modalities"] == ["text", "audio"]
        assert bodies[1]["messages"][1] == {"role": "assistant", "content": "Hello there."}

    async def test_spoken_answer_keeps_its_format(self, raw_server: Callable[..., Any]) -> None:
        _, reply, _ = await self.answered(raw_server, spoken(MP3.data))
        assert reply.message.parts[1] == Document("audio/mpeg", MP3.data, "answer.mp3")

    async def test_broken_audio_is_an_error(self, raw_server: Callable[..., Any]) -> None:
        answer = spoken(b"x")
        answer = [answer[0], answer[1].replace(b'"data": "eA=="', b'"data": "e!!A="')]
        async with raw_server(answer) as server:
            opened: Any = provider_named("openai-chat", key="k" * 8, base_url=server.url)
            async with aclosing(opened):
                _, failed = await failure(opened.model("gpt-audio"), request(user("Say hello.")))
        assert failed.kind == "protocol"

    async def test_sound_is_no_silence(self, raw_server: Callable[..., Any]) -> None:
        """However much of it comes between two words."""
        _, reply, _ = await self.answered(raw_server, spoken(*(bytes(1_000_000) for _ in range(6))))
        assert len(reply.message.parts[1].data) == 6_000_044
