"""The bus over JetStream keeps what a bus promises, with a server that is killed too."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from buses import Broker, options

from sagent.lib.json import wire_bytes
from sagent.plugins.mesh import names
from sagent.plugins.mesh.answering import answering
from sagent.plugins.mesh.bus import Address, Delivery, answer_of, decode_frame, message, new_id, request
from sagent.plugins.mesh.bus_suite import BusSuite
from sagent.plugins.mesh.buses.nats import NatsBus, nats_bus
from sagent.plugins.mesh.cards import Card
from sagent.plugins.mesh.errors import DeadlineExceeded, Unavailable, WrongVersion
from tests.depth import later


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(options(tmp_path_factory.mktemp("bus"))) as found:
        yield found


class TestNatsBus(BusSuite):
    @pytest.fixture
    async def bus(self, broker: Broker) -> AsyncIterator[NatsBus]:
        async with nats_bus(broker.url) as found:
            yield found

    @pytest.fixture
    async def other(self, broker: Broker) -> AsyncIterator[NatsBus]:
        async with nats_bus(broker.url) as found:
            yield found

    @pytest.fixture
    def disrupt(self, broker: Broker) -> Callable[[], Awaitable[None]]:
        async def disrupt() -> None:
            await asyncio.to_thread(broker.restart)

        return disrupt


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b"[" * 100_000,
        b'{"version":1,"id":"x","to":"nobody here"}',
        b'{"version":9,"id":"x","to":"a","body":1}',
        b'{"version":1,"id":"x","to":"a","parcel":"gone"}',
        b'{"version":1,"id":"x","to":"a","body":1e999}',
    ],
)
async def test_unreadable_message_skipped(broker: Broker, data: bytes) -> None:
    """It does not stand in the way of what comes after it."""
    to = Address(f"odd.a{new_id()}")
    async with nats_bus(broker.url) as bus:
        await bus.jetstream.append(names.inbox_subject(to.name), data)
        await bus.send(message(to, "good"))
        async with bus.receiving(to.name) as deliveries, asyncio.timeout(60):
            delivery = await anext(deliveries)
            await delivery.ack()
        assert delivery.envelope.body == "good"
        assert await bus.jetstream.last_message(names.INBOX, names.inbox_subject(to.name)) is None


@pytest.mark.parametrize("ahead", [-3_600.0, 3_600.0])
async def test_clocks_need_not_agree(broker: Broker, monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    to = f"odd.a{new_id()}"
    async with AsyncExitStack() as stack:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: time.clock_gettime(time.CLOCK_REALTIME) + ahead)
            sender = await stack.enter_async_context(nats_bus(broker.url))
            kept = message(to, "kept", keep=60)
            asked = replace(message(to, "asked"), deadline=time.time() + 60)
            for each in (kept, asked):
                await sender.send(each)
        receiver = await stack.enter_async_context(nats_bus(broker.url))
        async with receiver.receiving(to) as deliveries:
            async with asyncio.timeout(60):
                for each in (kept, asked):
                    delivery = await anext(deliveries)
                    assert delivery.envelope.body == each.body
                    times = (delivery.envelope.deadline, delivery.envelope.kept_until)
                    assert 0 < max(filter(None, times)) - time.time() < 70
                    await delivery.ack()


async def test_message_without_body_kept_locally(broker: Broker) -> None:
    async with nats_bus(broker.url) as bus:
        sent = await bus.send(message(Address(f"odd.a{new_id()}"), "x" * 1_000_000))
    assert sent.envelope.body is None


@pytest.mark.parametrize("call", ["consumer", "append"])
async def test_receiver_survives_bus_silence(broker: Broker, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    to, failures = Address(f"odd.a{new_id()}"), [Unavailable("the bus does not answer")]
    async with nats_bus(broker.url) as bus, nats_bus(broker.url) as other:
        made: Callable[..., Awaitable[object]] = getattr(bus.jetstream, call)

        async def fail_once(*given: object, **options: object) -> object:
            if failures:
                raise failures.pop()
            return await made(*given, **options)

        await other.send(message(to, "hello", keep=60))
        monkeypatch.setattr(bus.jetstream, call, fail_once)
        async with bus.receiving(to.name) as deliveries, asyncio.timeout(60):
            assert (await anext(deliveries)).envelope.body == "hello"
    assert not failures


async def test_failed_answer_blocks_no_message(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    to, failures = f"odd.a{new_id()}", [Unavailable("the bus does not answer")]
    async with nats_bus(broker.url) as bus, nats_bus(broker.url) as other:
        waited = list[float]()
        made: Callable[..., Awaitable[object]] = bus.jetstream.append

        async def fail_once(subject: str, data: bytes, *, timeout: float = 10.0, **options: Any) -> object:
            if subject.startswith("sagent.replies."):
                waited.append(timeout)
                if failures:
                    raise failures.pop()
            return await made(subject, data, timeout=timeout, **options)

        async def repeat(delivery: Delivery) -> object:
            return delivery.envelope.body

        async with answering(bus, Card(to), repeat):
            monkeypatch.setattr(bus.jetstream, "append", fail_once)
            with pytest.raises(DeadlineExceeded):
                await request(other, message(to, "one"), timeout=2)
            assert await request(other, message(to, "two"), timeout=60) == "two"
            monkeypatch.undo()
    assert waited[-1] > 50  # an answer is of use until its deadline


@later
async def test_other_version_reported_to_sender(broker: Broker) -> None:
    async with nats_bus(broker.url) as bus, nats_bus(broker.url) as other:
        to = Address(f"odd.a{new_id()}")
        data = wire_bytes({"version": 9, "id": "later", "to": to.name, "answers_to": bus.client, "body": None})
        async with bus.jetstream.listening(names.reply_subject(bus.client)) as replies:
            await bus.jetstream.append(names.inbox_subject(to.name), data)
            async with other.receiving(to.name) as deliveries:
                waiting = asyncio.ensure_future(anext(deliveries))
                frame, _ = decode_frame((await anext(replies)).message.data)
                waiting.cancel()
        with pytest.raises(WrongVersion, match="version 9; this sagent knows 1"):
            answer_of(frame, message(to, None))
