"""Sessions whose tools were found, or came late, run again to the byte."""

from pathlib import Path

import pytest

from sagent.app import open_agent
from sagent.config import load
from sagent.plugins.lab.replay import replay
from sagent.plugins.lab.rerun import rerun
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.depth import later
from tests.plugins.mcp.test_late_tools import SELL, Shop, shop
from tests.plugins.toolsearch.test_deferred_tools import FAMILIES, NATIVE, Deploy, environment, names_sent, searched

__all__ = ["shop"]  # a fixture
MEANT = {"name": Deploy.name, "arguments": {"stage": "test"}}
STEPS = [Turn(calls=(Call("find_tools", {"query": "deploy"}),)), Turn(calls=(Call("call_tool", MEANT),)), Turn("x")]


@pytest.mark.parametrize("model", FAMILIES)
async def test_found_tools_replay_exactly(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    async with FakeProviderServer(STEPS) as server:
        where = environment(monkeypatch, tmp_path, server)
        flags = {"model": model, "permission_mode": "ask", "allow": [Deploy.name]}
        async with open_agent(load(flags, where, tmp_path / "work"), lambda _: None, more=[Deploy()]) as agent:
            await agent.run("deploy it")
            session = Path(agent.log.path)
    assert (await replay(session)).is_exact


@pytest.mark.parametrize("model", NATIVE)
async def test_native_search_replays_exactly(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = await searched(model, tmp_path, monkeypatch)
    assert (await replay(session)).is_exact


async def test_rerun_finds_tools_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    deploy = Deploy()
    async with FakeProviderServer(STEPS * 2) as server:
        where = environment(monkeypatch, tmp_path, server)
        settings = load({"model": "moonshot/kimi-k2.6", "permission_mode": "full"}, where, tmp_path / "work")
        async with open_agent(settings, lambda _: None, more=[deploy]) as agent:
            await agent.run("deploy it")
            session = Path(agent.log.path)
        done = await rerun(session, settings)
    assert (done.answered, done.missing) == (2, 0)
    assert deploy.calls == [{"stage": "test"}], "the second time the recording answers"
    assert names_sent(server.requests[3]) == names_sent(server.requests[0])


@later
@pytest.mark.costly
@pytest.mark.parametrize("model", FAMILIES)
@pytest.mark.parametrize("long", [0, 200], ids=["sent", "found"])
async def test_late_tools_replay_exactly(model: str, long: int, shop: Shop) -> None:
    async with shop.opened(model, long=long) as agent:
        await shop.grow(agent, through=long > 0)
        assert await shop.call(agent, SELL, {"what": "tea"}, through=True) == "sold tea"
        session = Path(agent.log.path)
    assert (await replay(session)).is_exact


@later
@pytest.mark.costly
@pytest.mark.parametrize("model", NATIVE)
async def test_late_native_search_replays_exactly(model: str, shop: Shop) -> None:
    config = f'[providers.{model.partition("/")[0]}]\nabilities = [{{ of = "", tool_search = true }}]\n'
    async with shop.opened(model, long=200, config=config) as agent:
        await shop.grow(agent, through=False)
        assert await shop.call(agent, SELL, {"what": "tea"}, through=False) == "sold tea"
        session = Path(agent.log.path)
    assert (await replay(session)).is_exact
