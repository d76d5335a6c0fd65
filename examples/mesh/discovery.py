"""Agents that come and go: who watches sees it, and a triage chooses among those that are there when it is asked.

python examples/mesh/discovery.py
"""

import asyncio

from sagent import Agent
from sagent.plugins.mesh.answering import TriageOnBus, answering, by_agent
from sagent.plugins.mesh.bus import Bus
from sagent.plugins.mesh.buses.local import LocalBus
from sagent.plugins.mesh.cards import Card, Query
from sagent.plugins.mesh.discovery import find, watching
from sagent.testing import ScriptedModel


async def watch(bus: Bus, seen: asyncio.Event) -> None:
    async with watching(bus, Query("desk")) as changes:
        async for change in changes:
            if change is None:
                seen.set()
            else:
                print(f"{change.address} {'is gone' if change.card is None else 'is there'}")


async def main() -> None:
    bus, seen = LocalBus(), asyncio.Event()  # nats_bus(url) for several machines
    watcher = asyncio.create_task(watch(bus, seen))
    await seen.wait()
    async with (
        Agent(ScriptedModel("Your money is on its way.")) as refunds,
        Agent(ScriptedModel("Turn it off and on again.")) as repairs,
        Agent(ScriptedModel("desk.repairs", "desk.refunds")) as chooser,
    ):
        desk = TriageOnBus(chooser, bus, Query("desk", labels=("customers",)))
        mends = Card("desk.repairs", "Helps with what is broken.", labels=("customers",))
        async with answering(bus, mends, by_agent(repairs)):
            print((await desk.run("My lamp does not work.")).content)
            pays = Card("desk.refunds", "Gives money back.", labels=("customers",))
            async with answering(bus, pays, by_agent(refunds)):
                print((await desk.run("I want my money back.")).content)
                queries = Query("desk"), Query("desk", labels=("staff",)), Query("des")
                print([[card.address for card in cards] for cards in await find(bus, *queries)])
    watcher.cancel()


asyncio.run(main())
