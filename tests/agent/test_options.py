"""Request options: who sends them, to whom, and that a cap holds with them."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.advisor.advisor import parse_advisor
from sagent.agent import Agent, Resources
from sagent.app.assembly import open_agent
from sagent.config import load
from sagent.config.settings import Settings
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ConfigError, UsageError
from sagent.peer import SpawnRequest, Switch
from sagent.providers.registry import provider_named
from sagent.session.contents import Opened
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from sagent.testing.server import FakeProviderServer, Turn

FAMILIES = {
    "anthropic": "anthropic/claude-sonnet-4-6",
    "responses": "openai/gpt-5.6-terra",
    "chat": "moonshot/kimi-k2.6",
    "google": "google/gemini-3.1-pro-preview",
}
PATHS = {"openai": "/v1", "moonshot": "/v1"}
PRICES = {"scripted/scripted": {"input": "1", "output": "1"}}


@pytest.mark.parametrize("family", FAMILIES)
async def test_every_family_sends_them(family: str) -> None:
    name, _, model = FAMILIES[family].partition("/")
    async with FakeProviderServer([Turn(text="Hi.")]) as server:
        provider = provider_named(name, key="k", base_url=server.url + PATHS.get(name, ""))
        agent = Agent(provider.model(model), options={"temperature": 0.25, "top_p": 0.5})
        await agent.run("hello")
        await agent.aclose()
        await provider.aclose()
    body = json.loads(server.requests[0].body)
    where, top_p = (body["generationConfig"], "topP") if family == "google" else (body, "top_p")
    assert (where["temperature"], where[top_p]) == (0.25, 0.5)
    assert family != "google" or {"temperature", "top_p"}.isdisjoint(body)


@pytest.mark.parametrize(
    ("options", "capped", "said"),
    [
        ({"max_tokens": 5}, False, "'max_tokens' cannot be set: set by max_response_tokens"),
        ({"generationConfig": {"candidateCount": 2}}, False, "'candidateCount' cannot be set"),
        ({"n": 8}, False, "'n' cannot be set: always one answer"),
        ({"temperature": 0.2, "service_tier": "priority"}, True, "'service_tier' might change"),
        ({"generationConfig": {"thinkingConfig": {}}}, True, "'thinkingConfig' might change"),
        ({"temperature": {1, 2}}, False, "not a JSON value"),
        ({"temperature": float("nan")}, False, "options.temperature: not a JSON value: nan"),
    ],
)
def test_unkeepable_options_are_refused(options: dict, capped: bool, said: str) -> None:
    resources = Resources(ledger=Ledger(Decimal(1) if capped else None, PriceBook(PRICES)))
    with pytest.raises(UsageError, match=said):
        Agent(ScriptedModel(), options=options, resources=resources)


async def test_child_inherits_options_of_provider() -> None:
    other = ScriptedModel(provider="other")
    resources = Resources(
        ledger=Ledger(None, PriceBook(PRICES)),
        resolve=lambda name: other if name.startswith("other") else ScriptedModel(),
    )
    agent = Agent(ScriptedModel(), options={"temperature": 0.2, "service_tier": "flex"}, resources=resources)
    orders = (
        SpawnRequest("x"),
        SpawnRequest("x", model="other/m"),
        SpawnRequest("x", options={"top_k": 3}),
        SpawnRequest("x", options={}),
    )
    children = [await agent.spawn(order) for order in orders]
    sent = [child.state.context.request().options for child in children]
    assert sent == [{"temperature": 0.2, "service_tier": "flex"}, {}, {"top_k": 3}, {}]
    with pytest.raises(UsageError, match="'service_tier' might change"):
        await agent.spawn(SpawnRequest("x", budget_usd=Decimal(1)))
    agent.apply(Switch(model="other/m"))
    assert agent.state.context.request().options == {}
    agent.apply(Switch(model="scripted/scripted"))
    assert agent.state.context.request().options["temperature"] == 0.2
    await agent.aclose()


async def test_advisor_has_its_own_temperature() -> None:
    spec = "critic=scripted/wise,temperature=0.4,max_calls=2"
    assert str(parse_advisor(spec)) == "critic=scripted/wise,temperature=0.4,max_calls=2"
    for wrong in ("hot", "-1", "nan", "inf"):
        with pytest.raises(UsageError, match="give a number, at least 0"):
            parse_advisor(f"critic=scripted/wise,temperature={wrong}")


async def test_lasting_child_gets_options_again(tmp_path: Path) -> None:
    def begin(session: Session) -> Agent:
        return Agent(ScriptedModel("ok"), resources=Resources(log=session.log()))

    with Session.create_at(tmp_path / "s") as session:
        session.log().append(Opened(session.id, "root", str(tmp_path), {}))
        agent = begin(session)
        child = await agent.spawn(SpawnRequest("x", "a", persistent=True, options={"top_k": 3}))
        await child.wait()
        await agent.aclose()
    with Session.open(tmp_path / "s") as session:
        agent = begin(session)
        await agent.resume()
        (again,) = agent.peers("a")
        assert again.state.context.request().options == {"top_k": 3}
        await agent.aclose()


async def test_options_by_flag_variable_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text('[options]\ntop_p = 0.5\nmetadata = { user_id = "u" }\n')
    monkeypatch.setenv("SAGENT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("SAGENT_OPTIONS", "seed=7")
    async with FakeProviderServer([Turn(text="Hi.")]) as server:
        flags = {"cwd": str(tmp_path), "model": "m", "base_url": f"{server.url}/v1", "ephemeral": True}
        settings: Settings = load({**flags, "option": ["temperature=0.2", "stop=END", "top_p=0.6", "user=NaN"]})
        async with open_agent(settings, lambda _: None) as agent:
            await agent.run("hello")
    body = json.loads(server.requests[-1].body)
    expected = {"top_p": 0.6, "metadata": {"user_id": "u"}, "seed": 7, "temperature": 0.2, "stop": "END", "user": "NaN"}
    assert {name: body.get(name) for name in expected} == expected
    for wrong in ("temperature", "=3"):
        with pytest.raises(ConfigError, match="give NAME=VALUE, as in temperature="):
            load({**flags, "option": [wrong]})


@pytest.mark.parametrize(
    ("body", "cap", "said"),
    [
        ('{ service_tier = "priority" }', "1", "body.service_tier in .providers.acme. cannot be set: a budget is"),
        ("{ n = 4 }", None, "body.n in .providers.acme. cannot be set: always one answer"),
        ('{ tools = [{ type = "function" }] }', None, "function is not run by the provider"),
        ('{ tools = [{ type = "web_search" }] }', "1", "give the option max_tool_calls too"),
    ],
)
async def test_own_row_may_not_set_reserved_members(
    body: str, cap: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = f'[providers.acme]\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "k"\nbody = {body}\n'
    (tmp_path / "config.toml").write_text(f'{row}[prices."acme/m"]\ninput = 1\noutput = 1\n')
    monkeypatch.setenv("SAGENT_CONFIG", str(tmp_path / "config.toml"))
    settings = load({"cwd": str(tmp_path), "model": "acme/m", "max_budget_usd": cap, "ephemeral": True})
    with pytest.raises(UsageError, match=said):
        async with open_agent(settings, lambda _: None):
            pass
