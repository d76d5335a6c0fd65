"""Agents that a program makes, 100 in one event loop: CPU of each, and the longest gap that they leave in the loop."""

import asyncio
import json
import time

from sagent.agent import Agent
from sagent.testing import ScriptedModel

COUNT = 100


async def construct() -> dict[str, float]:
    """ms of CPU of the `first` agent, made, run for a turn that is billed, and closed; of `each` of those after it; the
    longest `gap`, in ms of wall clock."""
    gaps: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async def one() -> None:
        await asyncio.sleep(0)
        agent = Agent(ScriptedModel("Hello.", provider="anthropic", model_id="claude-sonnet-4-6"))
        assert (await agent.run("hello")).cost.total > 0
        await agent.aclose()

    ticking = asyncio.create_task(tick())
    begun = time.process_time()
    await one()
    first = time.process_time() - begun
    begun = time.process_time()
    await asyncio.gather(*(one() for _ in range(COUNT)))
    each = (time.process_time() - begun) / COUNT
    ticking.cancel()
    return {"first": first * 1000, "each": each * 1000, "gap": max(gaps) * 1000}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(construct())))
