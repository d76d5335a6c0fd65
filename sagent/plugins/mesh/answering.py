"""Agents on a bus: serving an agent there, asking one, and choosing among those present."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TypeAlias

from sagent.agent.agent import Agent
from sagent.agent.agent_tool import Composite, Runnable, Stage
from sagent.agent.asking import to_message
from sagent.agent.tree import Node
from sagent.errors import SagentError, UsageError
from sagent.events import Finished, Result, TextDelta
from sagent.lib.json import Json, JsonObject, as_object, as_str
from sagent.lib.money import TOO_MUCH, ZERO, as_usd
from sagent.messages import Message, Text
from sagent.plugins.hosting.choosing import choose
from sagent.plugins.mesh.bus import Bus, Delivery, body_object, message, request
from sagent.plugins.mesh.cards import Card, Query
from sagent.plugins.mesh.discovery import announced, find
from sagent.plugins.mesh.errors import Cancelled, Failed, MeshError

Handler: TypeAlias = Callable[[Delivery], Awaitable[object]]
"""Handles a message, and returns the body of the reply; an error that it raises is the answer, without a traceback."""


@asynccontextmanager
async def answering(bus: Bus, card: Card, handle: Handler) -> AsyncGenerator[None]:
    """Show a card and handle every message to its address, one after the other, during the block.

    A message counts as handled when the reply is sent: if this process dies before, it is delivered again. The handler
    is cancelled if its answer is no longer wanted.
    """

    async def receive(deliveries: AsyncIterator[Delivery]) -> None:
        async for delivery in deliveries:
            try:
                await _answer(delivery, handle)
            except MeshError:  # the answer cannot be sent, and is waited for no more
                with suppress(MeshError):
                    await delivery.ack()

    async with announced(bus, card), bus.receiving(card.address) as deliveries:
        task = asyncio.create_task(receive(deliveries))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _answer(delivery: Delivery, handle: Handler) -> None:
    work, unwanted = asyncio.ensure_future(handle(delivery)), asyncio.ensure_future(delivery.cancelled())
    try:
        await asyncio.wait([work, unwanted], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await delivery.fail("It was cancelled.", Cancelled.kind)
            return
        try:
            body = work.result()
        except SagentError as error:
            await delivery.fail(str(error), error.kind)
        except Exception as error:
            await delivery.fail(f"The agent has failed: {type(error).__name__}.")  # the error's text may be secret
        else:
            await delivery.reply(body)
    finally:
        for task in (work, unwanted):
            task.cancel()
        await asyncio.gather(work, unwanted, return_exceptions=True)


def by_agent(agent: Agent) -> Handler:
    """Have an agent answer: a message's text is its prompt, frames are text as it comes, the reply is the answer."""

    async def handle(delivery: Delivery) -> Json:
        prompt = as_str(body_object(delivery.envelope.body).get("text"))
        async with aclosing(agent.stream(prompt)) as events:
            async for event in events:
                match event:
                    case TextDelta(agent=path, text=text) if path == agent.path:
                        await delivery.emit({"text": text})
                    case Finished(agent=path, result=result) if path == agent.path:
                        if result.error is not None:
                            raise Failed(result.error.message, result.error.kind)
                        return JsonObject({"text": result.content, "usd": str(result.run_usd)})
                    case _:
                        pass
        raise Failed("The agent ended without a result.")

    return handle


class AgentAt:
    """An agent at an address, as a step of a pattern or a tool of another agent. `run_usd` is the cost of its last
    run."""

    def __init__(self, bus: Bus, address: str, *, timeout: float = 600.0) -> None:
        self._bus, self._address, self._timeout = bus, address, timeout

    async def run(self, prompt: str | Message, /) -> Result:
        """Ask it. Raises MeshError."""
        text = prompt if isinstance(prompt, str) else prompt.content
        body = as_object(await request(self._bus, message(self._address, {"text": text}), timeout=self._timeout))
        answer = as_str(body.get("text"))
        usd = as_usd(body.get("usd")) or ZERO
        usd = usd if ZERO < usd < TOO_MUCH else ZERO  # the remote answer may contain anything
        return Result(answer, (Text(answer),), "end_turn", run_usd=usd)


class TriageOnBus:
    """A chooser picks the agent that handles a request, among those whose cards match a query at that moment."""

    def __init__(self, chooser: Runnable, bus: Bus, query: Query, *, timeout: float = 600.0) -> None:
        self._chooser, self._bus, self._query, self._timeout = chooser, bus, query, timeout

    async def run(self, prompt: str | Message, /) -> Result:
        """Choose and ask. Raises UsageError if no agent is present or none was chosen, and MeshError."""
        (cards,) = await find(self._bus, self._query)
        if not cards:
            raise UsageError(f"There are no agents to choose from in {self._query.namespace or 'any namespace'}.")
        agents = {card.address: AgentAt(self._bus, card.address, timeout=self._timeout) for card in cards}
        stage = Stage()
        result = await choose(self._chooser, agents, to_message(prompt), stage)
        own = self._chooser
        nodes = own.agents if isinstance(own, Composite) else [own] if isinstance(own, Node) else []
        return stage.total(result, nodes)
