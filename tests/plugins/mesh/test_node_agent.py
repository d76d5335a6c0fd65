"""Agents on other nodes: one cap over all of them, whoever dies."""

import asyncio
import json
import re
import signal
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.cost.prices import PriceBook
from sagent.plugins.mesh.commands.node import opener
from sagent.plugins.mesh.node import Node
from sagent.plugins.mesh.remote import Mesh
from sagent.plugins.mesh.session_worker import NodeOptions
from sagent.plugins.mesh.tasks import end
from sagent.testing.server import Call, Received, Step, Turn
from tests.depth import later, slow
from tests.plugins.mesh.places import MODEL, by_results, place


@slow
async def test_remote_child_survives_parent_node(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def choose(received: Received) -> Step:
        messages = json.loads(received.body)["messages"]
        done = sum(message["role"] == "assistant" for message in messages)
        if re.search("a part", str(messages[0])):
            return (Turn(calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 2"}),)), Turn("The part."))[done]
        call = Call("NodeAgent", {"prompt": "Do a part.", "label": "gpu", "budget_usd": 0.2}, id="c1")
        return (Turn("I ask.", calls=(call,)), Turn("All done."))[done]

    async with place(tmp_path, choose, bill="worst") as here, asyncio.timeout(60):
        first = await here.node("n1", "--label", "parent")
        await here.node("n2", "--label", "gpu")
        async with Mesh(here.bus).spawn("work", label="parent", flags={"max_budget_usd": "0.5"}) as peer:
            while not begun.exists():
                await asyncio.sleep(0.05)
            await here.node("n3", "--label", "parent")
            first.kill(signal.SIGKILL)
            result = await peer.wait()
        assert result.content == "All done."
        last = json.dumps(here.server.requests[-1].json)
        assert "The part." in last
        assert begun.read_text() == "\n"  # begun once
        prices = (PriceBook().price("anthropic", "claude-sonnet-4-6", usage) for usage in here.server.billed)
        assert sum(price or 0 for price in prices) <= result.cost.total + result.cost.unbilled <= Decimal("0.5")


@later
async def test_unknown_label_returns_allowance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.mesh.remote._LABEL_CHECK_DELAY_SECONDS", 0.3)
    call = Call("NodeAgent", {"prompt": "Do a part.", "label": "gqu", "budget_usd": 0.2}, id="c1")
    async with place(tmp_path, by_results([Turn("I ask.", calls=(call,)), Turn("All done.")])) as here:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", here.server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        await here.node("n2", "--label", "gpu")
        options = NodeOptions("n1", 2, ("parent",), tmp_path / "n1")
        flags = {"model": MODEL, "permission_mode": "full", "sandbox": "off"}
        working = asyncio.create_task(Node(here.bus, options, opener(flags), pytest.fail).run())
        flags = {"max_budget_usd": "0.5"}
        async with asyncio.timeout(60), Mesh(here.bus).spawn("work", label="parent", flags=flags) as peer:
            result = await peer.wait()
        await end(working)
        assert (result.content, result.error) == ("All done.", None)
        said = json.dumps(here.server.requests[-1].json)
        assert "No node" in said and "label 'gqu'" in said
        assert "The labels are: gpu, parent." in said
        assert result.cost.total + result.cost.unbilled < Decimal("0.2")
        child = next(record for record in await Mesh(here.bus).sessions() if record.label == "gqu")
        assert (child.state, child.result is not None) == ("idle", True)


@later
async def test_answered_child_spends_no_more(tmp_path: Path) -> None:
    """What is left of an allowance is the caller's again, whoever writes to the agent afterwards. And servers give the
    calls of two replies the same id."""

    def choose(received: Received) -> Step:
        messages = json.loads(received.body)["messages"]
        done = sum(message["role"] == "assistant" for message in messages)
        if part := re.search("Do part ([12])", str(messages[0])):
            return Turn(f"This is part {part[1]}.")
        calls = [Call("NodeAgent", {"prompt": f"Do part {n}.", "budget_usd": 0.2}, id="c1") for n in (1, 2)]
        return (Turn("First.", calls=(calls[0],)), Turn("Then.", calls=(calls[1],)), Turn("All done."))[done]

    async with place(tmp_path, choose, bill="worst") as here, asyncio.timeout(60):
        await here.node("n1", "--slots", "4")
        mesh = Mesh(here.bus)
        async with mesh.spawn("work", flags={"max_budget_usd": "1"}) as peer:
            assert (await peer.wait()).content == "All done."
        last = json.dumps(here.server.requests[-1].json)
        assert "This is part 1." in last
        assert "This is part 2." in last
        children = [record for record in await mesh.sessions() if record.id != peer.path]
        asked = len(here.server.requests)
        for child in children:
            async with mesh.agent(child.id) as again:
                again.send("Go on.")
                result = await again.wait()
                assert result.error is not None
                assert result.error.kind == "budget"
                assert Decimal(child.flags["max_budget_usd"]) == result.cost.total + result.cost.unbilled
        assert (len(children), len(here.server.requests)) == (2, asked)
