"""Prices agree with genai-prices to the last digit, know what they do not know, and have a true upper bound."""

import json
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices.data import providers as their_providers
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.cost import tariff
from sagent.cost.prices import LOCAL, Billing, PriceBook
from sagent.cost.tariff import Ceiling, build_tariff, cost
from sagent.errors import ConfigError
from sagent.providers.rows import built_in
from sagent.usage import Charge, Usage
from tests.cost.bounds import bound_of
from tests.depth import deep

ROOT = Path(__file__).parents[2]
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ALL = [(provider.id, model.id) for provider in their_providers for model in provider.models]
HOURLY = {  # whose data tell what it costs to keep a cache for an hour: of others we know better (tariff.py)
    (provider.id, model.id)
    for provider in their_providers
    for model in provider.models
    if len(re.findall("cache_write_1h_mtok=[^N]", repr(model))) == repr(model).count("ModelPrice(")
}
MOVING = [
    (provider.id, model.id)
    for provider in their_providers
    for model in provider.models
    if model.price_variants or isinstance(model.prices, list) or "Tier" in repr(model.prices)
]
BOOK = PriceBook()


def theirs(usage: Usage, provider: str, model: str, at: datetime, context: dict[str, str]) -> Decimal | None:
    try:
        calculation = get_snapshot().calc(
            TheirUsage(
                input_tokens=usage.total_input,
                cache_read_tokens=usage.cache_read,
                cache_write_tokens=usage.cache_write + usage.cache_write_1h,
                cache_write_1h_tokens=usage.cache_write_1h,
                output_tokens=usage.output,
                output_reasoning_tokens=usage.reasoning,
            ),
            model,
            provider,
            None,
            at,
            context,
        )
    except LookupError:
        return None
    priced = vars(calculation.model_price)
    return calculation.total_price if "input_mtok" in priced and "output_mtok" in priced else None


@pytest.mark.costly
@pytest.mark.parametrize(
    ("at", "tier", "context"),
    [
        (NOON, "", {}),
        (datetime(2026, 11, 20, 2, 30, tzinfo=UTC), "priority", {"service_tier": "priority"}),
        (datetime(2025, 3, 1, 17, tzinfo=UTC), "fast", {"speed": "fast", "service_tier": "fast"}),
        (datetime(2027, 1, 1, tzinfo=UTC), "batch", {"processing": "batch"}),
    ],
)
def test_models_cost_what_the_library_says(at, tier, context):
    small, large = Usage(1200, 30_000, 4000, 500, 700, 300), Usage(10, 150_000, 140_000, 1, 3, 2)
    compared = 0
    for provider, model in ALL[:: deep(1, 1)]:
        for full in (small, large):
            usage = full if (provider, model) in HOURLY else replace(full, cache_write_1h=0)
            expected = theirs(usage, provider, model, at, context)
            if model.endswith(":free") and provider == "openrouter":
                expected = Decimal(0)
            elif f"{provider}/{model}" == "mistral/mistral-large-latest" or (
                provider == "google" and model.startswith("gemini") and tier in ("flex", "priority")
            ):
                continue
            assert BOOK.price(provider, model, usage, at, tier) == expected, (provider, model)
            compared += expected is not None
    assert compared > 3000 // deep(1, 1)


def test_price_file_is_what_the_script_makes():
    made = tariff.edition().made
    script = runpy.run_path(str(ROOT / "scripts" / "make_prices.py"))
    file = Path(tariff.__file__).with_name("catalog.jsonl")
    assert file.read_text(encoding="utf-8") == "".join(script["lines"](made)), "run `make prices`"


def test_provider_prices_are_read_once(monkeypatch):
    read: list[str] = []

    def loads(text: str) -> object:
        read.append(text)
        return json.loads(text)

    for loader in (tariff._block, tariff.find, tariff.corrections):
        loader.cache_clear()
    monkeypatch.setattr(tariff, "json", SimpleNamespace(loads=loads))
    usage = Usage(input=1000)
    assert len({PriceBook().price("anthropic", f"claude-opus-4-{n % 3 + 5}", usage) for n in range(100)}) > 0
    assert sum('{"provider"' in text for text in read) == 1
    assert len(read) == 2, "the corrections, and the one provider"


@pytest.mark.parametrize(
    ("provider", "model", "usd"),  # a million tokens each of fresh input, cache reads and output
    [
        ("anthropic", "claude-opus-4-6", "30.5"),
        ("openai", "gpt-5.5", "56"),  # a request of more than 272k: 10 + 1 + 45
        ("moonshot", "kimi-k2.6", "5.11"),
        ("dashscope", "qwen3.6-plus", "8.4"),
        ("minimax", "MiniMax-M2.7", "1.56"),
        ("xai", "grok-4.3", "7.9"),
        ("mistral", "mistral-large-latest", "2.05"),
        ("zai", "glm-4.7-flash", "0.48"),
        ("groq", "openai/gpt-oss-120b", "0.825"),
    ],
)
def test_provider_aliases_and_gaps_are_priced(provider, model, usd):
    million = 10**6
    assert BOOK.price(provider, model, Usage(million, million, output=million), NOON) == Decimal(usd)


def test_cache_writes_and_tiers():
    assert BOOK.price("anthropic", "claude-opus-4-6", Usage(cache_write=100_000)) == Decimal("0.625")
    assert BOOK.price("anthropic", "claude-opus-4-6", Usage(cache_write_1h=100_000)) == Decimal(1)
    assert BOOK.price("dashscope", "qwen3.6-plus", Usage(input=256_000)) == Decimal("0.128")
    assert BOOK.price("dashscope", "qwen3.6-plus", Usage(input=256_001)) == Decimal("0.512002")
    peak, off_peak = (datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in (2, 12))
    usage = Usage(input=1000, output=1000)
    at_peak, at_noon = (BOOK.price("deepseek", "deepseek-v4-flash", usage, at) for at in (peak, off_peak))
    assert at_noon is not None
    assert at_peak == 2 * at_noon


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-of-another-time"),
        ("nobody", "gpt-5.5"),
        ("openai-compatible", "gpt-5.5"),  # speaking a protocol is no price
        ("cerebras", "qwen-3-coder-480b"),  # listed without any price
        ("openai", "text-embedding-3-small"),  # no price of output
        ("dashscope", "qwen-of-another-time"),
    ],
)
def test_unknown_is_none_and_never_zero(provider, model):
    assert BOOK.price(provider, model, Usage(input=1)) is None
    assert bound_of(BOOK, provider, model, 1, 1) is None


def test_dated_names_are_found():
    dated = ["claude-sonnet-4-6-20260217", "claude-sonnet-4-6@20260217", "claude-sonnet-4-6-2026-02-17"]
    usage = Usage(input=10, output=10)
    assert {BOOK.price("anthropic", name, usage) for name in dated} == {Decimal("0.00018")}
    assert BOOK.price("openai", "gpt-5.5-20260401", usage) == BOOK.price("openai", "gpt-5.5", usage)
    assert BOOK.price("dashscope", "qwen3.6-plus-2026-04-02", usage) == Decimal("0.000035")


@pytest.mark.parametrize(
    ("provider", "model", "kind", "usd"),  # of one call
    [
        ("anthropic", "claude-opus-4-6", "web_search", "0.01"),
        ("anthropic", "claude-3-opus-latest", "web_search", "0.01"),
        ("openai", "gpt-5.2", "web_search", "0.01"),
        ("openai", "gpt-5.3-codex", "web_search", "0.01"),  # which the library has no fee for
        ("openai", "gpt-4.1", "web_search_preview", "0.025"),
        ("openai", "gpt-4.1", "file_search", "0.0025"),
        ("google", "gemini-2.5-flash", "web_search", "0.035"),
        ("google", "gemini-3.5-flash", "web_search", "0.014"),
    ],
)
def test_fees_per_call(provider, model, kind, usd):
    tokens = Usage(input=1000, output=10)
    plain = BOOK.price(provider, model, tokens, NOON)
    assert plain is not None
    assert BOOK.price(provider, model, tokens + Usage(fees={kind: 3}), NOON) == plain + 3 * Decimal(usd)


def test_unknown_fee_is_unknown_zero_is_zero():
    assert BOOK.price("openai", "gpt-5", Usage(input=1, fees={"code_container": 1})) is None
    assert BOOK.price("mistral", "mistral-large-4", Usage(input=1, fees={"web_search": 1})) is None
    assert BOOK.price("openai", "gpt-5", Usage(input=1, fees={"code_container": 0})) is not None
    reported = Charge("gpt-5", Usage(input=1, fees={"code_container": 1}), usd=Decimal("0.5"))
    assert BOOK.bill("openai", reported) == Decimal("0.5")


def test_user_fee_wins():
    book = PriceBook({"openai/gpt-5": {"input": 1, "output": 1, "code_container": 30, "web_search": "5"}})
    usage = Usage(fees={"code_container": 1, "web_search": 2, "file_search": 4})
    assert book.price("openai", "gpt-5", usage) == Decimal("0.05")
    assert book.price("openai", "GPT-5-2026-01-01", usage) == Decimal("0.05")
    with pytest.raises(ConfigError, match="per thousand calls"):
        PriceBook({"a/b": {"input": 1, "output": 1, "web_search": "x"}})


def test_region_multiplies_tokens_not_fees():
    usage = Usage(1000, 200, 30, 4, 500, fees={"web_search": 1})
    for model, tier in (("claude-opus-4-6", ""), ("claude-opus-4-8", "fast")):
        plain = BOOK.price("anthropic", model, usage, NOON, tier)
        assert plain is not None
        here = BOOK.price("anthropic", model, usage, NOON, f"{tier}+us".lstrip("+"))
        assert here == (plain - Decimal("0.01")) * Decimal("1.1") + Decimal("0.01")
    worst = bound_of(BOOK, "anthropic", "claude-opus-4-6", 1000, 500)
    there = BOOK.price("anthropic", "claude-opus-4-6", Usage(cache_write=1000, output=500), NOON, "us")
    assert worst is not None
    assert there is not None
    assert there <= worst  # a workspace may choose a region without the request


@pytest.mark.parametrize(
    ("tier", "context"), [("flex", "service_tier"), ("priority", "service_tier"), ("batch", "processing")]
)
@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-5.5"), ("anthropic", "claude-opus-4-6")],
)
def test_tiers_cost_what_the_library_says(provider, model, tier, context):
    for usage in (Usage(1000, 200, output=30), Usage(300_000, 20_000, output=3000)):
        assert BOOK.price(provider, model, usage, NOON, tier) == theirs(usage, provider, model, NOON, {context: tier})


@pytest.mark.parametrize(("tier", "factor"), [("flex", Decimal("0.5")), ("priority", Decimal(2)), ("standard", 1)])
def test_google_tiers_are_a_factor(tier, factor):
    provider, model, usage = "google", "gemini-3.1-pro-preview", Usage(1000, 200, output=30, fees={"web_search": 1})
    standard, fee = BOOK.price(provider, model, usage, NOON), BOOK.fees(provider, model, NOON)["web_search"]
    assert standard is not None
    found = BOOK.price(provider, model, usage, NOON, tier)
    assert found == (standard - fee) * factor + fee


def test_free_row_costs_nothing_alone():
    book = PriceBook(billing=lambda name: Billing(free=name == "mybox"))
    assert book.price("mybox", "any", Usage(input=9, output=9)) == bound_of(book, "mybox", "any", 9, 9) == 0
    assert book.price("yourbox", "any", Usage(input=9)) is None
    assert {row.name for row in built_in().values() if row.free and not row.plugin} == LOCAL


def test_row_names_its_price_list() -> None:
    book = PriceBook({"own/m": {"input": 1, "output": 2}}, billing=lambda name: Billing("anthropic" * (name == "own")))
    usage = Usage(1_000, output=10)
    assert book.price("own", "claude-opus-4-6", usage) == BOOK.price("anthropic", "claude-opus-4-6", usage)
    assert {row.id for row in book.known_models("own")} >= {row.id for row in BOOK.known_models("anthropic")}
    assert BOOK.price("own", "claude-opus-4-6", usage) is None


def test_row_may_write_hour_caches() -> None:
    def worst(*, hour: bool) -> Decimal | None:
        book = PriceBook(billing=lambda _: Billing("anthropic", hour=hour))
        return bound_of(book, "own", "claude-opus-4-6", 1_000, 10)

    plain, dear = worst(hour=False), worst(hour=True)
    assert plain is not None
    assert dear is not None
    assert dear > plain


def test_local_and_free_models_cost_nothing():
    usage = Usage(input=10**6, output=10**6)
    assert {BOOK.price(provider, "any/model:7b", usage) for provider in LOCAL} == {Decimal(0)}
    assert BOOK.price("openrouter", "someone/new:free", usage) == 0
    assert bound_of(BOOK, "ollama", "any", 10**9, 10**9) == 0


def test_provider_figure_wins():
    usage = Usage(input=1000, output=10)
    reported = Decimal("0.00012345678901234567")
    assert BOOK.bill("openrouter", Charge("anyone/anything", usage, usd=reported)) == reported
    assert BOOK.bill("openai", Charge("gpt-5.5", usage, usd=Decimal(0))) == 0
    listed = BOOK.price("openai", "gpt-5.5", usage, NOON, "priority")
    for nonsense in (None, Decimal("NaN"), Decimal(-1), Decimal("Infinity")):
        assert BOOK.bill("openai", Charge("gpt-5.5", usage, tier="priority", usd=nonsense), NOON) == listed


def test_market_of_varied_prices_gets_margin():
    listed = BOOK.price("openrouter", "moonshotai/kimi-k2.6", Usage(input=1000, output=1000))
    held = bound_of(BOOK, "openrouter", "moonshotai/kimi-k2.6", 1000, 1000)
    assert listed is not None
    assert held is not None
    assert held >= 2 * listed > 0


@pytest.mark.parametrize("name", ["openai/o3-deep-research", "openai-chat/gpt-5-search-api", "openrouter/o/x-search"])
def test_unasked_searches_have_no_bound(name: str):
    """It reads as often as it likes, and its searches have a fee each."""
    provider, _, model = name.partition("/")
    assert PriceBook().ceiling(provider, model) is None
    assert PriceBook({name: {"input": 1, "output": 1}}).ceiling(provider, model) is not None


def test_user_price_wins_and_is_exact():
    book = PriceBook(
        {
            "anthropic/Claude-Opus-4-6": {"input": 0.1, "output": "0.7", "cache_write_1h": Decimal(3)},
            "ollama/big": {"input": 1, "output": 1},
            "mine/model": {
                "input": 1,
                "output": 2,
                "tiers": [{"over": 100, "input": 3}, {"over": 10, "input": 2, "output": 5}],
            },
        }
    )
    opus = Usage(input=1, cache_read=1, cache_write=1, cache_write_1h=1, output=1)
    assert book.price("anthropic", "claude-opus-4-6-20260101", opus) == Decimal("0.0000040")
    assert book.price("ollama", "big", Usage(input=10**6)) == 1
    prices = [book.price("mine", "model", Usage(input=count, output=1)) for count in (10, 11, 101)]
    assert prices == [Decimal("0.000012"), Decimal("0.000027"), Decimal("0.000308")]
    assert [row.id for row in book.known_models("mine")] == ["model"]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"input": 1}, "output"),
        ({"input": 1, "output": 1, "ouptut": 1}, "ouptut"),
        ({"input": "cheap", "output": 1}, "cheap"),
        ({"input": -1, "output": 1}, "-1"),
        ({"input": True, "output": 1}, "True"),
        ({"input": float("nan"), "output": 1}, "nan"),
        ({"input": "1e999999", "output": 1}, "1e999999"),
        ({"input": 1, "output": 1, "tiers": [{"input": 2}]}, "over"),
        ({"input": 1, "output": 1, "tiers": 5}, "tiers"),
        ({"input": 1, "output": 1, "tiers": [5]}, "tiers"),
        ({"input": 1, "output": 1, "tiers": [{"over": 5, "cache_read": 2}]}, "cache_read"),
    ],
)
def test_bad_user_price_names_model_and_key(row, named):
    with pytest.raises(ConfigError, match=named) as caught:
        PriceBook({"mine/model": row})
    assert "mine/model" in str(caught.value)


def test_contradictory_usage_is_no_credit():
    assert BOOK.price("openai", "gpt-5.5", Usage(input=-500, output=-3)) == 0
    reasoning = Usage(output=10, reasoning=99)
    assert BOOK.price("openai", "gpt-5.5", reasoning) == BOOK.price("openai", "gpt-5.5", Usage(output=10))


def test_host_decimal_context_does_not_matter():
    usage = Usage(123_457, 234_561, 345_619, 4_567, 56_789, 123)
    wide = BOOK.price("anthropic", "claude-opus-4-6", usage), bound_of(BOOK, "anthropic", "claude-opus-4-6", 777_777, 9)
    with localcontext() as context:
        context.prec = 3
        book = PriceBook()
        writes = PriceBook({"mine/m": {"input": "1.23456", "output": 2, "cache_write": 2}})
        assert writes.price("mine", "m", Usage(cache_write_1h=1)) == Decimal("0.00000246912")
        narrow = (
            book.price("anthropic", "claude-opus-4-6", usage),
            bound_of(book, "anthropic", "claude-opus-4-6", 777_777, 9),
        )
    assert narrow == wide


def test_catalogue():
    rows = {row.id: row for row in BOOK.known_models("anthropic")}
    assert rows["claude-sonnet-4-6"][1:] == (1_000_000, Decimal(3), Decimal(15))
    retired = {model.id for provider in their_providers for model in provider.models if model.deprecated}
    assert "devstral-small" in retired
    assert "devstral-small" not in {row.id for row in BOOK.known_models("mistral")}
    dashscope = {row.id: row for row in BOOK.known_models("dashscope")}
    assert dashscope["qwen3.6-plus"][1:] == (1_000_000, Decimal("0.5"), Decimal(3))
    assert {row.id: row.window for row in BOOK.known_models("google")}["gemini-3.1-pro-preview"] == 1_048_576
    for provider in ("openai", "moonshot", "minimax", "deepseek", "openrouter", "groq", "xai", "together", "cerebras"):
        assert BOOK.known_models(provider), provider
    assert BOOK.known_models("nobody") == ()


counts = st.integers(0, 400_000) | st.sampled_from([0, 1, 32_000, 200_000, 200_001, 272_000, 272_001])


@settings(max_examples=deep(100, 250), deadline=None)
@given(
    st.sampled_from(MOVING) | st.sampled_from(ALL),
    st.tuples(counts, counts, counts, counts, counts, counts),
    st.tuples(counts, counts),
    st.integers(0, 48 * 60),
    st.sampled_from(["", "flex", "priority", "batch", "default", "nonsense", "fast"]),
)
def test_worst_bounds_every_price(named, spent, slack, minutes, tier):
    usage = replace(Usage(*spent), cache_write_1h=0)  # for an hour is written where that is asked for
    limits = usage.total_input + slack[0], usage.output + slack[1]
    latest = datetime.combine(datetime.now(UTC).date() + timedelta(days=1), time(23, 59), UTC)
    at = latest - timedelta(minutes=minutes)
    if at < datetime.now(UTC):
        at = datetime.now(UTC)
    price = BOOK.price(*named, usage, at, tier)  # pyright: ignore[reportCallIssue]
    if price is not None and tier != "fast" and (named[0] not in ("google", "openai") or tier != "priority"):
        worst = bound_of(BOOK, *named, *limits)  # pyright: ignore[reportCallIssue]
        if worst is None:  # it is not known what its images cost, or how often it searches
            assert re.search("image|-search|deep-research", named[1])
            return
        assert price <= worst  # requests under a budget name none of the tiers that cost more


rates = st.decimals(0, 100, places=4)
steps = st.lists(st.tuples(st.integers(0, 300), rates), max_size=3, unique_by=lambda step: step[0]).map(sorted)
tariffs = st.fixed_dictionaries(
    {"input": st.tuples(rates, steps), "output": st.tuples(rates, steps)},
    optional={key: st.tuples(rates, steps) for key in ("cache_read", "cache_write", "cache_write_1h", "reasoning")},
).map(lambda rows: build_tariff({key: [(-1, base), *more] for key, (base, more) in rows.items()}))


@settings(max_examples=deep(80, 200), deadline=None)
@given(st.lists(tariffs, min_size=1, max_size=3), st.tuples(*[st.integers(0, 120)] * 6), rates, st.data())
def test_bound_and_output_for_any_tiers(made, spent, budget, data):
    """Also where a higher tier is cheaper, which no list has yet."""
    usage = Usage(*spent)
    hour = data.draw(st.booleans())
    usage = usage if hour else replace(usage, cache_write_1h=0)
    ceiling = Ceiling([tariff for tariff in made if tariff], hour=hour)
    size = usage.total_input + data.draw(st.integers(0, 50))
    for band in made:
        assert band is not None
        assert cost(band, usage) <= ceiling.cost(size, usage.output)
    usd = budget.scaleb(-4)
    output = ceiling.affordable(size, usd, 5000)
    if output >= 0:
        assert ceiling.cost(size, output) <= usd
    if output < 5000:
        assert ceiling.cost(size, output + 1) > usd


@given(
    st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=3),
    st.integers(0, 8),
    st.integers(0, 4),
)
def test_upper_bound_is_exact(rates, size, output):
    """Bands begin above 2 and above 5 tokens; every call with at most `size` tokens is tried."""
    edges = (-1, 2, 5)
    buckets = ("input", "cache_write", "output")
    steps = {
        name: [(edge, Decimal(row[n])) for edge, row in zip(edges, rates, strict=False)]
        for n, name in enumerate(buckets)
    }
    tariff = build_tariff(steps)
    assert tariff is not None
    calls = (Usage(n - written, cache_write=written, output=output) for n in range(size + 1) for written in (0, n))
    assert Ceiling([tariff]).cost(size, output) == max(cost(tariff, usage) for usage in calls)


def run_fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pricing_needs_no_network_or_library():
    out = run_fresh(
        "import socket, sys\n"
        "def refused(*a, **k): raise AssertionError('network')\n"
        "socket.socket = socket.create_connection = socket.getaddrinfo = refused\n"
        "from sagent.cost.prices import PriceBook\n"
        "from sagent.usage import Usage\n"
        "print(PriceBook().price('openai', 'gpt-5.5', Usage(input=1000)))\n"
        "print([name for name in ('genai_prices', 'pydantic', 'httpx2') if name in sys.modules])\n"
    )
    assert out == "0.005000\n[]\n"


def test_ledger_without_cap_loads_prices_late():
    out = run_fresh(
        "import asyncio, sys\n"
        "from decimal import Decimal\n"
        "from sagent.cost.ledger import Ledger\n"
        "from sagent.cost.prices import PriceBook\n"
        "reservation = asyncio.run(Ledger(None, PriceBook()).reserve('root', 'executor', 'openai', 'gpt-5.5', 9, 9))\n"
        "print([name for name in sys.modules if name.startswith(('sagent.cost.', 'tomllib', 'genai'))])\n"
    )
    assert out == "['sagent.cost.budget', 'sagent.cost.prices', 'sagent.cost.ledger']\n"
