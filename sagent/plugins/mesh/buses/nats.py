"""A bus over NATS JetStream: the server keeps messages and answers until they are done."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime

from sagent.errors import UsageError
from sagent.lib.json import as_object, as_str, json_load, wire_bytes
from sagent.plugins.mesh import names
from sagent.plugins.mesh.answers import Answer, AnsweredDelivery
from sagent.plugins.mesh.buckets import Entry
from sagent.plugins.mesh.bus import (
    Delivery,
    Envelope,
    Frame,
    answer_timeout,
    decode,
    decode_frame,
    encode,
    encode_body,
    encode_frame,
    failure,
    new_id,
    no_receiver,
)
from sagent.plugins.mesh.cards import Card, Change, Query, decode_card, encode_card, matching, patterns
from sagent.plugins.mesh.connection import CALL_TIMEOUT_SECONDS, Request
from sagent.plugins.mesh.errors import DeadlineExceeded, Failed, Fenced, Full, MeshError, Unavailable, WrongVersion
from sagent.plugins.mesh.jetstream import JetStream, connected
from sagent.plugins.mesh.large_bodies import LargeBodies
from sagent.plugins.mesh.streams import Intake, LeasedMessage

ACK_TIMEOUT_SECONDS = 5.0  # without a sign of the receiver, after which a message is delivered again
MAX_REMEMBERED = 10_000  # ids of finished messages that a receiver remembers
_CANCEL_TIMEOUT_SECONDS = 3.0  # seconds for the bus to learn that an answer is no longer wanted
_RETENTION_MARGIN_SECONDS = (
    60.0  # seconds that the server keeps a message beyond its time, because its sender decides on that
)
_TAKEN, _GIVEN_UP = b"taken", b"given up"


@asynccontextmanager
async def nats_bus(url: str) -> AsyncGenerator["NatsBus"]:
    """Connect to a bus. Raises UsageError, Refused, Unavailable."""
    async with connected(url) as jetstream:
        await jetstream.ensure()
        async with serving_answers(jetstream) as bus:
            yield bus


@asynccontextmanager
async def serving_answers(jetstream: JetStream) -> AsyncGenerator["NatsBus"]:
    """Yield a bus over an open connection with existing streams."""
    bus = NatsBus(jetstream, await _measure_clock(jetstream))
    async with jetstream.listening(names.reply_subject(bus.client)) as replies:
        task = asyncio.create_task(bus.take_replies(replies))
        jetstream.on_reconnect.add(bus.doubt)
        try:
            yield bus
        finally:
            jetstream.on_reconnect.discard(bus.doubt)
            task.cancel()


class NatsBus:
    """A bus over JetStream. Made by `nats_bus`. Times in messages are its server's, whose clock is `ahead` of this
    machine's by that many seconds, so machines need not agree."""

    def __init__(self, jetstream: JetStream, ahead: float) -> None:
        self.jetstream, self.client, self._ahead = jetstream, f"{jetstream.user}.{new_id()}", ahead
        self._asked: dict[str, _PendingAnswer] = {}
        self.large_bodies, self.fates = LargeBodies(jetstream), jetstream.bucket(names.FATES)
        self._cards = jetstream.bucket(names.CARDS)

    async def send(self, envelope: Envelope, *, timeout: float = 10.0) -> "_Sent":
        body_name = await self.large_bodies.put(encode_body(envelope))
        data, subject = encode(_shifted(envelope, self._ahead), body_name), names.inbox_subject(envelope.to.name)
        times = [when for when in (envelope.deadline, envelope.kept_until) if when is not None]
        ttl = min(times) - time.time() + _RETENTION_MARGIN_SECONDS if times else None
        end, pause = time.monotonic() + timeout, 0.05
        while True:
            left = max(0.1, end - time.monotonic())
            try:
                sequence = await self.jetstream.append(subject, data, id=envelope.id, ttl=ttl, timeout=left)
            except Full:
                if time.monotonic() + pause > end:
                    raise Full(f"The inbox of {envelope.to} is full; its receiver does not keep up.") from None
                await asyncio.sleep(pause)
                pause = min(1.0, 2 * pause)
            else:
                return _Sent(self, replace(envelope, body=None), sequence)  # it may be kept for long

    @asynccontextmanager
    async def asking(self, envelope: Envelope, *, timeout: float = 600.0) -> AsyncGenerator[AsyncIterator[Frame]]:
        until = time.monotonic() + timeout
        asked = replace(envelope, answers_to=self.client, deadline=time.time() + timeout)
        answer = self._asked[envelope.id] = _PendingAnswer(
            names.reply_subject(self.client, envelope.to.name, envelope.id)
        )
        try:
            sent = await self.send(asked, timeout=timeout)
            try:
                yield self._frames(answer, sent, until)
            finally:
                if not answer.ended:
                    await self._cancel(sent)
        finally:
            del self._asked[envelope.id]

    async def _frames(self, pending: "_PendingAnswer", sent: "_Sent", until: float) -> AsyncIterator[Frame]:
        while True:
            while (frame := pending.answer.take()) is not None:
                pending.ended = frame.is_last
                yield await self._opened(frame, pending.body_names.pop((frame.attempt, frame.number), ""))
                if pending.ended:
                    return
            if pending.answer.is_incomplete:
                await self._read_again(pending)
                continue
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await pending.news.wait()
                pending.news.clear()
            except TimeoutError:
                name = names.token(sent.envelope.to.name)
                if await self.jetstream.last_delivered(names.INBOX, name) < sent.sequence:
                    raise no_receiver(sent.envelope) from None
                raise answer_timeout(sent.envelope) from None

    async def _read_again(self, pending: "_PendingAnswer") -> None:
        pending.answer.is_incomplete = False
        with suppress(Unavailable):  # read again after the next reconnect
            async for message in self.jetstream.read(names.REPLIES, pending.subject):
                pending.put(message.data)

    async def _opened(self, frame: Frame, body_name: str) -> Frame:
        """Return the frame with its body, if that was sent separately."""
        try:
            return replace(frame, body=json_load(await self.large_bodies.get(body_name))) if body_name else frame
        except (ValueError, Failed) as error:
            raise Unavailable(f"An answer cannot be read: {error}") from None

    async def _cancel(self, sent: "_Sent") -> None:
        with suppress(MeshError, TimeoutError):  # whoever answers stops at the deadline then
            async with asyncio.timeout(_CANCEL_TIMEOUT_SECONDS):
                await self.decide(sent.envelope, _GIVEN_UP)  # whoever would get it later looks
            await self.jetstream.publish(names.cancel_subject(sent.envelope.to.name), sent.id.encode(), timeout=1.0)

    async def take_replies(self, replies: AsyncIterator[Request]) -> None:
        """Pass frames to their requesters."""
        async for reply in replies:
            subject = reply.message.subject
            asked = self._asked.get(subject.rpartition(".")[2])
            if asked is not None and asked.subject == subject:  # else it is in the name of another address
                asked.put(reply.message.data)

    def doubt(self) -> None:
        """Read every answer again, because frames may have been lost with the connection."""
        for asked in self._asked.values():
            asked.answer.is_incomplete = True
            asked.news.set()

    @asynccontextmanager
    async def receiving(self, name: str) -> AsyncGenerator[AsyncIterator[Delivery]]:
        subject, working = names.inbox_subject(name), _Working(name)
        async with (
            self.jetstream.listening(names.cancel_subject(name)) as cancels,
            self.jetstream.taking(names.INBOX, subject, name, ack_wait=ACK_TIMEOUT_SECONDS) as intake,
        ):
            tasks = [asyncio.create_task(working.take_cancels(cancels)), asyncio.create_task(working.keep())]
            try:
                yield self._deliveries(intake, working)
            finally:
                for task in tasks:
                    task.cancel()
                await working.give_back()

    async def _deliveries(self, intake: Intake, working: "_Working") -> AsyncIterator[Delivery]:
        while True:
            if (taken := await intake.next()) is None:
                continue
            try:
                delivery = await self._received(taken, working)
            except Unavailable:
                await taken.again()
                continue
            if delivery is not None:
                working.begin(delivery)
                yield delivery

    async def _received(self, leased: LeasedMessage, working: "_Working") -> "_Delivery | None":
        """Return the delivery to handle for a message; None if there is nothing to do. Raises Unavailable."""
        try:
            envelope, body_name = decode(leased.message.data)
            envelope = _shifted(envelope, -self._ahead)
            if envelope.id in working.done or not await self._is_ours(working.name, envelope, leased.deliveries):
                await leased.ack()
                return None
            if body_name:
                envelope = replace(envelope, body=json_load(await self.large_bodies.get(body_name)))
        except (ValueError, WrongVersion, Failed) as error:
            await self._refuse(working.name, leased, error)
            return None
        delivery = _Delivery(self, working, leased, envelope, body_name)
        if envelope.is_late:
            await delivery.fail(str(answer_timeout(envelope)), DeadlineExceeded.kind)
            return None
        return delivery

    async def _is_ours(self, name: str, envelope: Envelope, deliveries: int) -> bool:
        """Return True if a message may still be handled: it was not answered, and its sender has not given it up."""
        if deliveries > 1 and envelope.answers_to:
            subject = names.reply_subject(envelope.answers_to, name, envelope.id)
            last = await self.jetstream.last_message(names.REPLIES, subject, direct=True)
            if last is not None and decode_frame(last.data)[0].is_last:
                return False  # it was answered by a process that stopped before its acknowledgement
        if envelope.kept_until is None:
            fate = await self.fates.get(names.token(envelope.id)) if envelope.answers_to else None
            return fate is None or fate.value != _GIVEN_UP
        fate = _GIVEN_UP if time.time() > envelope.kept_until else _TAKEN
        return await self.decide(envelope, fate) == _TAKEN

    async def decide(self, envelope: Envelope, fate: bytes) -> bytes:
        """Decide finally what happens to a message kept for a limited time: the first writer wins."""
        key = names.token(envelope.id)
        try:
            await self.fates.create(key, fate)
        except Fenced:
            found = await self.fates.get(key)
            return found.value or fate if found is not None else fate
        return fate

    async def _refuse(self, name: str, leased: LeasedMessage, error: Exception) -> None:
        """Reject an unreadable message, if it says where answers go."""
        with suppress(ValueError):
            members = as_object(json_load(leased.message.data))
            client, own = as_str(members.get("answers_to")), as_str(members.get("id"))
            if client and own:
                kind = error.kind if isinstance(error, MeshError) else MeshError.kind
                frame = Frame("failed", failure(str(error), kind), attempt=leased.deliveries)
                await self.answer(names.reply_subject(client, name, own), own, frame)
        await leased.ack()

    async def answer(self, subject: str, request: str, frame: Frame, *, until: float | None = None) -> None:
        """Send a frame to the requester, who waits `until` then (UTC, seconds); return when the bus has it."""
        seconds = max(CALL_TIMEOUT_SECONDS, until - time.time()) if until is not None else CALL_TIMEOUT_SECONDS
        body_name = await self.large_bodies.put(wire_bytes(frame.body))
        mark = f"{request}.{frame.attempt}.{frame.number}"
        await self.jetstream.append(subject, encode_frame(frame, body_name), id=mark, timeout=seconds)

    async def put_card(self, card: Card) -> None:
        await self._cards.put(card.address, wire_bytes(encode_card(card)))

    async def remove_card(self, address: str) -> None:
        await self._cards.delete(address)

    async def cards(self, *queries: Query) -> list[Card]:
        if not (wanted := patterns(queries)) and queries:
            return []
        found = [_change(entry).card for entry in await self._cards.entries(*wanted)]
        return matching(queries, (card for card in found if card is not None))

    @asynccontextmanager
    async def watching_cards(self) -> AsyncGenerator[AsyncIterator[Change | None]]:
        async with self._cards.watching() as entries:

            async def changes() -> AsyncIterator[Change | None]:
                async for entry in entries:
                    yield None if entry is None else _change(entry)

            yield changes()


async def _measure_clock(jetstream: JetStream) -> float:
    """Return the seconds by which the server's clock is ahead of this machine's. Raises Unavailable."""
    said = as_object(json_load(await jetstream.request(f"$JS.API.STREAM.INFO.{names.INBOX}", b"")))
    return datetime.fromisoformat(as_str(said["ts"])).timestamp() - time.time() if "ts" in said else 0.0


def _shifted(envelope: Envelope, seconds: float) -> Envelope:
    """Return a message with its times converted between clocks."""
    deadline, until = (when and when + seconds for when in (envelope.deadline, envelope.kept_until))
    return replace(envelope, deadline=deadline, kept_until=until)


def _change(entry: Entry) -> Change:
    """Return the change that a card's message means. An invalid card, or one of an unknown version, is not shown."""
    try:
        return Change(entry.key, None if entry.value is None else decode_card(json_load(entry.value)))
    except (ValueError, WrongVersion):
        return Change(entry.key)


class _PendingAnswer:
    """An answer that is waited for, on a subject."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.answer, self.news, self.ended = Answer(), asyncio.Event(), False
        self.body_names: dict[tuple[int, int], str] = {}

    def put(self, data: bytes) -> None:
        try:
            frame, body_name = decode_frame(data)
        except ValueError:
            return
        if body_name:
            self.body_names[frame.attempt, frame.number] = body_name
        self.answer.put(frame)
        self.news.set()


class _Sent:
    def __init__(self, bus: NatsBus, envelope: Envelope, sequence: int) -> None:
        self._bus, self.envelope, self.sequence = bus, envelope, sequence

    @property
    def id(self) -> str:
        return self.envelope.id

    async def taken(self) -> None:
        if (until := self.envelope.kept_until) is None:
            raise UsageError("The message has no kept_until: set it to learn whether the message was received.")
        watching = self._bus.fates.watching(names.token(self.envelope.id))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - time.time())), watching as fates:
                async for fate in fates:
                    if fate is not None:
                        break
        if await self._bus.decide(self.envelope, _GIVEN_UP) != _TAKEN:
            raise no_receiver(self.envelope)


class _Working:
    """The messages of one receiver: the current one, and those with unsent answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done: OrderedDict[str, None] = OrderedDict()
        self._now: _Delivery | None = None
        self._open: OrderedDict[str, _Delivery] = OrderedDict()

    def begin(self, delivery: "_Delivery") -> None:
        self._now = delivery
        if delivery.envelope.answers_to:
            self._open[delivery.envelope.id] = delivery
            while len(self._open) > MAX_REMEMBERED:
                self._open.popitem(last=False)

    def acknowledged(self, delivery: "_Delivery") -> None:
        self.done[delivery.envelope.id] = None
        while len(self.done) > MAX_REMEMBERED:
            self.done.popitem(last=False)
        if self._now is delivery:
            self._now = None

    def answered(self, delivery: "_Delivery") -> None:
        self._open.pop(delivery.envelope.id, None)

    async def take_cancels(self, cancels: AsyncIterator[Request]) -> None:
        async for cancel in cancels:
            if (delivery := self._open.pop(cancel.message.data.decode("ascii", "replace"), None)) is not None:
                delivery.cancel.set()

    async def keep(self) -> None:
        """Say that the message at work is worked on."""
        while True:
            await asyncio.sleep(ACK_TIMEOUT_SECONDS / 3)
            if (delivery := self._now) is not None:
                await delivery.taken.working()

    async def give_back(self) -> None:
        """Redeliver the unacknowledged message at once."""
        if self._now is not None:
            await self._now.taken.again()


class _Delivery(AnsweredDelivery):
    def __init__(
        self, bus: NatsBus, working: _Working, leased: LeasedMessage, envelope: Envelope, body_name: str
    ) -> None:
        super().__init__(envelope, leased.message.sequence, leased.deliveries, asyncio.Event())
        self._bus, self._working, self.taken, self._body_name = bus, working, leased, body_name
        self._is_acknowledged = False

    async def ack(self) -> None:
        if self._is_acknowledged:
            return
        self._is_acknowledged = True
        self._working.acknowledged(self)
        await self.taken.ack()  # if lost, the message comes again and is recognized as done
        await self._bus.large_bodies.drop(self._body_name)

    async def put(self, frame: Frame) -> None:
        subject = names.reply_subject(self.envelope.answers_to, self._working.name, self.envelope.id)
        await self._bus.answer(subject, self.envelope.id, frame, until=self.envelope.deadline)
        if frame.is_last:
            self._working.answered(self)
