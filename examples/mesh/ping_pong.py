"""Two agents that play ping-pong: in one process, over a server of their own (NATS JetStream), and over HTTP.

python examples/mesh/ping_pong.py
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sagent.plugins.mesh.answering import answering
from sagent.plugins.mesh.bus import Bus, Delivery, message, request
from sagent.plugins.mesh.buses.http import http_bus
from sagent.plugins.mesh.buses.local import LocalBus
from sagent.plugins.mesh.buses.nats import nats_bus
from sagent.plugins.mesh.cards import Card
from sagent.plugins.mesh.server import ServerOptions, serving


async def pong(delivery: Delivery) -> object:
    """Counts up; a streamed answer says each number first."""
    count = delivery.envelope.body
    assert isinstance(count, int)
    for number in range(count):
        await delivery.emit(number)
    return count + 1


async def play(bus: Bus, other: Bus) -> None:
    """It is the same program wherever the two are."""
    async with answering(other, Card("game.pong", "Answers with the next number."), pong):
        count = 0
        while count < 3:
            answer = await request(bus, message("game.pong", count), timeout=10)
            assert isinstance(answer, int)
            print(f"ping {count}, pong {answer}")
            count = answer
        async with bus.asking(message("game.pong", 3), timeout=10) as frames:
            print([f"{frame.kind} {frame.body}" async for frame in frames])


@asynccontextmanager
async def http_server(state: str) -> AsyncGenerator[tuple[str, str]]:
    """A `sagent serve`, which carries a bus of its own; its URL and its token."""
    argv = [sys.executable, "-m", "sagent", "serve", "--output-format", "json"]
    server = await asyncio.create_subprocess_exec(*argv, env={**os.environ, "XDG_STATE_HOME": state}, stdout=PIPE)
    try:
        assert server.stdout is not None
        where = json.loads(await server.stdout.readline())
        yield where["url"], where["token"]
    finally:
        server.terminate()
        await server.communicate()


async def main() -> None:
    local = LocalBus()
    await play(local, local)
    with TemporaryDirectory() as folder:
        async with (
            serving(ServerOptions(Path(folder), port=0)) as server,
            nats_bus(server.url) as one,
            nats_bus(server.url) as other,
        ):
            await play(one, other)
        async with http_server(folder) as where, http_bus(*where) as one, http_bus(*where) as other:
            await play(one, other)


asyncio.run(main())
