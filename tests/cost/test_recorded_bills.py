"""Recorded bills of real calls: our price of the usage as reported equals the library's price of the raw response."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from genai_prices import extract_usage

from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.usage import Charge, Usage

RECORDINGS = Path(__file__).parents[3] / "shared" / "wire" / "dev"
pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings on this machine")


def replies(provider: str):
    """(flavour, body) of every reply that came as one JSON object and tells its usage."""
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            if f'"provider":"{provider}"'.encode() not in line:
                continue
            exchange = json.loads(line)
            flavour = {
                "anthropic.messages": "default",
                "openai.chat": "chat",
                "openai.responses": "responses",
            }.get(exchange["endpoint"])
            body = exchange["response"].get("body")
            if isinstance(body, str) and body.lstrip().startswith("{"):
                body = json.loads(body)
            if (
                exchange["provider"] == provider
                and flavour
                and isinstance(body, dict)
                and isinstance(body.get("usage"), dict)
            ):
                yield flavour, body


def anthropic_usage(raw: dict) -> Usage:
    written, hourly = raw.get("cache_creation_input_tokens") or 0, raw.get("cache_creation") or {}
    hour = hourly.get("ephemeral_1h_input_tokens") or 0
    return Usage(
        input=raw["input_tokens"],
        cache_read=raw.get("cache_read_input_tokens") or 0,
        cache_write=written - hour,
        cache_write_1h=hour,
        output=raw["output_tokens"],
    )


def openai_usage(raw: dict) -> Usage:
    names = ("prompt_tokens", "completion_tokens") if "prompt_tokens" in raw else ("input_tokens", "output_tokens")
    details = raw.get(f"{names[0]}_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    return Usage(input=raw[names[0]] - read - written, cache_read=read, cache_write=written, output=raw[names[1]])


@pytest.mark.parametrize(
    ("provider", "read", "at_least"), [("anthropic", anthropic_usage, 120), ("openai", openai_usage, 150)]
)
def test_our_price_is_the_librarys_to_the_last_digit(provider, read, at_least):
    book, compared = PriceBook(), 0
    for flavour, body in replies(provider):
        if (body["usage"].get("server_tool_use") or {}).get("web_search_requests"):
            continue  # a fee per search, which is no token
        try:
            expected = extract_usage(body, provider_id=provider, api_flavor=flavour).calc_price().total_price
        except LookupError:
            assert book.price(provider, body["model"], read(body["usage"])) is None, body["model"]
            continue
        assert book.price(provider, body["model"], read(body["usage"])) == expected, body["model"]
        compared += 1
    assert compared >= at_least


async def test_a_reported_cost_is_what_the_ledger_counts():
    reported = [
        (body["model"], openai_usage(body["usage"]), Decimal(repr(body["usage"]["cost"])))
        for flavour, body in replies("openrouter")
        if flavour == "chat" and isinstance(body["usage"].get("cost"), int | float)
    ]
    assert len(reported) > 100
    ledger = Ledger(None, PriceBook())
    for model, usage, usd in reported:
        with await ledger.reserve("root", "executor", "openrouter", model, 1, None) as reservation:
            reservation.settle([Charge(model, usage, usd=usd)])
    assert ledger.totals().total == sum(usd for _, _, usd in reported)
    assert not ledger.totals().unpriced
