"""A durable agent on DBOS, whose database is a SQLite file here. Needs `pip install dbos`; see docs/stack.md.

DBOS starts unfinished work again after a crash. The agent's session says what was done, so no call is made twice and
the cost goes on from where it was. Try it: kill -9 this program while it works, and start it again.
"""

import asyncio
import time
from pathlib import Path

from dbos import DBOS, SetWorkflowID

from sagent import Agent, Resources, model
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.messages import ToolCall
from sagent.plugins.functions import FunctionModel
from sagent.usage import Usage

CLERK = "example/clerk"
OWN = Resources(ledger=Ledger(None, PriceBook({CLERK: {"input": 3, "output": 15}})))  # USD for a million tokens
DBOS(config={"name": "agents", "system_database_url": "sqlite:///dbos.sqlite", "application_version": "1"})


def clerk(request: model.Request) -> list[object]:
    """Stand in for a model: it books once, and then looks at what came of it."""
    results = [result.text for message in request.messages for result in message.results]
    tool = ["book", "look", ""][len(results)]
    return [ToolCall(tool, tool) if tool else f"Done: {results[-1]}", Usage(input=1000, output=10)]


def book() -> str:
    """Book a room."""
    with Path("bookings.txt").open("a") as file:
        print("room 7", file=file, flush=True)
        time.sleep(1)
    return "booked"


def look() -> str:
    """Return what is booked."""
    return Path("bookings.txt").read_text()


@DBOS.workflow()
async def work(session: str, prompt: str) -> str:
    async with Agent(FunctionModel(CLERK, clerk), tools=[book, look], session=session, resources=OWN) as agent:
        last = agent.messages[-1] if agent.messages else None
        if last is not None and last.role == "assistant" and last.stop == "end":
            return last.content  # only DBOS had not been told
        result = await (agent.run(prompt) if last is None else agent.continue_run())
        return f"{result.content.strip()}, {result.cost.total} USD"


DBOS.launch()  # and start what a crash has left
with SetWorkflowID("booking-1"):
    print(asyncio.run(work("sessions/booking-1", "Book a room.")))
