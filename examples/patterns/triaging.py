"""Triaging: a cheap agent says who answers; or agents hand a conversation on to each other.

python examples/patterns/triaging.py
"""

import asyncio

from sagent.agent import Agent
from sagent.messages import Message, ToolCall
from sagent.plugins.teams import handoff, triage
from sagent.testing import ScriptedModel


async def main() -> None:
    """The same help desk in both ways."""
    chooser = Agent(ScriptedModel("**billing**"), system="billing: money. technical: everything that is broken.")
    desk = triage(
        chooser,
        {
            "billing": Agent(ScriptedModel("You get the second payment back."), system="You do the accounts."),
            "technical": Agent(ScriptedModel("Turn it off and on."), system="You repair."),
        },
        default="technical",
    )
    print((await desk.run("I was charged twice.")).content)
    await desk.aclose()

    over = {"to": "billing", "message": "charged twice on Monday"}
    front = Agent(ScriptedModel(Message("assistant", (ToolCall("h", "handoff", over),))), system="You greet people.")
    billing = Agent(
        ScriptedModel(
            lambda request: f"I read: {request.messages[-1].content.rpartition(chr(10))[2]}. It is paid back."
        ),
        system="You do the accounts.",
    )
    team = handoff({"front": front, "billing": billing})
    print((await team.run("I was charged twice.")).content)
    await team.aclose()


if __name__ == "__main__":
    asyncio.run(main())
