"""A durable agent on Temporal. Needs `pip install temporalio`, and `temporal server start-dev`; see docs/stack.md.
Temporal starts the activity again after a crash; the session says what was done, so no call is made twice."""

import asyncio
from datetime import timedelta
from pathlib import Path

from temporalio import activity, client, worker, workflow

with workflow.unsafe.imports_passed_through():
    from sagent import Agent, model
    from sagent.messages import ToolCall
    from sagent.plugins.functions import FunctionModel


def clerk(request: model.Request) -> object:
    results = [result.text for message in request.messages for result in message.results]
    tool = ["book", "look", ""][len(results)]
    return ToolCall(tool, tool) if tool else f"Done: {results[-1]}"


def book() -> str:
    """Book a room."""
    with Path("bookings.txt").open("a") as file:
        file.write("room 7\n")
    return "booked"


def look() -> str:
    """Return what is booked."""
    return Path("bookings.txt").read_text()


@activity.defn
async def answer(session: str) -> str:
    async with Agent(FunctionModel("example/clerk", clerk), tools=[book, look], session=session) as agent:
        agent.listen(lambda _: activity.heartbeat())
        last = agent.messages[-1] if agent.messages else None
        if last is not None and last.role == "assistant" and last.stop == "end":
            return last.content  # only Temporal had not been told
        return (await (agent.run("Book a room.") if last is None else agent.continue_run())).content


@workflow.defn
class Work:
    @workflow.run
    async def run(self, session: str) -> str:
        hour, crash = timedelta(hours=1), timedelta(seconds=30)
        return await workflow.execute_activity(answer, session, start_to_close_timeout=hour, heartbeat_timeout=crash)


async def main() -> None:
    server = await client.Client.connect("localhost:7233")
    async with worker.Worker(server, task_queue="agents", workflows=[Work], activities=[answer]):
        print(await server.execute_workflow(Work.run, "sessions/booking-1", id="booking-1", task_queue="agents"))


if __name__ == "__main__":
    asyncio.run(main())
