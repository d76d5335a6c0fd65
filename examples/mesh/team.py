"""A team that makes itself: a lead is given whoever is on the bus when it begins, each as a tool.

python examples/mesh/team.py
"""

import asyncio
from contextlib import AsyncExitStack

from sagent import Agent, RunContext, tool
from sagent.events import Finished, ToolFinished
from sagent.messages import Message, ToolCall
from sagent.plugins.mesh.answering import AgentAt, answering, by_agent
from sagent.plugins.mesh.bus import Bus
from sagent.plugins.mesh.buses.local import LocalBus
from sagent.plugins.mesh.cards import Card, Query
from sagent.plugins.mesh.discovery import find
from sagent.testing import ScriptedModel
from sagent.tool import Tool

TASK = {"task": "A todo list."}
TEAM = {
    "team.product": ("Says what to build.", "A list of tasks that can be ticked off."),
    "team.developer": ("Writes code.", "def tick(task): ..."),
    "team.tester": ("Tries code out.", "Two of two tests pass."),
}


def member(bus: Bus, card: Card) -> Tool:
    """An agent on the bus, as a tool."""
    agent = AgentAt(bus, card.address)

    @tool(name=card.address.rpartition(".")[2], description=card.description)
    async def ask(run: RunContext, task: str) -> str:
        return (await agent.run(task)).content

    return ask


async def lead(bus: Bus) -> None:
    """A script stands where the model would be: it asks every member, one after the other."""
    (cards,) = await find(bus, Query("team"))
    tools = [member(bus, card) for card in cards]
    calls = [Message("assistant", (ToolCall(each.name, each.name, TASK),)) for each in tools]
    async with Agent(ScriptedModel(*calls, "It is built and tested."), tools=tools) as agent:
        async for event in agent.stream("Build an app for todo lists."):
            match event:
                case ToolFinished(call=call, result=answer):
                    print(f"{call.name}: {answer.text}")
                case Finished(result=result):
                    print(result.content)
                case _:
                    pass


async def main() -> None:
    bus = LocalBus()  # nats_bus(url) for several machines
    async with AsyncExitStack() as stack:
        for address, (description, answer) in TEAM.items():
            agent = await stack.enter_async_context(Agent(ScriptedModel(answer)))
            await stack.enter_async_context(answering(bus, Card(address, description), by_agent(agent)))
        await lead(bus)


asyncio.run(main())
