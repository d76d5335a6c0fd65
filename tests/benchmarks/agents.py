"""Agents in this process, against the provider that the environment leads to; prints what it took as JSON.

`swarm`: argv[2] agents spawned by one root, argv[3] alive at a time, each of two turns with a call of List between:
wall and CPU seconds of all, and the peak of this process's memory in MB.
`preempt`: a message to an agent whose Bash runs for a minute: when it was sent (seconds of the monotonic clock).
`library`: argv[2] agents as a program makes them: the mean CPU to make each but the first, and the longest time that
the event loop was not free while each answers a prompt, in milliseconds.
"""

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from sagent.agent import Agent
from sagent.app import open_agent
from sagent.config import load
from sagent.peer import SpawnRequest
from sagent.providers import Anthropic


async def swarm(count: int, alive: int) -> dict[str, float]:
    """Spawn them all, and wait for each."""
    bounds = {"max_spawns": str(count + 100), "max_live_agents": str(alive), "max_exchanges": "none"}
    settings = load({**flags(), **bounds})
    async with open_agent(settings, lambda event: None) as root:
        places = asyncio.Semaphore(alive)
        await (await root.spawn("first")).wait()  # the price of a start is another figure
        before, started = cpu(), time.monotonic()

        async def one(number: int) -> None:
            async with places:
                result = await (await root.spawn(SpawnRequest(f"task {number}"))).wait()
                if result.turns != 2 or result.error:
                    raise RuntimeError(f"agent {number} came to {result}")

        await asyncio.gather(*map(one, range(count)))
        return {"wall": time.monotonic() - started, "cpu": cpu() - before, "memory": peak()}


async def preempt(_count: int, _alive: int) -> dict[str, float]:
    """Send a message to an agent in a long command."""
    async with open_agent(load(flags()), lambda event: None) as root:
        child = await root.spawn(SpawnRequest("sleep", persistent=True))
        while child.status().turns < 1:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # the shell has started
        sent = time.monotonic()
        child.send("wake up")
        while child.status().turns < 2:
            await asyncio.sleep(0.001)
        return {"sent": sent}


async def library(count: int, _alive: int) -> dict[str, float]:
    """Make agents, and prompt them all at once."""
    provider = Anthropic.from_env()
    first = Agent(provider.model("claude-sonnet-4-6"))
    before = cpu()
    agents = [Agent(provider.model("claude-sonnet-4-6")) for _ in range(count)]
    made = 1000 * (cpu() - before) / count
    await first.run("hello")
    gaps: list[float] = []

    async def watch() -> None:
        while True:
            slept = time.monotonic()
            await asyncio.sleep(0.001)
            gaps.append(1000 * (time.monotonic() - slept) - 1)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(agent.run("hello") for agent in agents))
    watching.cancel()
    for agent in (first, *agents):
        await agent.aclose()
    await provider.aclose()
    return {"made": made, "gap": max(gaps)}


def flags() -> dict[str, str]:
    """The settings of a run, as flags."""
    return {"model": "anthropic/claude-sonnet-4-6", "permission_mode": "full", "cwd": str(Path.cwd())}


def cpu() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak() -> float:
    """The most memory this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    modes = {"swarm": swarm, "preempt": preempt, "library": library}
    print(json.dumps(asyncio.run(modes[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3])))))
