"""What a bus costs a turn, and how long a session is without a node: `python -m tests.plugins.mesh.benchmarks.mesh`.

Prints a table; docs/scale.md has the figures of one run.
"""

import asyncio
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from sagent.plugins.mesh.bus import Address, message, request
from sagent.plugins.mesh.bus_suite import answering
from sagent.plugins.mesh.buses.nats import nats_bus
from sagent.plugins.mesh.jetstream import connected
from sagent.plugins.mesh.logstream import SessionStream
from sagent.plugins.mesh.mirror import Mirror, take_over
from sagent.plugins.mesh.rebuild import rebuild
from sagent.plugins.mesh.server import ServerOptions, serving
from sagent.session.contents import Label
from sagent.session.store import Session
from sagent.testing.server import Call, Turn
from tests.plugins.mesh.places import Place, by_results, place

TURNS = 500
LINE = "x" * 1_000  # of an entry, about what a message has


async def cost_of_a_turn(directory: Path) -> list[float]:
    """Seconds in which what a turn appends is acknowledged: results and a reply, then a request and its bill."""
    async with serving(ServerOptions(directory / "bus", port=0)) as server, connected(server.url) as bus:
        await bus.ensure()
        stream, seconds = SessionStream(bus, "s"), list[float]()
        mirror = Mirror(stream, await take_over(stream, "n"))
        running = asyncio.create_task(mirror.run())
        with Session.create_at(directory / "s") as session:
            mirror.follow(session)
            log = session.log()
            for _ in range(TURNS):
                for _ in range(4):
                    log.append(Label(LINE))
                began = time.perf_counter()
                await mirror.settled()
                seconds.append(time.perf_counter() - began)
            began = time.perf_counter()
            await rebuild(stream, directory / "again")
            print(f"a session of {TURNS * 4:,} entries rebuilt: {time.perf_counter() - began:.2f} s")
        running.cancel()
    return seconds


async def requests(directory: Path, times: int = 300) -> tuple[list[float], list[float]]:
    """Seconds of a request and its reply: by NATS alone, which keeps nothing, and by the bus, which keeps both."""
    plain, kept = list[float](), list[float]()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(ServerOptions(directory / "bus", port=0)))
        mine, other = [await stack.enter_async_context(nats_bus(server.url)) for _ in range(2)]
        handler = answering(other, Address("bench.echo"), lambda each: each.reply("pong"))
        await stack.enter_async_context(handler)
        questions = await stack.enter_async_context(other.jetstream.listening("sagent.control.bench"))

        async def echo() -> None:
            async for question in questions:
                await question.respond(b"pong")

        task = asyncio.create_task(echo())
        stack.callback(task.cancel)
        for _ in range(times):
            began = time.perf_counter()
            await mine.jetstream.request("sagent.control.bench", b"ping")
            plain.append(time.perf_counter() - began)
            began = time.perf_counter()
            await request(mine, message("bench.echo", "ping"))
            kept.append(time.perf_counter() - began)
    return plain, kept


async def take_over_times(directory: Path, times: int) -> list[float]:
    """Seconds from the end of a node by kill -9 to the next request to the model, from another node."""
    turns = [Turn("One.", calls=(Call("Bash", {"command": "sleep 30"}),)), Turn("Done.")]
    found = list[float]()
    async with place(directory, by_results(turns)) as here:
        node = await here.node("n0")
        for number in range(times):
            before = len(here.server.requests)
            asking = asyncio.create_task(here.ask("--json", f"work {number}"))
            while len(here.server.requests) == before:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.7)  # the command runs
            other = await here.node(f"n{number + 1}")
            node.kill(signal.SIGKILL)
            killed, node = time.monotonic(), other
            await asking
            found.append(here.server.requests[-1].at - killed)
    return found


async def overhead(directory: Path, times: int) -> list[float]:
    """Seconds from a prompt on the bus to its result, with a model that answers at once."""
    async with place(directory, by_results([Turn("Done.")])) as here:
        await here.node("n0")
        return [await _timed(here) for _ in range(times)]


async def _timed(here: Place) -> float:
    began = time.monotonic()
    _, out, _ = await here.ask("--json", "hello")
    assert json.loads(out)["result"] == "Done."
    return time.monotonic() - began


def show(what: str, seconds: Sequence[float], unit: float = 1e3, name: str = "ms") -> None:
    ordered = sorted(seconds)
    median, high = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
    shown = (
        f"{label} {value * unit:.2f} {name}"
        for label, value in (("median", median), ("95 %", high), ("most", ordered[-1]))
    )
    print(f"{what}: {', '.join(shown)}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        show("a turn's acknowledgement", await cost_of_a_turn(Path(directory)))
    with tempfile.TemporaryDirectory() as directory:
        plain, kept = await requests(Path(directory))
        show("request and reply by NATS alone", plain)
        show("request and reply by the bus", kept)
    with tempfile.TemporaryDirectory() as directory:
        show("a prompt on the bus, program start included", await overhead(Path(directory), 5))
    with tempfile.TemporaryDirectory() as directory:
        show("take-over after kill -9", await take_over_times(Path(directory), int(sys.argv[1])), 1.0, "s")


if __name__ == "__main__":
    asyncio.run(main())
