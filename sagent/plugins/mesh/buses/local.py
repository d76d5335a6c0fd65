"""A bus within one process and event loop. Nothing is kept when the process ends."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from sagent.errors import UsageError
from sagent.plugins.mesh import names
from sagent.plugins.mesh.answers import UNREAD, Answer, AnsweredDelivery
from sagent.plugins.mesh.bus import Delivery, Envelope, Frame, answer_timeout, encode_body, no_receiver
from sagent.plugins.mesh.cards import Card, Change, Query, meant
from sagent.plugins.mesh.errors import Full

INBOX_LIMIT = 1_000
REMEMBERED = 10_000  # message ids to remember
MAX_WAITING_BYTES = 256 << 20  # of all messages that wait
MAX_ADDRESSES = 10_000  # with waiting messages


class LocalBus:
    """A bus for the agents of one process."""

    def __init__(self) -> None:
        self._inboxes: dict[str, _Inbox] = {}
        self._answers: dict[str, _LocalAnswer] = {}
        self._known: OrderedDict[str, _Sent] = OrderedDict()
        self._cards: dict[str, tuple[Card, float]] = {}
        self._watchers: set[asyncio.Queue[Change | None]] = set()

    async def send(self, envelope: Envelope, *, timeout: float = 10.0) -> "_Sent":
        size = len(encode_body(envelope))
        if (known := self._known.get(envelope.id)) is not None:
            return known
        inbox = self._inbox(envelope.to.name)
        if sum(inbox.size for inbox in self._inboxes.values()) + size > MAX_WAITING_BYTES:
            raise Full(f"More than {MAX_WAITING_BYTES:,} bytes of messages wait on this bus already.")
        try:
            async with asyncio.timeout(timeout):
                await inbox.signal.wait(lambda: len(inbox.waiting) < INBOX_LIMIT)
        except TimeoutError:
            raise Full(f"The inbox of {envelope.to} is full: {INBOX_LIMIT:,} messages wait there.") from None
        sent = self._known[envelope.id] = _Sent(envelope, size)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        inbox.put(sent)
        return sent

    @asynccontextmanager
    async def asking(self, envelope: Envelope, *, timeout: float = 600.0) -> AsyncGenerator[AsyncIterator[Frame]]:
        until = time.monotonic() + timeout
        asked = replace(envelope, answers_to="local", deadline=time.time() + timeout)
        answer = self._answers[envelope.id] = _LocalAnswer()
        sent: _Sent | None = None
        try:
            sent = await self.send(asked, timeout=timeout)
            yield answer.frames(sent, until)
        finally:
            del self._answers[envelope.id]
            answer.cancelled.set()
            answer.signal.set()
            if sent is not None:
                self._inbox(envelope.to.name).remove(sent)

    @asynccontextmanager
    async def receiving(self, name: str) -> AsyncGenerator[AsyncIterator[Delivery]]:
        inbox, last = self._inbox(name), list[_Sent]()

        async def deliveries() -> AsyncIterator[Delivery]:
            while True:
                sent = await inbox.take()
                last[:] = [sent]
                delivery = _Delivery(inbox, sent, self._answers.get(sent.id) or _LocalAnswer())
                if sent.envelope.is_late:
                    await delivery.fail(str(answer_timeout(sent.envelope)), answer_timeout(sent.envelope).kind)
                else:
                    yield delivery

        inbox.receivers += 1
        try:
            yield deliveries()
        finally:
            inbox.receivers -= 1
            for sent in last:
                inbox.put_back(sent)

    async def put_card(self, card: Card) -> None:
        self._cards[card.address] = card, time.monotonic() + names.CARD_TTL
        self._publish(Change(card.address, card))

    async def remove_card(self, address: str) -> None:
        if self._cards.pop(address, None):
            self._publish(Change(address))

    async def cards(self, *queries: Query) -> list[Card]:
        self._expire()
        return meant(queries, (card for card, _ in self._cards.values()))

    @asynccontextmanager
    async def watching_cards(self) -> AsyncGenerator[AsyncIterator[Change | None]]:
        queue = asyncio.Queue[Change | None]()
        for card in await self.cards():
            queue.put_nowait(Change(card.address, card))
        queue.put_nowait(None)
        self._watchers.add(queue)

        async def changes() -> AsyncIterator[Change | None]:
            while True:
                try:
                    async with asyncio.timeout(names.CARD_TTL / 10):
                        change = await queue.get()
                except TimeoutError:
                    self._expire()
                    continue
                yield change

        try:
            yield changes()
        finally:
            self._watchers.discard(queue)

    def _expire(self) -> None:
        now = time.monotonic()
        for address in [address for address, (_, until) in self._cards.items() if until < now]:
            del self._cards[address]
            self._publish(Change(address))

    def _publish(self, change: Change) -> None:
        for queue in self._watchers:
            queue.put_nowait(change)

    def _inbox(self, name: str) -> "_Inbox":
        if name not in self._inboxes and len(self._inboxes) >= MAX_ADDRESSES:
            self._inboxes = {name: inbox for name, inbox in self._inboxes.items() if inbox.is_used}
            if len(self._inboxes) >= MAX_ADDRESSES:
                raise Full(f"Messages wait at {MAX_ADDRESSES:,} addresses of this bus already.")
        return self._inboxes.setdefault(name, _Inbox())


class _Signal:
    """Wakes those who wait for a condition, to check it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._event.wait()


class _Sent:
    """A message in an inbox."""

    def __init__(self, envelope: Envelope, size: int) -> None:
        self.envelope, self.size, self.deliveries, self.sequence = envelope, size, 0, 0
        self.is_taken = asyncio.Event()
        self.is_given_up = False

    @property
    def id(self) -> str:
        return self.envelope.id

    def forget(self) -> None:
        """Drop the message's body; its id stays known."""
        self.envelope = replace(self.envelope, body=None)

    async def taken(self) -> None:
        if (until := self.envelope.kept_until) is None:
            raise UsageError("The message has no kept_until: set it to learn whether the message was received.")
        try:
            async with asyncio.timeout(max(0.0, until - time.time())):
                await self.is_taken.wait()
        except TimeoutError:
            if not self.is_taken.is_set():
                self.is_given_up = True
                raise no_receiver(self.envelope) from None


class _Inbox:
    """The messages waiting at one address; its receiver works on `now`."""

    def __init__(self) -> None:
        self.waiting: deque[_Sent] = deque()
        self.size = 0  # in bytes, of what waits
        self.signal = _Signal()
        self.receivers = 0
        self._now: _Sent | None = None
        self._count = 0

    @property
    def is_used(self) -> bool:
        """True if messages wait there, or somebody receives."""
        return bool(self.waiting or self._now or self.receivers)

    def put(self, sent: _Sent) -> None:
        self._count += 1
        sent.sequence = self._count
        self.waiting.append(sent)
        self.size += sent.size
        self.signal.set()

    async def take(self) -> _Sent:
        """Return the next message, once the one before is done; messages not taken in time are dropped."""
        while True:
            await self.signal.wait(lambda: bool(self.waiting) and self._now is None)
            sent = self.waiting.popleft()
            self.size -= sent.size
            self.signal.set()  # there is room
            until = sent.envelope.kept_until
            if sent.is_given_up or (until is not None and until < time.time() and not sent.deliveries):
                sent.forget()
                continue
            self._now = sent
            sent.deliveries += 1
            sent.is_taken.set()
            return sent

    def done(self, sent: _Sent) -> None:
        if self._now is sent:
            self._now = None
            sent.forget()
            self.signal.set()

    def put_back(self, sent: _Sent) -> None:
        if self._now is sent:
            self._now = None
            self.waiting.appendleft(sent)
            self.size += sent.size
            self.signal.set()

    def remove(self, sent: _Sent) -> None:
        if sent in self.waiting:
            self.waiting.remove(sent)
            self.size -= sent.size
            sent.forget()
            self.signal.set()


class _LocalAnswer:
    """The answer to one message in transit; the sender waits for a slow reader."""

    def __init__(self) -> None:
        self.cancelled, self.signal, self._answer = asyncio.Event(), _Signal(), Answer()

    async def put(self, frame: Frame) -> None:
        await self.signal.wait(lambda: len(self._answer) < UNREAD or self.cancelled.is_set())
        self._answer.put(frame)
        self.signal.set()

    async def frames(self, sent: _Sent, until: float) -> AsyncIterator[Frame]:
        while True:
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await self.signal.wait(lambda: len(self._answer) > 0)
            except TimeoutError:
                raise answer_timeout(sent.envelope) if sent.is_taken.is_set() else no_receiver(sent.envelope) from None
            while (frame := self._answer.take()) is not None:
                self.signal.set()
                yield frame
                if frame.is_last:
                    return


class _Delivery(AnsweredDelivery):
    def __init__(self, inbox: _Inbox, sent: _Sent, answer: _LocalAnswer) -> None:
        super().__init__(sent.envelope, sent.sequence, sent.deliveries, answer.cancelled)
        self._inbox, self._sent, self._answer = inbox, sent, answer

    async def ack(self) -> None:
        self._inbox.done(self._sent)

    async def put(self, frame: Frame) -> None:
        await self._answer.put(frame)
