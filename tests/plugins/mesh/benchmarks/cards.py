"""What it costs to find agents among many on a bus: `python -m tests.plugins.mesh.benchmarks.cards 10000`.

A hundred namespaces, each with the same number of agents. The server does not sync, which changes none of the figures
but the time that putting them takes. Prints a line for each query.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from nats.js.api import PubAck

from sagent.lib.json import wire_bytes
from sagent.plugins.mesh import names
from sagent.plugins.mesh.buses.nats import NatsBus, nats_bus
from sagent.plugins.mesh.cards import Card, Query, encode_card
from sagent.plugins.mesh.discovery import find
from sagent.plugins.mesh.server import ServerOptions, serving
from tests.plugins.mesh.benchmarks.million import unsynced

NAMESPACES, ROUNDS, IN_FLIGHT = 100, 20, 500
QUERIES = {
    "one agent": [Query("team7.agent3")],
    "a namespace": [Query("team7")],
    "ten namespaces": [Query(f"team{number}") for number in range(10)],
    "all": [Query()],
}


async def fill(bus: NatsBus, number: int) -> None:
    context = bus.jetstream.context
    for begin in range(0, number, IN_FLIGHT):
        waiting: list[asyncio.Future[PubAck]] = []
        for each in range(begin, min(begin + IN_FLIGHT, number)):
            card = Card(f"team{each % NAMESPACES}.agent{each // NAMESPACES}", "Reviews code.", labels=("gpu",))
            subject = f"$KV.{names.CARDS}.{card.address}"
            waiting.append(await context.publish_async(subject, wire_bytes(encode_card(card))))
        await asyncio.gather(*waiting)


async def show(bus: NatsBus, number: int) -> None:
    for title, queries in QUERIES.items():
        await fill(bus, number)  # they expire
        times, count = list[float](), 0
        for _ in range(1 if title == "all" else ROUNDS):
            began, before = time.perf_counter(), bus.jetstream._client.stats["in_msgs"]
            found = await find(bus, *queries)
            times.append(1e3 * (time.perf_counter() - began))
            count = bus.jetstream._client.stats["in_msgs"] - before
        cards = sum(map(len, found))
        print(
            f"{number:>9,} agents: {title}: {cards:,} cards, {count:,} messages, median "
            f"{statistics.median(times):.1f} ms, most {max(times):.1f} ms",
            flush=True,
        )


async def measure(numbers: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with serving(ServerOptions(Path(directory), port=0)) as server, nats_bus(server.url) as bus:
            for number in numbers:
                await show(bus, number)


if __name__ == "__main__":
    unsynced()
    asyncio.run(measure([*map(int, sys.argv[1:])] or [10_000]))
