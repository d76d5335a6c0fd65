"""What sessions cost that rest on a bus: `python -m tests.plugins.mesh.benchmarks.scale 1000 5000 10000`.

A node works on each session once, with a model that answers at once, and then all of them rest. Prints a line for each
of the numbers: memory of the node and of the bus, the bus's disk, and what JetStream has to keep. At last some of the
sessions are sent another message. docs/scale.md has the figures of one run.
"""

import asyncio
import random
import re
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from sagent.messages import user
from sagent.plugins.mesh import names
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.records import InboxMessage, Records, SessionRecord, decode
from sagent.plugins.mesh.remote import Mesh, RemotePeer
from sagent.testing.server import Turn
from tests.plugins.mesh.places import Place, place

AT_ONCE, AGAIN = 200, 20  # sessions that are asked for at a time; sessions that are sent another message


def resident(pid: int) -> float:
    """MB of a process, of which nothing is shared with others but files."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def on_disk(directory: Path) -> float:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file()) / 1e6


@asynccontextmanager
async def resting(bus: JetStream) -> AsyncGenerator[set[str]]:
    """The sessions that rest, as a set that is kept up to date."""
    found = set[str]()

    async def follow() -> None:
        async with bus.bucket(names.SESSIONS).watching() as changes:
            async for entry in changes:
                if entry is not None and entry.value and decode(SessionRecord, entry.value).state == "idle":
                    found.add(entry.key)

    task = asyncio.create_task(follow())
    try:
        yield found
    finally:
        task.cancel()


async def fill(mesh: Mesh, idle: set[str], number: int) -> None:
    while (there := len(idle)) < number:
        more = min(AT_ONCE, number - there)
        await asyncio.gather(*(mesh.submit(f"What is {each}?") for each in range(more)))
        while len(idle) < there + more:
            await asyncio.sleep(0.2)


async def line(here: Place, number: int, seconds: float) -> None:
    assert here.broker is not None
    node, broker = here.nodes["n0"].process.pid, here.broker.process.pid
    context = here.bus.context
    kept, consumers = 0, 0
    for stream in await context.streams_info():
        kept += stream.state.messages
        consumers += stream.state.consumer_count
    began = time.perf_counter()
    await Records(here.bus).all()
    listing = time.perf_counter() - began
    print(
        f"{number:>6} sessions: node {resident(node):.0f} MB, bus {resident(broker):.0f} MB, "
        f"store {on_disk(here.directory / 'bus' / 'store'):.0f} MB, node's files "
        f"{on_disk(here.directory / 'home-n0'):.0f} MB, {kept:,} messages, {consumers} consumers, "
        f"{seconds:.0f} s, all records read in {listing:.2f} s",
        flush=True,
    )


async def again(here: Place) -> list[float]:
    """Seconds until a session that rested has answered another message."""
    records, found = Records(here.bus), list[float]()
    for record in random.Random(1).sample(await records.all(), AGAIN):
        async with RemotePeer.attached(here.bus, record) as peer:
            began = time.perf_counter()
            peer.expect(await records.send(record, InboxMessage(user("And now?"))))
            assert (await peer.wait()).content == "Done."
            found.append(time.perf_counter() - began)
    return sorted(found)


async def main(numbers: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with place(Path(directory), lambda _: Turn("Done.")) as here, resting(here.bus) as idle:
            await here.node("n0", "--slots", "16")
            began = time.perf_counter()
            for number in (0, *numbers):
                await fill(Mesh(here.bus), idle, number)
                await asyncio.sleep(15)  # readers that are not used any more are forgotten
                await line(here, number, time.perf_counter() - began)
            seconds = await again(here)
            print(f"another message is answered: median {seconds[AGAIN // 2]:.2f} s, most {seconds[-1]:.2f} s")


if __name__ == "__main__":
    asyncio.run(main([int(text) for text in sys.argv[1:]]))
