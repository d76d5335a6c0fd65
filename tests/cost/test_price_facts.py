"""Prices as their providers list them (looked up on 2026-11-20), in figures: what naive readers bill wrong, or at 0."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sagent.providers
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.cost.tariff import Ceiling, cost, read_tariff
from sagent.usage import Charge, Usage
from tests.cost.bounds import bound_of

BOOK = PriceBook()
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
K = 1_000


def usd(name: str, at: datetime = NOON, tier: str = "", **tokens: int) -> Decimal:
    provider, _, model = name.partition("/")
    price = BOOK.price(provider, model, Usage(**tokens), at, tier)  # pyright: ignore[reportArgumentType]
    assert price is not None, name
    return price


@pytest.mark.parametrize(
    ("name", "fresh", "output", "read", "window"),  # USD per million tokens
    [
        ("anthropic/claude-opus-4-6", "5", "25", "0.5", 1_000_000),
        ("anthropic/claude-sonnet-4-6", "3", "15", "0.3", 1_000_000),
        ("anthropic/claude-opus-5-5", "4", "20", "0.2", 1_000_000),
        ("anthropic/claude-sonnet-5-5", "2", "10", "0.1", 1_000_000),
        ("anthropic/claude-haiku-5-5", "0.1", "0.5", "0.01", 1_000_000),
        ("anthropic/claude-fable-5-2", "8", "40", "0.2", 1_000_000),
        ("openai/gpt-5.5", "5", "30", "0.5", 1_000_000),
        ("openai/gpt-5.6-terra", "2", "12", "0.2", 1_050_000),
        ("openai/gpt-5.6-luna", "0.2", "1.2", "0.02", 1_050_000),
        ("openai/gpt-5.6-sol", "4", "20", "0.4", 1_050_000),
        ("google/gemini-3.1-pro-preview", "2", "12", "0.2", 1_048_576),
        ("moonshot/kimi-k2.6", "0.95", "4", "0.16", 262_144),
        ("moonshot/kimi-k3", "3", "15", "0.3", 1_048_576),
        ("dashscope/qwen3.6-plus", "0.5", "3", "0.1", 1_000_000),
        ("minimax/MiniMax-M2.7", "0.3", "1.2", "0.06", 204_800),
        ("deepseek/deepseek-v4-flash", "0.15", "0.6", "0.003", 1_000_000),
        ("deepseek/deepseek-v4-pro", "0.66", "1.98", "0.022", 1_000_000),
        ("zai/glm-5.2", "1.4", "4.4", "0.26", 1_000_000),
        ("xai/grok-4.3", "1.25", "2.5", "0.2", 1_000_000),
        ("mistral/mistral-large-latest", "0.5", "1.5", "0.05", 262_144),
    ],
)
def test_listed_prices(name: str, fresh: str, output: str, read: str, window: int) -> None:
    found = [usd(name, **{bucket: 10 * K}) * 100 for bucket in ("input", "output", "cache_read")]  # pyright: ignore[reportArgumentType]
    assert found == [Decimal(fresh), Decimal(output), Decimal(read)]
    provider, _, model = name.partition("/")
    assert [row.window for row in BOOK.known_models(provider) if row.id.lower() == model.lower()] == [window]


@pytest.mark.parametrize(
    ("name", "tokens", "expected"),
    [
        ("google/gemini-3.1-pro-preview", {"input": 150 * K}, "0.3"),
        ("google/gemini-3.1-pro-preview", {"input": 250 * K}, "1"),
        ("openai/gpt-5.5", {"input": 200 * K}, "1"),
        ("openai/gpt-5.5", {"input": 272 * K}, "1.36"),
        ("openai/gpt-5.5", {"input": 300 * K}, "3"),
        ("openai/gpt-5.5", {"input": 300 * K, "output": K}, "3.045"),
        ("openai/gpt-5.5", {"input": 80 * K, "cache_read": 200 * K}, "1"),  # the cached tokens make it a long one
        ("anthropic/claude-sonnet-4-5", {"input": 150 * K}, "0.45"),
        ("anthropic/claude-sonnet-4-5", {"input": 250 * K}, "1.5"),
        ("anthropic/claude-sonnet-4-6", {"input": 250 * K}, "0.75"),
        ("anthropic/claude-haiku-5-5", {"input": 100 * K, "output": K}, "0.0105"),
        ("anthropic/claude-haiku-5-5", {"input": 50 * K, "cache_write": 60 * K, "output": K}, "0.065"),
        ("anthropic/claude-opus-4-6", {"cache_write": 100 * K}, "0.625"),
        ("anthropic/claude-opus-4-6", {"cache_write_1h": 100 * K}, "1"),
        ("openai/gpt-5.5", {"cache_write": 100 * K}, "0.5"),  # OpenAI bills writes from 5.6 on
        ("openai/gpt-5.6-terra", {"cache_write": 100 * K}, "0.25"),
        ("dashscope/qwen3-max", {"input": 10 * K}, "0.012"),  # 0 in a list that keeps its prices in the tiers only
        ("dashscope/qwen3-max", {"input": 200 * K}, "0.6"),
        ("zai/glm-4.7-flash", {"input": 10 * K, "output": 10 * K}, "0.0047"),
        ("openrouter/google/gemini-3.1-pro-preview-20260219", {"input": 150 * K}, "0.3"),  # a dated preview
    ],
)
def test_price_band_of_whole_input_counts(name: str, tokens: dict[str, int], expected: str) -> None:
    assert usd(name, **tokens) == Decimal(expected)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("clock", "factor"),
    [("00:59", 1), ("01:00", 2), ("03:59", 2), ("04:00", 1), ("05:59", 1), ("06:00", 2), ("09:59", 2), ("10:00", 1)],
)
@pytest.mark.parametrize("model", ["deepseek-v4-flash", "deepseek-v4-pro"])
async def test_deepseek_doubles_by_request_time(model: str, clock: str, factor: int) -> None:
    """Of the request: a bill that comes after the hour has the price from before."""
    tokens = Usage(input=900, cache_read=90, output=70)
    plain = BOOK.price("deepseek", model, tokens, NOON)
    assert plain
    ledger = Ledger(None, BOOK)
    with await ledger.reserve("root", "executor", "deepseek", model, 1_000, 100) as reservation:
        reservation.at = datetime.fromisoformat(f"2026-11-20T{clock}:00+00:00")
        (spent,) = reservation.settle([Charge(model, tokens)])
    assert spent.usd == factor * plain


@pytest.mark.parametrize("bucket", ["input", "output", "cache_read"])
@pytest.mark.parametrize(
    ("name", "tier", "factor"),
    [
        ("anthropic/claude-opus-5-5", "fast", "2"),
        ("anthropic/claude-opus-5-5", "batch", "0.5"),
        ("openai/gpt-5.6-terra", "flex", "0.5"),
        ("openai/gpt-5.6-terra", "priority", "2"),
        ("openai/gpt-5.5", "priority", "2.5"),
    ],
)
def test_tier_prices(name: str, tier: str, factor: str, bucket: str) -> None:
    assert usd(name, tier=tier, **{bucket: K}) == usd(name, **{bucket: K}) * Decimal(factor)  # pyright: ignore[reportArgumentType]


LIMITS = json.loads(Path(sagent.providers.__file__).with_name("limits.json").read_text())
FAMILIES = ("qwen3-coder", "qwen3.6", "qwen3.7", "qwen3.8")  # rows for what begins so


@pytest.mark.parametrize("model", [row[0] for row in LIMITS["dashscope"] if row[0] not in FAMILIES])
def test_no_qwen_is_unknown_or_free(model: str) -> None:
    """Neither genai-prices nor litellm has DashScope whole; under a cap a call without a price is refused."""
    for bucket in ("input", "output", "cache_read", "cache_write"):
        assert usd(f"dashscope/{model}", **{bucket: K}) > 0  # pyright: ignore[reportArgumentType]
    (row,) = [row for row in BOOK.known_models("dashscope") if row.id == model]
    assert row.window


def test_thinking_output_has_thinking_price() -> None:
    assert usd("dashscope/qwen-plus", output=100 * K) == Decimal("0.12")
    assert usd("dashscope/qwen-plus", output=100 * K, reasoning=1) == Decimal("0.4")
    assert usd("dashscope/qwen-plus", input=300 * K, output=100 * K, reasoning=1) == Decimal("1.56")
    assert usd("dashscope/qwen3.6-plus", output=100 * K, reasoning=1) == usd("dashscope/qwen3.6-plus", output=100 * K)
    held = bound_of(BOOK, "dashscope", "qwen-plus", 0, 100 * K)
    assert held is not None
    assert held >= Decimal("0.4")


rates = st.decimals(0, 100, places=2)


@given(rates, rates, rates, st.integers(0, 500), st.integers(0, 500))
def test_bound_holds_for_any_thinking_price(
    output: Decimal, reasoning: Decimal, thinking: Decimal, most: int, thought: int
) -> None:
    row = {"input": 1, "output": output, "reasoning": reasoning, "thinking": thinking}
    tariff = read_tariff("a/b", row)
    assert tariff
    assert cost(tariff, Usage(output=most, reasoning=thought)) <= Ceiling([tariff]).cost(0, most)


@pytest.mark.parametrize(
    ("model", "window"),
    [
        *(("google/gemini-2.5-pro", 1_048_576), ("zai/GLM-4.5", 131_072), ("zai/GLM-4.5-Air", 131_072)),
        *(("zai/GLM-4.6", 200_000), ("zai/GLM-4.7", 200_000), ("zai/GLM-5", 200_000), ("zai/GLM-5.1", 200_000)),
    ],
)
def test_windows_the_price_list_lacks(model: str, window: int) -> None:
    provider, _, name = model.partition("/")
    assert [row.window for row in BOOK.known_models(provider) if row.id == name] == [window]
