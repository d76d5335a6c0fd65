"""What `sagent serve` shows of an agent that waits for money."""

import asyncio
from decimal import Decimal

from sagent.agent import Agent, Resources, RunLimits
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.plugins.serve.sessions import _show_agent
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel


async def test_wait_for_money_reported() -> None:
    ledger = Ledger(Decimal("0.01"), PriceBook({"scripted/scripted": {"input": 1, "output": 1}}))
    first = await ledger.reserve("root/a", "executor", "scripted", "scripted", 0, 9_000, 9_000)
    resources = Resources(ledger=ledger, log=MemoryLog(), path="root/b")
    async with Agent(ScriptedModel("Done."), limits=RunLimits(max_response_tokens=6_000), resources=resources) as agent:
        assert "waits" not in _show_agent(agent)
        run = asyncio.create_task(agent.run("go"))
        async with asyncio.timeout(60):
            while not (waits := _show_agent(agent).get("waits")):
                await asyncio.sleep(0.01)
        assert "root/a holds $0.009" in str(waits)
        first.release()
        await run
        assert "waits" not in _show_agent(agent)
