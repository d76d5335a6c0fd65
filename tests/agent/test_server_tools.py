"""Tools that the provider runs: asked for by options, next to ours; kept, shown, billed, and held by a cap."""

import io
import json
from collections.abc import Mapping
from decimal import Decimal

import pytest

from sagent import Agent, Result
from sagent.agent import Resources
from sagent.cli.render import Transcript
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import BudgetExceeded, UsageError
from sagent.messages import Opaque
from sagent.providers.registry import provider_named
from sagent.providers.rows import read_rows
from sagent.testing import ScriptedModel
from sagent.testing.script import Raw, Turn
from sagent.testing.server import FakeProviderServer
from sagent.tools import tool

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
FIRST, ALL = 900, 30_000  # tokens of the request as sent, and of all rounds
PATHS = {"openai": "/v1", "openai-compatible": "/v1"}


@tool
def shelf(book: str) -> str:
    """Where a book stands."""
    return f"{book}: 3"


def searched() -> Raw:
    """A reply in which Claude has searched once: the request counts as it was sent first, and then with every round."""
    found = [{"type": "web_search_result", "title": "Sagent", "url": "https://s.example", "encrypted_content": "xx"}]
    blocks = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sagent news"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found},
        {"type": "text", "text": "It is out."},
    ]
    usage = {"input_tokens": FIRST, "output_tokens": 1, "service_tier": "standard"}
    events: list[Mapping[str, object]] = [
        {"type": "message_start", "message": {"id": "msg_1", "type": "message", "content": [], "usage": usage}}
    ]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    whole = {"input_tokens": ALL, "output_tokens": 95, "server_tool_use": {"web_search_requests": 1}}
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": whole})
    events.append({"type": "message_stop"})
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Raw(200, (("content-type", "text/event-stream"),), lines.encode())


async def ask(script: list[Raw | Turn], **given: object) -> tuple[FakeProviderServer, list[Result], Agent, str]:
    """Two questions to Claude with a search of its own and a tool of ours; what a person was shown of the answers."""
    shown = io.StringIO()
    async with FakeProviderServer(script) as server:
        provider = provider_named("anthropic", key="k", base_url=server.url)
        agent = Agent(provider.model("claude-haiku-4-5"), tools=[shelf], options={"tools": [SEARCH]}, **given)  # pyright: ignore[reportArgumentType] -- of a caller
        agent.listen(Transcript(shown).on_event)
        results = [await agent.run(text) for text in ("news?", "and then?")]
        await agent.aclose()
        await provider.aclose()
    return server, results, agent, shown.getvalue()


async def test_server_tool_results_return_and_bill() -> None:
    server, (first, _), agent, shown = await ask([searched(), Turn(text="Nothing.")])
    one, two = (json.loads(request.body) for request in server.requests)
    assert [each["name"] for each in one["tools"]] == ["shelf", "web_search"]
    assert {name: one["tools"][1][name] for name in SEARCH} == SEARCH
    assert [block["type"] for block in two["messages"][1]["content"]] == [
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert two["messages"][1]["content"][1]["content"][0]["encrypted_content"] == "xx"
    assert "[web_search: sagent news]" in shown
    assert "Sagent https://s.example" in shown
    kept = [part.text for message in agent.state.context.history for part in message.parts if isinstance(part, Opaque)]
    assert kept == ["[web_search: sagent news]", "Sagent https://s.example"]
    assert first.usage.fees == {"web_search": 1}
    assert first.usage.input == ALL
    assert first.cost.total == Decimal(ALL + 95 * 5) / 1_000_000 + Decimal("0.01")  # haiku 4.5 at 1 and 5 USD


async def test_search_rounds_are_no_context_size() -> None:
    _, _, agent, _ = await ask([searched(), searched()])
    assert agent.state.context.meter.counted == FIRST


async def test_cap_holds_window_and_tool_fees() -> None:
    round_ = Decimal(200_000) * Decimal("2e-6")  # as a cache write of an hour, unless that is not asked for
    held: list[Decimal] = []

    class Watched(Ledger):
        async def reserve(self, *args: object, **given: object):
            made = await super().reserve(*args, **given)  # pyright: ignore[reportArgumentType] -- passed on
            held.append(made.ask.extra_usd)
            return made

    _, (first, _), _, _ = await ask([searched(), searched()], max_budget_usd="9")
    assert first.error is None
    await ask([searched(), searched()], resources=Resources(ledger=Watched(Decimal(9), PriceBook())))
    assert all(2 * (Decimal("0.25") + Decimal("0.01")) <= usd <= 2 * (round_ + Decimal("0.5")) for usd in held)
    assert len(held) == 2
    with pytest.raises(BudgetExceeded, match="for models and tools that the provider runs by itself"):
        await ask([searched(), searched()], max_budget_usd="0.4")


async def test_later_cap_is_kept_too() -> None:
    """Where nothing bounds a tool, no call is made."""
    ledger = Ledger(None, PriceBook())
    code = {"type": "code_execution_20250825", "name": "code_execution"}
    agent = Agent(ScriptedModel("x"), options={"tools": [code]}, resources=Resources(ledger=ledger))
    ledger.cap = Decimal(5)
    with pytest.raises(BudgetExceeded, match="nothing bounds how often code_execution_20250825 runs"):
        await ledger.reserve("root", "executor", "anthropic", "claude-haiku-4-5", 9, 9, options={"tools": [code]})
    await agent.aclose()


REFUSED: list[tuple[dict[str, object], bool, str]] = [
    ({"tools": "web_search"}, False, "give a list of the provider's own tools"),
    ({"tools": ["web_search"]}, False, "give a list of the provider's own tools"),
    ({"tools": [{"type": "function", "name": "f"}]}, False, "function is not run by the provider"),
    ({"tools": [{"functionDeclarations": []}]}, False, "a function is not run by the provider"),
    ({"tools": [{"name": "f", "input_schema": {}}]}, False, "a function is not run by the provider"),
    ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, False, "bash_20250124 is not run by the provider"),
    (
        {"tools": [{**SEARCH, "max_uses": 0}]},
        True,
        "nothing bounds how often web_search_2025.*: give it max",
    ),
    ({"tools": [{"type": "web_search"}]}, True, "give the option max_tool_calls too"),
    ({"tools": [{"googleSearch": {}}]}, True, "nothing bounds how often googleSearch runs"),
    ({"tools": [{"type": "web_search_20260209", "max_uses": 1}]}, True, "nothing bounds how often"),
]


@pytest.mark.parametrize(("options", "capped", "said"), REFUSED)
def test_unboundable_tools_are_refused(options: dict[str, object], capped: bool, said: str) -> None:
    resources = Resources(ledger=Ledger(Decimal(1) if capped else None, PriceBook()))
    with pytest.raises(UsageError, match=said):
        Agent(ScriptedModel(), options=options, resources=resources)


def test_openai_tools_bounded_by_the_request() -> None:
    from sagent.cost.server_tools import most_uses

    tools = [{"type": "web_search"}, {"type": "file_search", "vector_store_ids": ["v"]}]
    assert most_uses({"tools": tools, "max_tool_calls": 3}) == {"web_search": 3, "file_search": 3}


@pytest.mark.parametrize(
    ("family", "model", "own", "place"),
    [
        ("anthropic", "claude-sonnet-4-6", {"type": "web_search_20250305", "name": "web_search"}, "tools"),
        ("responses", "gpt-5.5", {"type": "web_search"}, "tools"),
        ("google", "gemini-3.8-flash", {"urlContext": {}}, "tools"),
        ("openai", "some-model", {"type": "openrouter:web_search"}, "tools"),
    ],
)
async def test_row_body_joins_requests_in_families(family: str, model: str, own: dict[str, object], place: str) -> None:
    """A row's own tools stand next to ours, once; its other members go out too, and the request's win."""
    extra = {"generationConfig": {"topK": 7}} if family == "google" else {"metadata": {"a": "1"}}
    body = {"tools": [own], "temperature": 0.1, **extra}
    async with FakeProviderServer([Turn(text="Hi.")]) as server:
        path = "/v1" if family in ("responses", "openai") else ""
        table = {"base_url": server.url + path, "family": {"openai": "chat"}.get(family, family), "body": body}
        provider = provider_named("acme", key="k", rows=read_rows({"acme": table}, "here"))
        agent = Agent(provider.model(model), tools=[shelf], options={"temperature": 0.7})
        await agent.run("hello")
        await agent.aclose()
        await provider.aclose()
    raw = server.requests[0].body
    sent = json.loads(raw)
    assert raw.count(b'"tools":') == 1
    assert len(sent[place]) == 2
    assert own.items() <= sent[place][1].items()
    assert b"shelf" in raw
    where = sent.get("generationConfig", sent)
    assert where["temperature"] == 0.7
    assert {"topK": 7}.items() <= where.items() or extra.items() <= sent.items()
