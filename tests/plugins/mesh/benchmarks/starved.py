"""How a fleet works whose nodes hardly run: `python -m tests.plugins.mesh.benchmarks.starved 4 30 0.05`.

So many nodes work on so many sessions, each of three model calls and two commands, and run only for this part of the
time: each of them is stopped and continued in a random pattern, as a machine does that has far too much to do. Prints
how many sessions have ended, how many model calls were made, and the longest time without one.
"""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from sagent.plugins.mesh.remote import Mesh
from sagent.testing.server import Call, Turn
from tests.plugins.mesh.places import Place, by_results, place

LIMIT_SECONDS = 180.0  # of a run
SHORTEST_STOP, LONGEST_STOP = 0.3, 3.0  # seconds that a node stands still


async def starve(pid: int, part: float, chance: random.Random) -> None:
    """Let a process run only for a part of the time."""
    with contextlib.suppress(ProcessLookupError):
        try:
            while True:
                rest = chance.uniform(SHORTEST_STOP, LONGEST_STOP)
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(rest)
                os.kill(pid, signal.SIGCONT)
                await asyncio.sleep(rest * part / (1 - part))
        finally:
            os.kill(pid, signal.SIGCONT)


async def run(here: Place, sessions: int, part: float) -> None:
    mesh, ended = Mesh(here.bus), list[float]()
    chance = random.Random(5)
    starving = [asyncio.create_task(starve(node.process.pid, part, chance)) for node in here.nodes.values()]
    began = time.monotonic()

    async def ask(number: int) -> None:
        async with mesh.spawn(f"This is session {number}.") as peer:
            result = await peer.wait()
            assert result.content == "Done.", result
            ended.append(time.monotonic() - began)

    asking = [asyncio.create_task(ask(number)) for number in range(sessions)]
    await asyncio.wait(asking, timeout=LIMIT_SECONDS)
    for task in (*asking, *starving):
        task.cancel()
    failed = await asyncio.gather(*asking, return_exceptions=True)
    calls = sorted([began, *(request.at for request in here.server.requests), time.monotonic()])
    pause = max(later - earlier for earlier, later in itertools.pairwise(calls))
    print(
        f"{len(ended)} of {sessions} sessions ended in {time.monotonic() - began:.0f} s, {len(calls) - 2} model calls "
        f"of {3 * sessions} needed, at most {pause:.0f} s without one; load {os.getloadavg()[0]:.1f}"
    )
    print("\n".join({str(error) for error in failed if isinstance(error, Exception)}))


async def main(nodes: int, sessions: int, part: float) -> None:
    calls = [Turn(f"Step {step}.", calls=(Call("Bash", {"command": "true"}),)) for step in range(2)]
    with tempfile.TemporaryDirectory() as directory:
        async with place(Path(directory), by_results([*calls, Turn("Done.")])) as here:
            for number in range(nodes):
                await here.node(f"n{number}", "--slots", "8")
            await run(here, sessions, part)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
