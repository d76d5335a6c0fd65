"""Agents that answer on a bus, and agents that are asked there."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from sagent import Agent
from sagent.errors import UsageError
from sagent.plugins.mesh.answering import AgentAt, TriageOnBus, answering, by_agent
from sagent.plugins.mesh.bus import Bus, Delivery, body_object, message, request
from sagent.plugins.mesh.buses.local import LocalBus
from sagent.plugins.mesh.cards import Card, Query
from sagent.plugins.mesh.discovery import find, watching
from sagent.plugins.mesh.errors import Cancelled, Failed, NobodyThere
from sagent.testing import ScriptedModel

CARD = Card("team.a")


@pytest.fixture
def bus() -> Bus:
    return LocalBus()


async def test_agent_streams_its_answer(bus: Bus) -> None:
    async with (
        Agent(ScriptedModel("Four, of course.")) as agent,
        answering(bus, CARD, by_agent(agent)),
        bus.asking(message(CARD.address, {"text": "2 + 2"}), timeout=30) as frames,
    ):
        found = [frame async for frame in frames]
    texts = [str(body_object(frame.body)["text"]) for frame in found]
    assert "".join(texts[:-1]) == texts[-1] == "Four, of course."
    assert found[-1].kind == "reply"


async def test_failing_agent_reports(bus: Bus) -> None:
    async with Agent(ScriptedModel()) as agent, answering(bus, CARD, by_agent(agent)):
        with pytest.raises(Failed, match=r"team\.a: ") as raised:
            await AgentAt(bus, CARD.address).run("hello")
    assert raised.value.failure


@pytest.mark.parametrize(
    ("usd", "known"),
    [("0.25", "0.25"), (0.25, "0.25"), ("NaN", "0"), ("a lot", "0"), ("1e99", "0"), (-1, "0"), (None, "0")],
)
async def test_answer_cost_uses_known_price(bus: Bus, usd: object, known: str) -> None:
    async def answer(_: Delivery) -> object:
        return {"text": "Yes.", "usd": usd}

    async with answering(bus, CARD, answer):
        result = await AgentAt(bus, CARD.address).run("hello")
    assert (result.content, result.run_usd) == ("Yes.", Decimal(known))


async def test_error_details_stay_local(bus: Bus) -> None:
    async def leak(_: Delivery) -> object:
        raise RuntimeError("the key is sk-123")

    async def refuse(_: Delivery) -> object:
        raise UsageError("Give a number.")

    async with answering(bus, CARD, leak):
        with pytest.raises(Failed, match=r"team\.a: The agent has failed: RuntimeError\.$"):
            await request(bus, message(CARD.address, None), timeout=30)
    async with answering(bus, CARD, refuse):
        with pytest.raises(Failed, match=r"Give a number\.") as raised:
            await request(bus, message(CARD.address, None), timeout=30)
    assert raised.value.failure == "usage"


async def test_unwanted_handler_cancelled(bus: Bus) -> None:
    stopped = asyncio.Event()

    async def handle(delivery: Delivery) -> object:
        if delivery.envelope.body == "next":
            return "handled"
        await delivery.emit("begun")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return None

    async with answering(bus, CARD, handle):
        async with bus.asking(message(CARD.address, "long"), timeout=30) as frames:
            await anext(frames)
        await stopped.wait()
        assert await request(bus, message(CARD.address, "next"), timeout=30) == "handled"


async def test_remote_agent_asked_like_local(bus: Bus) -> None:
    async with (
        Agent(ScriptedModel("a draft")) as writer,
        Agent(ScriptedModel("a review of it")) as reviewer,
        answering(bus, CARD, by_agent(reviewer)),
    ):
        draft = await writer.run("write")
        result = await AgentAt(bus, CARD.address).run(draft.content)
    assert result.content == "a review of it"
    with pytest.raises(NobodyThere):
        await AgentAt(bus, CARD.address, timeout=0.2).run("gone")


async def test_triage_sees_current_agents(bus: Bus) -> None:
    async with Agent(ScriptedModel("desk.a", "desk.b", "desk.a", "desk.a")) as chooser:
        desk = TriageOnBus(chooser, bus, Query("desk"))
        with pytest.raises(UsageError, match="There are no agents to choose from in desk"):
            await desk.run("help")
        async with answering(bus, Card("desk.a"), _named):
            assert (await desk.run("help")).content == "desk.a"
            async with answering(bus, Card("desk.b"), _named):
                assert (await desk.run("help")).content == "desk.b"
        async with answering(bus, Card("desk.b"), _named):
            with pytest.raises(UsageError, match="no agent was chosen"):
                await desk.run("help")


async def _named(delivery: Delivery) -> object:
    return {"text": delivery.envelope.to.name}


async def test_cards_found_and_watched(bus: Bus) -> None:
    async with watching(bus, Query("desk", labels=("gpu",))) as changes:
        assert await anext(changes) is None
        await bus.put_card(Card("deskx", labels=("gpu",)))
        await bus.put_card(Card("desk.a"))
        await bus.put_card(first := Card("desk.b", labels=("gpu",)))
        assert await _card(changes) == first
        await bus.put_card(first)  # renewed: nothing to say
        await bus.put_card(busy := Card("desk.b", labels=("gpu",), load=1.0))
        assert await _card(changes) == busy
        await bus.put_card(Card("desk.b"))  # none of those that are meant any more
        assert await _card(changes) is None
    found = await find(bus, Query("desk"), Query("deskx"), Query("nobody"))
    assert [[card.address for card in each] for each in found] == [["desk.a", "desk.b"], ["deskx"], []]


async def _card(changes: AsyncIterator[object]) -> object:
    async with asyncio.timeout(60):
        return getattr(await anext(changes), "card")  # noqa: B009


async def test_cancelled_has_own_kind(bus: Bus) -> None:
    async def handle(delivery: Delivery) -> object:
        await delivery.fail("It was cancelled.", Cancelled.kind)
        return None

    async with answering(bus, CARD, handle):
        with pytest.raises(Cancelled):
            await request(bus, message(CARD.address, None), timeout=30)
