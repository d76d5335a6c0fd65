"""Thought, action, observation: what an agent does, shown while it does it.

python examples/react.py
"""

import asyncio

from sagent import Agent
from sagent.events import TextDelta, ToolFinished, ToolStarted
from sagent.messages import ToolCall
from sagent.testing import ScriptedModel

POPULATION = {"Zurich": 447_082, "Geneva": 203_856}


def population(city: str) -> str:
    """How many people live in a city."""
    return f"{POPULATION[city]:,}"  # whatever is raised here, the model reads as an error


def look_up(city: str) -> ToolCall:
    """A call as a model makes it."""
    return ToolCall(city, "population", {"city": city})


async def main() -> None:
    """Two lookups at once, one that fails, and the answer."""
    model = ScriptedModel(
        ("I need both numbers.", look_up("Zurich"), look_up("Geneva")),
        ("And Bern, to compare.", look_up("Bern")),
        "Zurich has more than twice as many people as Geneva; of Bern I know nothing.",
    )
    async with Agent(model, tools=[population]) as agent:
        async for event in agent.stream("Which is larger, Zurich or Geneva?"):
            match event:
                case TextDelta(_, text):
                    print(text, end="")
                case ToolStarted(_, call):
                    print(f"\n  → {call.name}({call.arguments['city']})", end="")
                case ToolFinished(_, call, result):
                    print(f"\n  ← {call.arguments['city']}: {result.text.splitlines()[0]}")
                case _:
                    pass
    print()


asyncio.run(main())
