"""What an agent that a tool runs by itself spends is beyond the cap of the tool's caller, who says so."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.state import caller, working_for
from sagent.events import Event, Notice
from sagent.lib.json import EMPTY
from sagent.messages import ToolCall
from sagent.peer import SpawnRequest
from sagent.testing.scripted import ScriptedModel
from sagent.tool import RunContext
from sagent.tools import tool

MADE_BEFORE = Agent(ScriptedModel("yes", "yes"))


@tool(effect="none")
async def plain() -> str:
    """Made and run in the tool."""
    return (await Agent(ScriptedModel("yes")).run("?")).content


@tool(effect="execute")
def plain_in_a_thread() -> str:
    """The same in a function that is not async."""
    return Agent(ScriptedModel("yes")).run_sync("?").content


@tool(effect="none")
async def made_before() -> str:
    """Made elsewhere."""
    return (await MADE_BEFORE.run("?")).content


@tool(effect="none")
async def streamed() -> str:
    """Event by event."""
    return str([event async for event in Agent(ScriptedModel("yes")).stream("?")])


@tool(effect="none")
async def gathered() -> str:
    """In a task of its own."""
    return str(await asyncio.gather(Agent(ScriptedModel("yes")).run("?")))


@tool(effect="none")
async def in_a_thread() -> str:
    """In a thread of its own."""
    return (await asyncio.to_thread(Agent(ScriptedModel("yes")).run_sync, "?")).content


@tool(effect="none")
async def spawned_beside() -> str:
    """Below an agent that was never run."""
    child = await Agent(ScriptedModel("yes")).spawn("?")
    return (await child.wait()).content


@tool(effect="none")
async def on_purpose() -> str:
    """With a ledger that somebody has chosen."""
    ledger = Ledger(None, PriceBook())
    return (await Agent(ScriptedModel("yes"), resources=Resources(ledger=ledger)).run("?")).content


@tool(effect="none")
async def spawned(run: RunContext) -> str:
    """Within the tree."""
    assert run.caller is not None
    child = await run.caller.spawn(SpawnRequest("?"))
    return (await child.wait()).content


def as_tool() -> object:
    return Agent(ScriptedModel("yes")).as_tool("inside", "Within the tree.")


async def warnings(given: object, cap: Decimal | None) -> list[str]:
    """Run an agent that calls the tool; its warnings."""
    name = getattr(given, "name", "")
    arguments = EMPTY if name != "inside" else {"prompt": "?"}
    model = ScriptedModel((ToolCall("1", name, arguments),), "yes", "done")
    heard: list[Event] = []
    book = PriceBook({f"{model.provider}/{model.id}": {"input": 0, "output": 0}})
    agent = Agent(model, tools=[given], resources=Resources(ledger=Ledger(cap, book)))  # pyright: ignore[reportArgumentType]
    agent.listen(heard.append)
    assert (await agent.run("go")).content in ("done", "yes")
    await agent.aclose()
    return [event.text for event in heard if isinstance(event, Notice) and event.level == "warning"]


@pytest.mark.parametrize(
    "given", [plain, plain_in_a_thread, made_before, streamed, gathered, in_a_thread, spawned_beside]
)
async def test_outside_agent_under_cap_is_told(given: Callable[[], Awaitable[str]]) -> None:
    (said,) = await warnings(given, Decimal(1))
    assert said.startswith("A tool of root runs another agent") and "not counted in the budget of $1.00" in said
    assert "run.caller.spawn()" in said
    assert "as_tool()" in said
    assert await warnings(given, None) == []


@pytest.mark.parametrize("given", [on_purpose, spawned, as_tool()])
async def test_intended_outside_agent_is_not_told(given: object) -> None:
    assert await warnings(given, Decimal(1)) == []


async def test_background_task_has_no_caller() -> None:
    over = asyncio.Event()

    async def later() -> object:
        await over.wait()
        return caller()

    one, other = (Agent(ScriptedModel()).state for _ in range(2))
    with working_for(one):
        assert caller() is one
        task = asyncio.create_task(later())
        with working_for(other):
            assert caller() is other
        assert caller() is one
    over.set()
    assert await task is None
