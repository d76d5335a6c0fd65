"""What a bus needs for many sessions, by their traces: `python -m tests.plugins.mesh.benchmarks.million 100000 300000`.

Each session is what one leaves behind: a record, and a log of three messages. No agent runs. The server does not sync,
which changes none of the figures but the time that this takes. Prints a line for each number.
"""

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from nats.js.api import PubAck

from sagent.plugins.mesh import names
from sagent.plugins.mesh import server as servers
from sagent.plugins.mesh.jetstream import JetStream, connected
from sagent.plugins.mesh.logstream import SessionStream
from sagent.plugins.mesh.mirror import take_over
from sagent.plugins.mesh.records import Records, SessionRecord, encode
from sagent.plugins.mesh.server import Server, ServerOptions, serving

IN_FLIGHT, LINE = 500, b"x" * 1_500
STREAMS = (names.LOG, f"KV_{names.SESSIONS}")


async def fill(bus: JetStream, first: int, last: int) -> None:
    context = bus.context
    for begin in range(first, last, IN_FLIGHT):
        waiting: list[asyncio.Future[PubAck]] = []
        for number in range(begin, min(begin + IN_FLIGHT, last)):
            record = SessionRecord(f"s{number:09}", "What is it?", flags={"model": "anthropic/x"}, state="idle")
            subject = names.log_subject(record.id)
            writes = [(f"$KV.{names.SESSIONS}.{record.id}", encode(record)), *((subject, LINE) for _ in range(3))]
            waiting += [await context.publish_async(*write) for write in writes]
        await asyncio.gather(*waiting)


def resident(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) // 1024 if found else 0


async def show(server: Server, bus: JetStream, number: int) -> None:
    sizes = [(await bus.context.stream_info(name)).state.bytes / 1e6 for name in STREAMS]
    records, times = Records(bus), list[float]()
    for work in (
        lambda: records.get(f"s{number // 2:09}"),
        lambda: take_over(SessionStream(bus, f"s{number // 3:09}"), "n"),
    ):
        began = time.perf_counter()
        await work()
        times.append(1e3 * (time.perf_counter() - began))
    print(
        f"{number:>9,} sessions: bus {resident(server.process.pid)} MB, logs {sizes[0]:.0f} MB, records "
        f"{sizes[1]:.0f} MB; a record is read in {times[0]:.1f} ms, a session taken over in {times[1]:.1f} ms",
        flush=True,
    )


def unsynced() -> None:
    """Have servers from here on not sync what they store."""
    configure = servers._configuration

    def without(options: ServerOptions, ports: Path) -> str:
        return configure(options, ports).replace("sync_interval: always", "sync_interval: 2m")

    servers._configuration = without


async def main(numbers: Sequence[int]) -> None:
    unsynced()
    with tempfile.TemporaryDirectory() as place:
        options = ServerOptions(Path(place) / "bus", port=0)
        async with serving(options) as server, connected(server.url) as bus:
            await bus.ensure()
        there = 0
        for number in numbers:
            async with serving(options) as server, connected(server.url) as bus:
                await fill(bus, there, there := number)
                await show(server, bus, number)
            began = time.perf_counter()
            async with serving(options) as server, connected(server.url) as bus:
                seconds = time.perf_counter() - began
                print(f"{'':>9} started again in {seconds:.1f} s: {resident(server.process.pid)} MB", flush=True)


if __name__ == "__main__":
    asyncio.run(main([int(text) for text in sys.argv[1:]]))
