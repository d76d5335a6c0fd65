"""Chains, branches and triage whose members are agents on a bus, on whatever machines they are.

python examples/mesh/patterns.py
"""

import asyncio
from contextlib import AsyncExitStack

from sagent import Agent
from sagent.plugins.mesh.answering import AgentAt, answering, by_agent
from sagent.plugins.mesh.bus import Bus
from sagent.plugins.mesh.buses.local import LocalBus
from sagent.plugins.mesh.cards import Card
from sagent.plugins.teams import parallel, sequential, triage
from sagent.testing import ScriptedModel

THERE = {
    "desk.writer": ("Writes a draft.", "A draft."),
    "desk.costs": ("Says what something costs.", "It costs 3."),
    "desk.risks": ("Says what may go wrong.", "It may rain."),
}


async def use(bus: Bus) -> None:
    """It is the same program wherever the agents are."""
    writer, costs, risks = (AgentAt(bus, address) for address in THERE)
    async with Agent(ScriptedModel("An edited draft.")) as editor, Agent(ScriptedModel("costs")) as chooser:
        print((await sequential(writer, editor).run("Write about gardens.")).content)
        report = parallel(costs, risks, aggregate=lambda results: " ".join(result.content for result in results))
        print((await report.run("Shall we go?")).content)
        print((await triage(chooser, {"costs": costs, "risks": risks}).run("What is it?")).content)


async def main() -> None:
    bus = LocalBus()  # nats_bus(url) for several machines
    async with AsyncExitStack() as stack:
        for address, (description, answer) in THERE.items():
            agent = await stack.enter_async_context(Agent(ScriptedModel(answer, answer)))
            await stack.enter_async_context(answering(bus, Card(address, description), by_agent(agent)))
        await use(bus)


asyncio.run(main())
