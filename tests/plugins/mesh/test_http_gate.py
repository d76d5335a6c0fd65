"""What a server keeps for a client of its bus that comes back: nothing is taken for what the client has had already."""

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from sagent.errors import UsageError
from sagent.plugins.mesh.bus import Address, Envelope, message
from sagent.plugins.mesh.buses import gate
from sagent.plugins.mesh.buses.gate import Event, Gate
from sagent.plugins.mesh.buses.local import LocalBus


async def _first(events: AsyncGenerator[Event]) -> Event:
    """The next event of a stream, whose connection is lost then."""
    try:
        async with asyncio.timeout(60):
            return await anext(events)
    finally:
        await events.aclose()


async def test_unacknowledged_message_redelivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "RETURN_TIMEOUT_SECONDS", 0.05)
    bus = LocalBus()
    kept = Gate(bus)
    await bus.send(message("a", "hello"))
    first = await _first((await kept.receive("a", again=False)).follow(""))
    await asyncio.sleep(0.2)  # the server has given it up

    again = await _first((await kept.receive("a", again=True)).follow(first.id))

    assert (first.name, again.name) == ("message", "message")
    assert json.loads(again.data)["message"] == json.loads(first.data)["message"]
    assert (json.loads(first.data)["deliveries"], json.loads(again.data)["deliveries"]) == (1, 2)
    await kept.aclose()


async def test_redelivered_after_server_restart() -> None:
    bus = LocalBus()
    before, after = Gate(bus), Gate(bus)
    await bus.send(message("a", "hello"))
    first = await _first((await before.receive("a", again=False)).follow(""))
    await before.aclose()

    again = await _first((await after.receive("a", again=True)).follow(first.id))

    assert json.loads(again.data)["message"] == json.loads(first.data)["message"]
    await after.aclose()


async def test_restarted_answer_says_so() -> None:
    bus = LocalBus()
    before, after = Gate(bus), Gate(bus)
    async with bus.receiving("a") as deliveries:
        asked = Envelope(Address.of("a"), "question")
        events = before.ask(asked, 5.0, again=False).follow("")
        await (delivery := await anext(deliveries)).emit("one")
        first = await _first(events)
        await before.aclose()
        await delivery.ack()
        begun = after.ask(Envelope(asked.to, "question"), 5.0, again=True).follow(first.id)
        await (await anext(deliveries)).reply("two")

        assert [(event.name, json.loads(event.data)["body"]) async for event in begun] == [
            ("restart", None),
            ("reply", "two"),
        ]
    await after.aclose()


async def test_replaced_receiver_leaves_newer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "RETURN_TIMEOUT_SECONDS", 0.05)
    bus = LocalBus()
    kept = Gate(bus)
    older = (await kept.receive("a", again=False)).follow("")
    waiting = asyncio.ensure_future(anext(older, None))
    await asyncio.sleep(0)
    newer = await kept.receive("a", again=False)
    events = newer.follow("")
    reading = asyncio.ensure_future(anext(events))
    assert await waiting is None
    await asyncio.sleep(0.2)  # longer than the older one may be away

    assert await kept.receive("a", again=True) is newer
    await bus.send(message("a", "hello"))
    assert (await reading).name == "message"
    await events.aclose()
    await kept.aclose()


async def test_of_large_events_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "KEPT_BYTES", 1_000)
    feed = gate.Feed()
    events = feed.follow("")
    seen: list[Event] = []
    for number in range(10):
        async with asyncio.timeout(60):
            await feed.put("frame", {"number": number, "body": "x" * 300})
            seen.append(await anext(events))
    async with asyncio.timeout(60):
        await feed.put("frame", {"number": 10, "body": "x" * 3_000})
        waiting = asyncio.ensure_future(feed.put("frame", {"number": 11}))
        await asyncio.sleep(0)
        assert not waiting.done()  # so much is unsent already
        seen += [await anext(events), await anext(events)]
        await waiting
    await events.aclose()
    assert [json.loads(event.data)["number"] for event in seen] == [*range(12)]
    with pytest.raises(UsageError, match="kept"):
        await _first(feed.follow(seen[0].id))
    assert await _first(feed.follow(seen[-2].id)) == seen[-1]
