"""Caches that must be asked for: where marks go, what becomes of them at gateways, and what the bill says."""

# Parts of JSON are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from sagent import Agent
from sagent.agent.options import read_options
from sagent.context.prompt import compose
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, ConfigError, UsageError
from sagent.lib.json import json_freeze_object
from sagent.messages import Image, Message, Text, ToolCall, ToolResult, assistant, user
from sagent.model import Reply, Request, ToolSpec
from sagent.providers import provider_named, read_rows
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.wire.faults import Origin
from sagent.testing.script import Fail, Turn
from sagent.testing.server import FakeProviderServer
from sagent.tool import Workspace
from sagent.usage import Charge, Usage

MARK = {"type": "ephemeral"}
HOUR = json_freeze_object({"cache_control": {"type": "ephemeral", "ttl": "1h"}})
TOOLS = (ToolSpec("A", "a", json_freeze_object({"type": "object"})), ToolSpec("B", "b", json_freeze_object({})))
CALL = ToolCall("call_1", "A", json_freeze_object({"x": 1}))
WORK = (
    user("one"),
    Message("assistant", (Text("I look."), CALL)),
    Message("user", (ToolResult("call_1", (Text("found"),)),)),
)


def body_of(
    *messages: Message, provider: str = "openrouter", model: str = "anthropic/claude-sonnet-5-5", **more: object
):
    request = Request("c", messages or (user("hi"),), system="Be terse.", tools=TOOLS, **more)
    base = "https://gateway.example/v1" if provider == "openai-compatible" else None
    return json.loads(provider_named(provider, key="k" * 8, base_url=base).model(model).prepare(request).body.data)


def marks_in(value: object) -> int:
    return json.dumps(value).count('"cache_control"')


def test_openrouter_claude_gets_cache_marks() -> None:
    body = body_of(*WORK)
    assert marks_in(body) == 4  # Anthropic takes no more
    assert body["tools"][1]["cache_control"] == MARK
    assert "cache_control" not in body["tools"][0]
    system, first, _, result = body["messages"]
    for message, text in ((system, "Be terse."), (first, "one"), (result, "found")):
        assert message["content"] == [{"type": "text", "text": text, "cache_control": MARK}]
        assert "cache_control" not in message  # of a tool's message OpenRouter would never answer it


def test_cache_marks_move_and_prefix_stays() -> None:
    longer = (*WORK, assistant("Done."), user("two"), assistant("Yes."), user("three"))
    before, after = body_of(*WORK)["messages"], body_of(*longer)["messages"]
    bare = [
        json.loads(json.dumps(each).replace(', "cache_control": {"type": "ephemeral"}', "")) for each in (before, after)
    ]
    assert bare[1][: len(bare[0])] == bare[0]
    assert [marks_in(message) for message in after] == [1, 0, 0, 0, 0, 1, 0, 1]


@pytest.mark.parametrize("provider", ["llamacpp", "ollama", "lmstudio", "vllm"])
def test_local_prefix_same_in_all_projects(provider: str, tmp_path: Path) -> None:
    made = provider_named(provider, key="k" * 8).model("m")
    seen: list[dict] = []
    for name, day, told in (("a", 1, ""), ("b", 1, "Use tabs."), ("c", 2, "# Rules\n\nUse spaces.\n\n# More")):
        prompt = compose(Workspace(tmp_path / name), date(2026, 12, day), told, append=f"Be {name}.")
        seen.append(json.loads(made.prepare(Request("c", (user("hi"),), system=prompt, tools=TOOLS)).body.data))
        system, first = seen[-1]["messages"]
        assert system == seen[0]["messages"][0]
        assert json.dumps(first).index(name) < json.dumps(first).rindex("hi")
        assert all(said in first["content"] for said in (told, f"Be {name}.", f"2026-12-0{day}"))
    assert seen[0]["tools"] == seen[1]["tools"] == seen[2]["tools"]


def test_image_carries_no_cache_mark() -> None:
    body = body_of(user("look", Image("image/png", b"PNG")))
    assert body["messages"][1]["content"][-1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,UE5H"},
    }
    assert marks_in(body) == 2


@pytest.mark.parametrize(
    ("provider", "model", "marks"),
    [
        ("openrouter", "~anthropic/claude-sonnet-latest", 3),
        ("openrouter", "qwen/qwen3-max", 3),
        ("openrouter", "google/gemini-3.8-flash", 0),
        ("openrouter", "openai/gpt-5.5", 0),
        ("openai-compatible", "claude-sonnet-5-5", 3),
        ("openai-compatible", "anthropic/claude-opus-5-5", 3),
        ("openai-compatible", "bedrock/us.anthropic.claude-sonnet-4-6-v1:0", 3),
        ("openai-compatible", "qwen3", 0),
        ("dashscope", "qwen3.6-plus", 0),
    ],
)
def test_only_unaided_models_get_marks(provider: str, model: str, marks: int) -> None:
    body = body_of(provider=provider, model=model)
    assert marks_in(body) == marks
    assert isinstance(body["messages"][0]["content"], str) == (not marks)


def test_own_row_names_models_for_marks() -> None:
    url = "https://llm.acme.example/v1"
    rows = read_rows({"acme": {"base_url": url, "cache_marks": ["house-"]}, "bare": {"base_url": url}}, "config.toml")
    request = Request("c", (user("hi"),))
    for name, marks in (("acme", 1), ("bare", 0)):
        model = provider_named(name, key="k" * 8, rows=rows).model("house-claude")
        assert marks_in(json.loads(model.prepare(request).body.data)) == marks
    with pytest.raises(ConfigError, match="cache_marks"):
        read_rows({"acme": {"base_url": url, "cache_marks": [1]}}, "config.toml")


@pytest.mark.parametrize(
    "refusal",
    [
        "messages.0.content.0.cache_control: Extra inputs are not permitted",
        "Invalid type for 'messages[0].content': expected a string, got an array instead.",
        "json: cannot unmarshal array into Go struct field Message.messages.content of type string",
        "messages[3]: content must be a string",
        "Only string content is supported for role system",
        "messages[0].content: invalid type: sequence, expected a string at line 1",
    ],
)
async def test_gateway_refusing_marks_gets_none(refusal: str) -> None:
    async with FakeProviderServer([Fail(400, message=refusal), Turn(text="Hello"), Turn(text="Again")]) as server:
        provider = provider_named("openai-compatible", key="k" * 8, base_url=f"{server.url}/v1")
        model, request = provider.model("claude-sonnet-5-5"), Request("c", WORK, system="s")
        for _ in range(2):
            *_, reply = [item async for item in model.stream(request)]
            assert isinstance(reply, Reply)
            assert "refuses cache_control" in reply.notes[0]
        await provider.aclose()
    assert [marks_in(each.json) for each in server.requests] == [3, 0, 0]
    assert isinstance(server.requests[1].json["messages"][0]["content"], str)


async def test_other_error_keeps_marks() -> None:
    async with FakeProviderServer([Fail(400, message="max_tokens is too large"), Turn(text="Hello")]) as server:
        provider = provider_named("openai-compatible", key="k" * 8, base_url=f"{server.url}/v1")
        model, request = provider.model("claude-sonnet-5-5"), Request("c", WORK)
        with pytest.raises(Exception, match="too large"):
            _ = [item async for item in model.stream(request)]
        _ = [item async for item in model.stream(request)]
        await provider.aclose()
    assert [marks_in(each.json) for each in server.requests] == [2, 2]


# -- caches of an hour -------------------------------------------------------------------------------------------------


def test_option_asks_for_an_hour() -> None:
    bodies = [
        body_of(*WORK, options=HOUR),
        body_of(*WORK, provider="anthropic", model="claude-sonnet-5-5", options=HOUR),
    ]
    for body in bodies:
        assert "cache_control" not in body  # it would be a fifth mark
        assert json.dumps(body).count('"cache_control": {"type": "ephemeral", "ttl": "1h"}') == 4


@pytest.mark.parametrize(
    ("provider", "model"), [("anthropic", "claude-opus-5-5"), ("openrouter", "anthropic/claude-3-haiku")]
)
def test_log_tells_an_hour_was_asked_for(provider: str, model: str) -> None:
    asked = provider_named(provider, key="k" * 8).model(model)
    digests = [asked.prepare(Request("c", WORK, options=options)).digest for options in (HOUR, json_freeze_object({}))]
    assert [digest.parameters.get("cache_control") for digest in digests] == [HOUR["cache_control"], None]


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openrouter", "google/gemini-3.8-flash"), ("openai", "gpt-5.5"), ("google", "gemini-4-argon")],
)
def test_needless_cache_option_is_left_out(provider: str, model: str) -> None:
    """It may stand in the config, for all that is used."""
    call = provider_named(provider, key="k" * 8).model(model).prepare(Request("c", WORK, options=HOUR))
    assert b"cache_control" not in call.body.data
    assert "the option was left out" in call.notes[0]


@pytest.mark.parametrize("given", [True, "1h", {"type": "ephemeral", "ttl": "2h"}, {"ttl": "1h"}, {}, None])
def test_unknown_cache_life_is_refused(given: object) -> None:
    with pytest.raises(UsageError, match="five minutes, or for an hour"):
        read_options({"cache_control": given}, capped=False)


async def test_cap_holds_the_cost_of_an_hour() -> None:
    ledger = Ledger(Decimal(5), PriceBook())
    held: list[Decimal] = []
    for options in ({}, {"cache_control": {"type": "ephemeral"}}, HOUR):
        with await ledger.reserve(
            "root", "executor", "anthropic", "claude-opus-5-5", 100_000, 0, options=options
        ) as one:
            held.append(one.held)
    assert held[0] == held[1]
    assert held[2] / held[0] == Decimal("1.6")  # twice the price of input, and 1.25 times


async def test_cap_refuses_an_unpayable_hour() -> None:
    steps = [Turn(text="Hello", usage=Usage(input=10, cache_write_1h=3_000, output=5))] * 2
    async with FakeProviderServer(steps, counts=False) as server:
        model = provider_named("anthropic", key="k" * 8, base_url=server.url).model("claude-opus-5-5")
        async with Agent(model, system="s" * 40_000, options=HOUR, max_budget_usd="0.32") as agent:
            with pytest.raises(BudgetExceeded):
                await agent.run("hi")
        async with Agent(model, system="s" * 40_000, max_budget_usd="0.32") as agent:
            assert (await agent.run("hi")).content == "Hello"
    assert len(server.requests) == 1


def test_hour_write_costs_twice_the_input() -> None:
    hour, input_alone = Usage(cache_write_1h=1_000_000), Usage(input=1_000_000)
    for provider, model in (("google", "claude-opus-4-6"), ("anthropic", "claude-opus-4-6")):
        ours = PriceBook().price(provider, model, hour)
        assert ours == 2 * PriceBook().price(provider, model, input_alone)
    own = PriceBook({"acme/m": {"input": 3, "output": 15}})
    assert own.price("acme", "m", hour) == 3  # who names no price of writes has none


# -- what gateways tell of caches --------------------------------------------------------------------------------------


def bill_of(usage: dict[str, object], *, hourly: bool = False) -> Charge:
    reader = ChatReplyReader(Origin("acme", "m"), "chat:acme")
    reader.hourly = hourly
    reader.feed({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}, [])
    reader.feed({"choices": [], "usage": usage}, [])
    return reader.bill(0)[1][0]


def test_cache_reads_and_writes_are_billed() -> None:
    details = {"cached_tokens": 8_000, "cache_write_tokens": 1_500}
    told = {"prompt_tokens": 10_000, "completion_tokens": 5, "total_tokens": 10_005, "prompt_tokens_details": details}
    assert bill_of(told).usage == Usage(input=500, cache_read=8_000, cache_write=1_500, output=5)
    assert bill_of(told, hourly=True).usage == Usage(input=500, cache_read=8_000, cache_write_1h=1_500, output=5)
    lives = {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 1_000}
    litellm = {**told, "prompt_tokens_details": {**details, "cache_creation_token_details": lives}}
    assert bill_of(litellm).usage == Usage(input=500, cache_read=8_000, cache_write=500, cache_write_1h=1_000, output=5)


@pytest.mark.parametrize("total", [0, 35, 9_535])
def test_anthropic_style_gateway_counts(total: int) -> None:
    told = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": total}
    counts = {"cache_read_input_tokens": 8_000, "cache_creation_input_tokens": 1_500}
    assert bill_of({**told, **counts}).usage == Usage(input=30, cache_read=8_000, cache_write=1_500, output=5)


# -- headers of a row --------------------------------------------------------------------------------------------------


async def test_openrouter_app_headers_can_change() -> None:
    mine = {"X-Title": "my own", "HTTP-Referer": "https://me.example"}
    rows = [None] + [read_rows({"openrouter": {"headers": headers}}, "config.toml") for headers in (mine, {})]
    async with FakeProviderServer([Turn(text="Hello")] * 3) as server:
        for own in rows:
            provider = provider_named("openrouter", key="k" * 8, base_url=f"{server.url}/v1", rows=own)
            _ = [item async for item in provider.model("x/y").stream(Request("c", (user("hi"),)))]
            await provider.aclose()
    sent = [(each.headers.get("x-title"), each.headers.get("http-referer")) for each in server.requests]
    assert sent[0][0] == "sagent"
    assert sent[1:] == [("my own", "https://me.example"), (None, None)]


@pytest.mark.parametrize("headers", [{"Authorization": "x"}, {"a b": "x"}, {"x": "a\nb"}, {"x": 1}])
def test_bad_headers_are_refused_unshown(headers: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="headers") as refused:
        read_rows({"acme": {"headers": headers}}, "config.toml")
    assert "a\nb" not in str(refused.value)
