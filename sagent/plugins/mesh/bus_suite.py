"""Test suite for every Bus. Needs pytest and pytest-asyncio.

class TestMyBus(BusSuite):
    @pytest.fixture
    async def bus(self) -> AsyncIterator[Bus]:
        async with my_bus(...) as bus:
            yield bus
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import pytest

from sagent.lib.json import Json, JsonObject, json_freeze
from sagent.plugins.mesh.bus import MAX_BODY_BYTES, Address, Bus, Delivery, Envelope, Frame, request
from sagent.plugins.mesh.cards import Card, Change, Query
from sagent.plugins.mesh.discovery import find
from sagent.plugins.mesh.errors import DeadlineExceeded, Failed, Full, MeshError, NobodyThere, TooLarge, Unavailable

TIMEOUT_SECONDS = 60.0  # for anything to happen
INBOX = 1_000  # messages that an inbox must hold; and no more than ten times as many
_numbers = count()


class BusSuite:
    """Inherit from it and override `bus`; also `other`, if a bus can have several clients, and `disrupt`, if
    connections can be lost."""

    @pytest.fixture
    def bus(self) -> Bus:
        raise NotImplementedError("override the fixture `bus`")

    @pytest.fixture
    def other(self, bus: Bus) -> Bus:
        """Provide a second client of the same bus."""
        return bus

    @pytest.fixture
    def disrupt(self) -> Callable[[], Awaitable[None]]:
        """Return a function that breaks every connection, and waits until the bus can be reached again."""

        async def disrupt() -> None:
            await asyncio.sleep(0)

        return disrupt

    @pytest.fixture
    def to(self) -> Address:
        """Return an unused address."""
        return Address(f"suite.a{next(_numbers)}-{time.time_ns()}")

    # Messages

    async def test_messages_arrive_in_order_and_once(self, bus: Bus, other: Bus, to: Address) -> None:
        for number in range(50):
            await bus.send(Envelope(to, number))
        async with other.receiving(to.name) as deliveries:
            found = [await _next(deliveries) for _ in range(50)]
        assert [delivery.envelope.body for delivery in found] == list(range(50))
        assert [delivery.deliveries for delivery in found] == [1] * 50
        places = [delivery.sequence for delivery in found]
        assert places == sorted(set(places))

    async def test_an_envelope_arrives_as_it_was_sent(self, bus: Bus, other: Bus, to: Address) -> None:
        body = json_freeze({"text": "é\u2028\n\x00 😀", "n": [1, -0.5, None, True, 10**30], "": {}})
        sent = Envelope(Address(to.name, "root/ch ild"), body, "note", sender="somebody.else")
        await bus.send(sent)
        async with other.receiving(to.name) as deliveries:
            assert await _handled(deliveries) == sent

    async def test_a_message_that_is_sent_twice_is_delivered_once(self, bus: Bus, other: Bus, to: Address) -> None:
        first = Envelope(to, "first")
        for envelope in (first, first, Envelope(to, "second"), first):
            await bus.send(envelope)
        async with other.receiving(to.name) as deliveries:
            assert [(await _handled(deliveries)).body for _ in range(2)] == ["first", "second"]
            await bus.send(first)
            await bus.send(Envelope(to, "third"))
            assert (await _handled(deliveries)).body == "third"

    async def test_addresses_do_not_mix(self, bus: Bus, other: Bus, to: Address) -> None:
        for name in (f"{to.name}x", f"{to.name}.x", to.name):
            await bus.send(Envelope(Address(name), name))
        for name in (to.name, f"{to.name}.x", f"{to.name}x"):
            async with other.receiving(name) as deliveries:
                assert (await _handled(deliveries)).body == name

    async def test_what_was_not_acknowledged_comes_again_and_first(self, bus: Bus, other: Bus, to: Address) -> None:
        for number in range(3):
            await bus.send(Envelope(to, number))
        async with other.receiving(to.name) as deliveries:
            await _handled(deliveries)
            assert (await anext(deliveries)).envelope.body == 1
        async with bus.receiving(to.name) as deliveries:
            again = await _next(deliveries)
            assert (again.envelope.body, again.deliveries) == (1, 2)
            assert (await _handled(deliveries)).body == 2

    async def test_the_next_message_waits_for_the_one_before(self, bus: Bus, other: Bus, to: Address) -> None:
        for number in range(2):
            await bus.send(Envelope(to, number))
        async with other.receiving(to.name) as deliveries:
            first = await anext(deliveries)
            waiting = asyncio.ensure_future(anext(deliveries))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await first.ack()
            assert (await waiting).envelope.body == 1

    async def test_a_large_body_arrives_and_one_that_is_too_large_is_refused(
        self, bus: Bus, other: Bus, to: Address
    ) -> None:
        body = "é" * (4 << 20)
        with pytest.raises(TooLarge, match="bytes"):
            await bus.send(Envelope(to, "x" * (MAX_BODY_BYTES + 1)))
        async with answering(other, to, lambda delivery: delivery.reply(delivery.envelope.body)):
            assert await request(bus, Envelope(to, body), timeout=TIMEOUT_SECONDS) == body

    async def test_a_full_inbox_makes_senders_wait(self, bus: Bus, other: Bus, to: Address) -> None:
        async def fill() -> None:
            for number in range(3):
                await bus.send(Envelope(to, number))
            for _ in range(10 * INBOX // 100):
                sends = (bus.send(Envelope(to, None), timeout=1.0) for _ in range(100))
                for sent in await asyncio.gather(*sends, return_exceptions=True):  # none may take the room below
                    if isinstance(sent, BaseException) and not isinstance(sent, Unavailable):
                        raise sent

        with pytest.raises(Full):
            await fill()
        waiting = asyncio.ensure_future(bus.send(Envelope(to, "waited"), timeout=TIMEOUT_SECONDS))
        async with other.receiving(to.name) as deliveries:
            for number in range(3):
                assert (await _handled(deliveries)).body == number
            await waiting

    async def test_messages_to_nobody_are_kept_for_their_time(self, bus: Bus, other: Bus, to: Address) -> None:
        until = time.time() + 1.0
        lost = await bus.send(Envelope(to, "lost", kept_until=until))
        with pytest.raises(NobodyThere, match=to.name):
            await lost.taken()
        assert time.time() >= until
        found = await bus.send(Envelope(to, "found", kept_until=time.time() + TIMEOUT_SECONDS))
        async with other.receiving(to.name) as deliveries:
            assert (await _handled(deliveries)).body == "found"
        await found.taken()

    async def test_a_message_is_taken_or_given_up_and_never_both(self, bus: Bus, other: Bus, to: Address) -> None:
        """At the very end of its time, over and over."""
        taken: list[Json] = []

        async def take(delivery: Delivery) -> None:
            taken.append(delivery.envelope.body)
            await delivery.ack()

        for number in range(12):
            sent = await bus.send(Envelope(to, number, kept_until=time.time() + 0.05))
            async with answering(other, to, take) if number % 3 else AsyncExitStack():
                await asyncio.sleep(0.004 * number)
                try:
                    await sent.taken()
                except NobodyThere:
                    assert number not in taken
                    given_up = True
                else:
                    given_up = False
            async with answering(other, to, take):
                await request_is_answered(bus, other, to)
            assert (number in taken) is not given_up

    @pytest.mark.parametrize("seed", range(4))
    async def test_whatever_receivers_do_each_message_is_handled_once_and_in_order(
        self, bus: Bus, other: Bus, to: Address, seed: int
    ) -> None:
        """Senders repeat themselves, receivers come and go and leave messages unacknowledged, in any order."""
        chance, handled = random.Random(seed), list[Json]()  # noqa: S311 -- to repeat it
        sent = list[Envelope]()

        async def receive() -> None:
            async with chance.choice((bus, other)).receiving(to.name) as deliveries:
                for _ in range(chance.randrange(1, 4)):
                    if len(handled) < len(sent):
                        async with asyncio.timeout(TIMEOUT_SECONDS):
                            delivery = await anext(deliveries)
                        if chance.random() < 0.3:
                            return  # as if stopped in the middle
                        handled.append(delivery.envelope.body)
                        await delivery.ack()

        for number in range(30):
            sent.append(Envelope(to, number))
            await bus.send(sent[-1])
            if chance.random() < 0.4:
                await other.send(chance.choice(sent))
            if chance.random() < 0.4:
                await receive()
        while len(handled) < len(sent):
            await receive()
        assert handled == list(range(30))

    # Answers

    async def test_a_request_has_its_reply(self, bus: Bus, other: Bus, to: Address) -> None:
        async with answering(other, to, lambda delivery: delivery.reply({"was": delivery.envelope.body})):
            for number in range(20):
                assert await request(bus, Envelope(to, number), timeout=TIMEOUT_SECONDS) == {"was": number}

    async def test_a_reply_acknowledges(self, bus: Bus, other: Bus, to: Address) -> None:
        seen: list[int] = []

        async def answer(delivery: Delivery) -> None:
            seen.append(delivery.deliveries)
            await delivery.reply(None)

        for _ in range(2):
            async with answering(other, to, answer):
                await request(bus, Envelope(to, None), timeout=TIMEOUT_SECONDS)
        assert seen == [1, 1]

    async def test_requests_at_the_same_time_have_each_their_own(self, bus: Bus, other: Bus, to: Address) -> None:
        async with answering(other, to, lambda delivery: delivery.reply(delivery.envelope.body)):
            asked = [request(bus, Envelope(to, number), timeout=TIMEOUT_SECONDS) for number in range(30)]
            assert await asyncio.gather(*asked) == list(range(30))

    async def test_a_failure_is_a_sentence_and_a_kind(self, bus: Bus, other: Bus, to: Address) -> None:
        async with answering(other, to, lambda delivery: delivery.fail("There is no such paper.", "not_found")):
            with pytest.raises(Failed, match="There is no such paper") as raised:
                await request(bus, Envelope(to, None), timeout=TIMEOUT_SECONDS)
        assert raised.value.failure == "not_found"

    async def test_frames_arrive_in_order_and_once(self, bus: Bus, other: Bus, to: Address) -> None:
        async def stream(delivery: Delivery) -> None:
            for number in range(200):
                await delivery.emit(number)
            await delivery.reply("end")

        async with answering(other, to, stream), bus.asking(Envelope(to, None), timeout=TIMEOUT_SECONDS) as frames:
            found = [frame async for frame in frames]
        assert [frame.body for frame in found] == [*range(200), "end"]
        assert [frame.kind for frame in found] == ["frame"] * 200 + ["reply"]

    async def test_a_slow_reader_misses_nothing(self, bus: Bus, other: Bus, to: Address) -> None:
        """More frames than anybody holds for it."""

        async def stream(delivery: Delivery) -> None:
            for number in range(count):
                await delivery.emit(number)
            await delivery.reply("end")

        count = INBOX + 100
        async with answering(other, to, stream), bus.asking(Envelope(to, None), timeout=10 * TIMEOUT_SECONDS) as frames:
            first = await anext(frames)
            await asyncio.sleep(0.5)
            found = [first.body, *[frame.body async for frame in frames]]
        assert found == [*range(count), "end"]

    async def test_who_takes_over_an_answer_begins_it_anew(self, bus: Bus, other: Bus, to: Address) -> None:
        async with bus.asking(Envelope(to, None), timeout=TIMEOUT_SECONDS) as frames:
            async with other.receiving(to.name) as deliveries:
                lost = await anext(deliveries)
                await lost.emit("begun by the first")
                assert await _frame(frames) == ("frame", "begun by the first")
            async with answering(other, to, lambda delivery: delivery.reply("by the second")):
                assert await _frame(frames) == ("restart", None)
                assert await _frame(frames) == ("reply", "by the second")

    async def test_a_request_to_nobody_ends_in_time_and_is_not_delivered_later(
        self, bus: Bus, other: Bus, to: Address
    ) -> None:
        with pytest.raises(NobodyThere, match=to.name):
            await request(bus, Envelope(to, "late"), timeout=0.3)
        async with answering(other, to, lambda delivery: delivery.reply(delivery.envelope.body)):
            assert await request(bus, Envelope(to, "in time"), timeout=TIMEOUT_SECONDS) == "in time"

    async def test_an_answer_that_does_not_come_in_time_is_cancelled(self, bus: Bus, other: Bus, to: Address) -> None:
        cancelled = asyncio.Event()

        async def never(delivery: Delivery) -> None:
            await delivery.ack()
            await delivery.cancelled()
            cancelled.set()

        async with answering(other, to, never):
            with pytest.raises(DeadlineExceeded, match=to.name):
                await request(bus, Envelope(to, None), timeout=0.3)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await cancelled.wait()

    async def test_who_leaves_cancels(self, bus: Bus, other: Bus, to: Address) -> None:
        cancelled = asyncio.Event()

        async def endless(delivery: Delivery) -> None:
            await delivery.ack()
            await delivery.emit("begun")
            await delivery.cancelled()
            cancelled.set()
            await delivery.emit("nobody reads this")
            await delivery.fail("It was stopped.")

        async with answering(other, to, endless):
            async with bus.asking(Envelope(to, None), timeout=TIMEOUT_SECONDS) as frames:
                assert await _frame(frames) == ("frame", "begun")
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await cancelled.wait()
        async with answering(other, to, lambda delivery: delivery.reply("the next")):
            assert await request(bus, Envelope(to, None), timeout=TIMEOUT_SECONDS) == "the next"

    # Lost connections

    async def test_nothing_is_lost_with_a_connection(
        self, bus: Bus, other: Bus, to: Address, disrupt: Callable[[], Awaitable[None]]
    ) -> None:
        """A waiting message, one in progress and a half-sent answer all outlive the connection."""
        half, go_on = asyncio.Event(), asyncio.Event()

        async def stream(delivery: Delivery) -> None:
            await delivery.emit("one")
            half.set()
            await go_on.wait()
            await delivery.emit("two")
            await delivery.reply("three")

        await bus.send(waiting := Envelope(Address(f"{to.name}.waiting"), "kept"))
        async with answering(other, to, stream), bus.asking(Envelope(to, None), timeout=TIMEOUT_SECONDS) as frames:
            await half.wait()
            await disrupt()
            go_on.set()
            found = [frame.body async for frame in frames]
            assert found in (["one", "two", "three"], ["one", None, "one", "two", "three"])
        async with other.receiving(waiting.to.name) as deliveries:
            assert (await _handled(deliveries)).body == "kept"

    # Cards

    async def test_cards_are_shown_and_seen_to_come_and_go(self, bus: Bus, other: Bus, to: Address) -> None:
        takes = JsonObject({"type": "object"})
        card = Card(
            to.name, "Reviews code. é", takes=takes, labels=("gpu",), load=0.5, models=("a/b",), tools=("Read",)
        )
        await bus.put_card(card)
        async with asyncio.timeout(TIMEOUT_SECONDS), other.watching_cards() as changes:
            known = [change async for change in _until_none(changes)]
            assert Change(to.name, card) in known
            assert card in await other.cards()
            second = Card(f"{to.name}.second")
            await bus.put_card(second)
            assert await _about(changes, second.address) == Change(second.address, second)
            await bus.remove_card(to.name)
            assert await _about(changes, to.name) == Change(to.name)
        assert card not in await other.cards()
        await bus.remove_card(to.name)  # once more

    async def test_a_query_means_a_namespace_and_not_one_whose_name_begins_alike(
        self, bus: Bus, other: Bus, to: Address
    ) -> None:
        space = to.name
        addresses = [space, f"{space}.a", f"{space}.a.b", f"{space}b", f"{space}b.a", f"{space}-.a"]
        for address in addresses:
            await bus.put_card(Card(address, labels=("gpu",) if address.endswith(".b") else ()))
        asked = {
            Query(space): addresses[:3],
            Query(space, recursive=False): addresses[:2],
            Query(f"{space}.a.b"): addresses[2:3],
            Query(space, labels=("gpu",)): addresses[2:3],
            Query(f"{space}b", recursive=False): addresses[3:5],
            Query(space, kind="node"): [],
            Query(f"{space}.*"): [],
            Query("a space"): [],
        }
        found = await find(other, *asked)
        assert [[card.address for card in cards] for cards in found] == [*asked.values()]
        for query, wanted in asked.items():
            assert sorted(card.address for card in await other.cards(query)) == wanted
        for address in addresses:
            await bus.remove_card(address)


@asynccontextmanager
async def answering(bus: Bus, to: Address, handle: Callable[[Delivery], Awaitable[None]]) -> AsyncGenerator[None]:
    """Handle every message to an address; acknowledged ones concurrently."""
    failures: list[BaseException] = []

    async def handled(delivery: Delivery) -> None:
        try:
            await handle(delivery)
        except MeshError:  # the other side has gone
            pass
        except Exception as error:
            failures.append(error)

    async def receive() -> None:
        async with bus.receiving(to.name) as deliveries, asyncio.TaskGroup() as group:
            ready.set()
            async for delivery in deliveries:
                group.create_task(handled(delivery))

    ready = asyncio.Event()
    task = asyncio.create_task(receive())
    try:
        await ready.wait()
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()):
        raise error
    assert not failures, failures


async def request_is_answered(bus: Bus, other: Bus, to: Address) -> None:
    """Wait until all earlier messages to an address had the chance of delivery."""
    await bus.send(Envelope(to, "marker"))
    beyond = Address(f"{to.name}.beyond")
    async with answering(other, beyond, lambda delivery: delivery.reply(None)):
        await request(bus, Envelope(beyond, None), timeout=TIMEOUT_SECONDS)


async def _next(deliveries: AsyncIterator[Delivery]) -> Delivery:
    """Return the next delivery, acknowledged."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        delivery = await anext(deliveries)
        await delivery.ack()
    return delivery


async def _handled(deliveries: AsyncIterator[Delivery]) -> Envelope:
    return (await _next(deliveries)).envelope


async def _frame(frames: AsyncIterator[Frame]) -> tuple[str, Json]:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        frame = await anext(frames)
    return frame.kind, frame.body


async def _until_none(changes: AsyncIterator[Change | None]) -> AsyncIterator[Change]:
    async for change in changes:
        if change is None:
            return
        yield change


async def _about(changes: AsyncIterator[Change | None], address: str) -> Change:
    """Return the next change of one card."""
    async for change in changes:
        if change is not None and change.address == address:
            return change
    raise AssertionError("the changes have ended")
