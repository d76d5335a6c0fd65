"""Tools that a server adds in the course of a session: called at once, judged like others, and what was sent stays."""

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sagent.agent import Agent
from sagent.app import open_agent
from sagent.config import load
from sagent.events import Denied, Event, Received
from sagent.messages import Message
from sagent.peer import SpawnRequest
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.depth import later
from tests.plugins.mcp.odd import SERVER, tool
from tests.plugins.toolsearch.test_deferred_tools import FAMILIES, NATIVE, environment, names_sent
from tests.waiting import until

CODE = {
    "grow": """
offer["tools"] += offer["more"][: params["arguments"].get("count", 1)]
OFFER.write_text(json.dumps(offer))
notify("notifications/tools/list_changed")
text = "grown"
""",
    "sell": "text = 'sold ' + params['arguments']['what']",
}
SELL = "mcp__shop__sell"


class Shop:
    """A session with a server whose tools are large, or not, and which adds one, or many."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self._monkeypatch = home, monkeypatch
        self.seen: list[Event] = []
        self.calls: list[Call] = []  # that the model makes, one after the other
        self.server = FakeProviderServer(lambda _: Turn(calls=(self.calls.pop(0),)) if self.calls else Turn("x"))

    @asynccontextmanager
    async def opened(
        self, model: str, *, long: int = 0, added: int = 0, config: str = "", **flags: object
    ) -> AsyncGenerator[Agent]:
        (self.home / "work").mkdir(exist_ok=True)
        sold = {"properties": {"what": {"type": "string"}}, "required": ["what"]}
        about = "Sells something. " + "It really does. " * added
        more = [tool(f"sell_{number}" if number else "sell", about, **sold) for number in range(200)]
        grow = tool("grow", "Takes up more work. " * long, properties={"count": {"type": "integer"}})
        offer = {"tools": [grow], "more": more, "code": CODE, "page": 100}
        (self.home / "shop.json").write_text(json.dumps(offer))
        file = self.home / ".config" / "sagent" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        argv = json.dumps([str(SERVER), str(self.home / "shop.json")])
        file.write_text(
            f'{config}\n[mcp.shop]\ncommand = "{sys.executable}"\nargs = {argv}\nneeds = ["all"]\nstart_timeout = 60\n'
        )
        async with self.server as server:
            where = environment(self._monkeypatch, self.home, server)
            given = {"model": model, "permission_mode": "full", "sandbox": "off", "web_tools": "off", **flags}
            async with open_agent(load(given, where, self.home / "work"), self.seen.append) as agent:
                yield agent

    async def grow(self, agent: Agent, *, through: bool, count: int = 1) -> str:
        """Have the model let the server grow; what it reads of that, at the end."""
        await self.call(agent, "mcp__shop__grow", {"count": count}, through=through, prompt="grow")
        await until(lambda: bool(self.news) or agent.state.inbox.holds("next"), "the message")
        await agent.run("what is new?")
        return self.news[0].content

    async def call(
        self, agent: Agent, name: str, arguments: Mapping[str, object], *, through: bool, prompt: str = "go"
    ) -> str:
        """Have the model call a tool, by its name or through `call_tool`; what it reads."""
        through_it = Call("call_tool", {"name": name, "arguments": arguments})
        self.calls.append(through_it if through else Call(name, arguments))
        await agent.run(prompt)
        return [result.text for message in agent.messages for result in message.results][-1]

    @property
    def news(self) -> list[Message]:
        return [one.message for one in self.seen if isinstance(one, Received) and one.message.sender == "mcp"]

    @property
    def heads(self) -> set[bytes]:
        """What all requests begin with, up to the first prompt."""
        return {request.body.partition(b'"grow"')[0] for request in self.server.requests}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)


@pytest.mark.costly
@pytest.mark.parametrize("model", FAMILIES)
@pytest.mark.parametrize("long", [0, 200], ids=["sent", "found"])
async def test_late_tool_callable_and_prefix_kept(model: str, long: int, shop: Shop) -> None:
    async with shop.opened(model, long=long) as agent:
        text = await shop.grow(agent, through=long > 0)
        assert await shop.call(agent, SELL, {"what": "tea"}, through=True) == "sold tea"
        wrong = await shop.call(agent, SELL, {}, through=True)
        if long:
            shop.calls.append(Call("find_tools", {"query": "sell"}))
            await agent.run("find")
            found = [result.text for message in agent.messages for result in message.results][-1]
            assert f"{SELL}: Sells something." in found and '"what"' in found
        calls = [call.name for message in agent.messages for call in message.calls]
    assert calls[:2] == ["mcp__shop__grow", SELL]
    assert "Invalid arguments" in wrong and "mcp__shop__sell" in wrong
    assert len(shop.heads) == 1, "what is sent first never changes"
    names = names_sent(shop.server.requests[-1])
    assert SELL not in names
    assert ("call_tool" in names, "find_tools" in names, "mcp__shop__grow" in names) == (True, long > 0, long == 0)
    if long:
        assert text.splitlines()[1:] == [f"New, found and called like other tools that are not shown at first: {SELL}"]
    else:
        assert f"New, called by call_tool, {SELL}: Sells something. Its arguments: " in text and '"what"' in text


@pytest.mark.costly
@pytest.mark.parametrize("model", NATIVE)
@pytest.mark.parametrize("long", [0, 200], ids=["sent", "found"])
async def test_late_tool_found_by_native_search(model: str, long: int, shop: Shop) -> None:
    config = f'[providers.{model.partition("/")[0]}]\nabilities = [{{ of = "", tool_search = true }}]\n'
    async with shop.opened(model, long=long, config=config) as agent:
        await shop.grow(agent, through=False)
        assert await shop.call(agent, SELL, {"what": "tea"}, through=not long) == "sold tea"
    sent: Any = shop.server.requests[-1].json["tools"]
    deferred = [tool["name"] for tool in sent if tool.get("defer_loading")]
    assert deferred == (["AgentSelf", "mcp__shop__grow", SELL] if long else [])
    assert (len(shop.heads) == 1) == (not long), "what is deferred is in the request, but not in what the model reads"


@later
async def test_late_tool_judged_and_hooked(shop: Shop) -> None:
    hook = shop.home / "hook.sh"
    hook.write_text(f"#!/bin/sh\necho asked >> {shop.home}/asked\n")
    hook.chmod(0o755)
    config = f'[[hooks.PostToolUse]]\nmatcher = "{SELL}"\nhooks = [{{type = "command", command = "{hook}"}}]\n'
    model = "moonshot/kimi-k2.6"
    async with shop.opened(model, config=config, deny=[SELL]) as agent:
        await shop.grow(agent, through=False)
        await shop.call(agent, SELL, {"what": "tea"}, through=True)
        assert [event.denial.tool for event in shop.seen if isinstance(event, Denied)] == [SELL]
    async with shop.opened(model, config=config) as agent:
        shop.seen.clear()
        await shop.grow(agent, through=False)
        assert await shop.call(agent, SELL, {"what": "tea"}, through=True) == "sold tea"
        assert (shop.home / "asked").exists()


@later
async def test_late_tools_bounded(shop: Shop) -> None:
    async with shop.opened("moonshot/kimi-k2.6", added=100) as agent:
        text = await shop.grow(agent, through=False, count=40)
        assert len(text) < 30_000
        described = text.count("New, called by call_tool, ")
        assert 5 < described < 40
        assert "from the next session on: sell_" in text
        assert "There is no tool named" in await shop.call(agent, "mcp__shop__sell_39", {"what": "tea"}, through=False)
    async with shop.opened("moonshot/kimi-k2.6", long=200) as agent:
        shop.seen.clear()
        await shop.grow(agent, through=True, count=200)
        late = [name for name in agent.state.tools if name.startswith(SELL)]
        assert len(late) == 127


@later
async def test_late_tool_reaches_subagents(shop: Shop) -> None:
    async with shop.opened("moonshot/kimi-k2.6", long=200) as agent:
        for name, tools in (("all", None), ("some", ("Read", "find_tools", "call_tool"))):
            await (await agent.spawn(SpawnRequest("wait", name=name, tools=tools, persistent=True))).wait()
        await shop.grow(agent, through=True)
        having = {each.path for each in agent.tree.living if SELL in each.state.tools}
    assert having == {"root", "root/all"}
