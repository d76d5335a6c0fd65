"""Prompt chaining: an outline, a gate in plain code, the text. A step that fails ends the chain.

python examples/patterns/chaining.py
"""

import asyncio

from sagent.agent import Agent
from sagent.events import Failure, Result
from sagent.messages import Message
from sagent.plugins.teams import sequential
from sagent.testing import ScriptedModel


class AtLeast:
    """A gate: whatever has an async `run` can be a step."""

    def __init__(self, points: int) -> None:
        self.points = points

    async def run(self, prompt: str | Message, /) -> Result:
        """Pass the outline on, or end the chain with an error."""
        outline = prompt if isinstance(prompt, str) else prompt.content
        if outline.count("\n- ") + outline.startswith("- ") >= self.points:
            return Result(outline, (), "end")
        return Result(outline, (), "end", Failure("thin", f"the outline has fewer than {self.points} points"))


def chain(outline: str) -> tuple[Agent, Agent]:
    """The two agents of the chain, scripted."""
    writer = ScriptedModel(lambda request: "A text on: " + request.messages[-1].content.replace("\n- ", ", "))
    return Agent(ScriptedModel(outline), system="Outline it."), Agent(writer, system="Write it out.")


async def main() -> None:
    """One chain that passes the gate, one that does not."""
    for outline in ("- tea\n- water\n- time", "- tea"):
        first, last = chain(outline)
        steps = sequential(first, AtLeast(2), last)
        result = await steps.run("How to make tea")
        print(f"{result.error.kind}: {result.error.message}" if result.error else result.content)
        await steps.aclose()


if __name__ == "__main__":
    asyncio.run(main())
