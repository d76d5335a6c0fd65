"""The augmented model: one agent with something to look things up in, and something to remember things by.

python examples/patterns/augmented_llm.py
"""

import asyncio

from sagent.agent import Agent
from sagent.messages import Message, ToolCall
from sagent.model import Request
from sagent.testing import ScriptedModel
from sagent.tools import tool

SHELF = {"opening hours": "We open at nine.", "returns": "You may return it within 30 days."}


def call(name: str, **arguments: object) -> Message:
    """A turn in which the model calls one tool."""
    return Message("assistant", (ToolCall(f"call_{name}", name, arguments),))


def heard(request: Request) -> str:
    """The result of the last call."""
    return request.messages[-1].results[0].text


async def main() -> None:
    """Two questions in one conversation; what was noted in the first helps in the second."""
    notes: list[str] = []

    @tool(effect="none")
    async def look_up(query: str) -> str:
        """Look something up in the handbook.

        query: a few words
        """
        words = set(query.lower().split())
        found = [text for title, text in SHELF.items() if words & set(title.split())]
        return "\n".join(found) or "Nothing about that."

    @tool(effect="none")
    async def remember(note: str) -> str:
        """Keep a note for later.

        note: what to keep
        """
        notes.append(note)
        return f"{len(notes)} notes"

    @tool(effect="none")
    async def recall() -> str:
        """Read all notes."""
        return "\n".join(notes)

    model = ScriptedModel(
        call("look_up", query="returns of shoes"),
        call("remember", note="The person bought shoes."),
        lambda request: f"For your shoes: {request.messages[-3].results[0].text}",
        call("recall"),
        lambda request: f"As I noted: {heard(request)}",
    )
    agent = Agent(model, system="You answer for a shop.", tools=[look_up, remember, recall])
    for question in ("Can I return my shoes?", "What did I buy?"):
        print((await agent.run(question)).content)
    await agent.aclose()


if __name__ == "__main__":
    asyncio.run(main())
