"""Images that a model makes: how they arrive, what they cost, and what is said of them later."""

import base64
import hashlib
import json
from collections.abc import Callable
from contextlib import aclosing
from decimal import Decimal
from typing import Any

import pytest

from sagent.cost.prices import PriceBook
from sagent.lib.json import json_thaw
from sagent.messages import Image, Message, Text, user
from sagent.model import Reply, Request
from sagent.providers.registry import provider_named
from sagent.testing.model_suite import collect
from sagent.usage import Usage
from tests.cost.bounds import bound_of

DATA = b"\x89PNG\r\n\x1a\nnot really one"
URL = f"data:image/png;base64,{base64.b64encode(DATA).decode()}"
PART = {"type": "image_url", "image_url": {"url": URL}}
COUNTS = {"prompt_tokens": 10, "completion_tokens": 1_300, "total_tokens": 1_310}


def streamed(*chunks: object) -> list[bytes]:
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    return [b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body), body]


def chunk(reason: str | None = None, **delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


async def answered(raw_server: Callable[..., Any], provider: str, model: str, answer: list[bytes]) -> tuple[Reply, Any]:
    """The reply, and the body of the request that follows it."""
    async with raw_server(answer) as server:
        opened: Any = provider_named(provider, key="k" * 8, base_url=server.url)
        async with aclosing(opened):
            _, reply = await collect(opened.model(model), Request("c", (user("Draw a cat."),)))
            following: tuple[Message, ...] = (user("Draw a cat."), reply.message, user("Thanks."))
            await collect(opened.model(model), Request("c", following))
        return reply, json.loads(server.requests[1].partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize(
    "deltas",
    [
        [{"content": "Here."}, {"images": [PART]}],
        [{"content": "Here."}, {"images": [PART]}, {"images": [PART]}],
        [{"content": [{"type": "text", "text": "Here."}, PART]}],
        [{"content": "Here."}, {"images": [{"type": "image_url", "image_url": URL}]}],
    ],
)
async def test_chat_completions_image(raw_server: Callable[..., Any], deltas: list[dict[str, Any]]) -> None:
    chunks = [*(chunk(**delta) for delta in deltas), {**chunk("stop"), "usage": COUNTS}]
    reply, body = await answered(raw_server, "openrouter", "google/gemini-3-pro-image", streamed(*chunks))
    assert reply.message.parts == (Text("Here."), Image("image/png", DATA))
    assert reply.notes == (f"the answer's image is kept with the session as {hashlib.sha256(DATA).hexdigest()}",)
    assert body["messages"][1] == {"role": "assistant", "content": "Here.[image/png]"}


async def test_image_only_answer(raw_server: Callable[..., Any]) -> None:
    chunks = [chunk(content=""), chunk(images=[PART])]  # nor does it say that it ends, but for [DONE]
    reply, body = await answered(raw_server, "openai-compatible", "m", streamed(*chunks))
    assert reply.message.parts == (Image("image/png", DATA),)
    assert body["messages"][1]["content"] == "[image/png]"


async def test_image_elsewhere_is_its_address(raw_server: Callable[..., Any]) -> None:
    answer = streamed(chunk(images=[{"image_url": {"url": "https://a/cat.png"}}]), chunk("stop"))
    reply, _ = await answered(raw_server, "openai-compatible", "m", answer)
    assert reply.message.parts == (Text("https://a/cat.png"),)


@pytest.mark.parametrize(
    "url",
    ["data:text/plain;base64,eA==", "data:image/png;base64,e", "data:image/p\x1bng;base64,eA==", "data:image/png"],
)
async def test_non_image_is_kept_with_text(raw_server: Callable[..., Any], url: str) -> None:
    answer = streamed(chunk(content="Here."), chunk(images=[{"image_url": {"url": url}}]), chunk("stop"))
    reply, _ = await answered(raw_server, "openai-compatible", "m", answer)
    (text,) = reply.message.parts
    assert isinstance(text, Text)
    assert text.text == "Here."
    assert text.private is not None
    assert json_thaw(text.private.data) == {"parts": [{"image_url": {"url": url}}]}


@pytest.mark.parametrize(
    ("model", "rates"),
    [("gemini-2.5-flash-image", ("0.3", "2.5", "30")), ("gemini-3-pro-image-preview", ("2", "12", "120"))],
)
async def test_gemini_images_billed_at_image_price(
    raw_server: Callable[..., Any], model: str, rates: tuple[str, str, str]
) -> None:
    details = [{"modality": "IMAGE", "tokenCount": 1_290}]
    counts = {"promptTokenCount": 5, "candidatesTokenCount": 1_300, "candidatesTokensDetails": details}
    part = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(DATA).decode()}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    answer = streamed({"candidates": [candidate], "usageMetadata": counts})
    reply, _ = await answered(raw_server, "google", model, answer)
    (charge,) = reply.charges
    assert charge.usage.fees == {"image_output": 1_290}
    sums = (count * Decimal(rate) for count, rate in zip((5, 10, 1_290), rates, strict=True))
    assert PriceBook().bill("google", charge) == sum(sums) / 1_000_000


def test_reservation_covers_image_only_answer() -> None:
    book, model = PriceBook(), "gemini-3-pro-image-preview"
    drawn = Usage(output=1_000, fees={"image_output": 1_000})
    assert bound_of(book, "google", model, 0, 1_000) == book.price("google", model, drawn) == Decimal("0.12")


def test_unpriced_image_model_has_no_bound() -> None:
    model = "google/gemini-3-pro-image-preview"
    assert bound_of(PriceBook(), "openrouter", model, 0, 1_000) is None
    own = PriceBook({f"openrouter/{model}": {"input": 2, "output": 12, "image_output": 120}})
    assert bound_of(own, "openrouter", model, 0, 1_000) == Decimal("0.24")  # hosts differ there: twice the list


def test_unpriced_image_is_not_billed_as_text() -> None:
    drawn = Usage(output=1_000, fees={"image_output": 1_000})
    assert PriceBook().price("google", "gemini-3.8-flash", drawn) is None
    assert PriceBook({"house/pen": {"input": 1, "output": 2, "image_output": 20}}).price(
        "house", "pen", drawn
    ) == Decimal("0.02")
