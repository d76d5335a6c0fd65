"""A notification for somebody who is not there yet: it waits, is read once, and what nobody reads in time is reported.

python examples/mesh/notification.py
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from sagent import Agent
from sagent.plugins.mesh.bus import Bus, message
from sagent.plugins.mesh.buses.nats import nats_bus
from sagent.plugins.mesh.errors import NobodyThere
from sagent.plugins.mesh.server import ServerOptions, serving
from sagent.testing import ScriptedModel


async def work(bus: Bus) -> None:
    """Works, and leaves word of how it went. Returns when the bus has it on its disk."""
    async with Agent(ScriptedModel("All 212 tests pass now.")) as agent:
        result = await agent.run("Make the tests pass.")
    await bus.send(message("people.ann", result.content, kind="failed" if result.is_error else "done"))


async def read(bus: Bus) -> None:
    """Comes later, in another process if you like."""
    async with bus.receiving("people.ann") as deliveries:
        delivery = await anext(deliveries)
        print(f"{delivery.envelope.kind}: {delivery.envelope.body}")
        await delivery.ack()  # without this it would come again


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with serving(ServerOptions(Path(folder), port=0)) as server:
            async with nats_bus(server.url) as bus:
                await work(bus)
            async with nats_bus(server.url) as bus:
                await read(bus)
                sent = await bus.send(message("people.bob", "Lunch?", keep=0.5))
                try:
                    await sent.taken()
                except NobodyThere as error:
                    print(error)


asyncio.run(main())
