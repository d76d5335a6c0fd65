"""Agents in this process, against the provider that the environment leads to; prints what it took as JSON.

`swarm`: argv[2] agents spawned by one root, 32 alive at a time, each of two turns with a call of List between: wall and
CPU seconds of all, and the peak of this process's memory in MB. `preempt`: a message to an agent whose Bash runs for a
minute; prints when it was sent (seconds of the monotonic clock).
"""

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from sagent.app import open_agent
from sagent.config import load
from sagent.peer import SpawnRequest

LIVE = 32


async def swarm(count: int) -> dict[str, float]:
    """Spawn them all, and wait for each."""
    settings = load({**flags(), "max_spawns": str(count + 100), "max_live_agents": str(LIVE)})
    async with open_agent(settings, lambda event: None) as root:
        places = asyncio.Semaphore(LIVE)
        await (await root.spawn("first")).wait()  # the price of a start is another figure
        before, started = cpu(), time.monotonic()

        async def one(number: int) -> None:
            async with places:
                result = await (await root.spawn(SpawnRequest(f"task {number}"))).wait()
                if result.turns != 2 or result.error:
                    raise RuntimeError(f"agent {number} came to {result}")

        await asyncio.gather(*map(one, range(count)))
        return {"wall": time.monotonic() - started, "cpu": cpu() - before, "memory": peak()}


async def preempt(_count: int) -> dict[str, float]:
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
    print(json.dumps(asyncio.run({"swarm": swarm, "preempt": preempt}[sys.argv[1]](int(sys.argv[2])))))
