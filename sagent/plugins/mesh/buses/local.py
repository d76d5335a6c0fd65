"""A bus within one process and event loop. Nothing is kept when the process ends."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from sagent.errors import UsageError
from sagent.plugins.mesh import names
from sagent.plugins.mesh.answers import MAX_UNREAD_FRAMES, Answer, AnsweredDelivery
from sagent.plugins.mesh.bus import Delivery, Envelope, Frame, answer_timeout, encode_body, no_receiver
from sagent.plugins.mesh.cards import Card, Change, Query, matching
from sagent.plugins.mesh.errors import Full

MAX_INBOX_MESSAGES = 1_000
MAX_REMEMBERED = 10_000  # ids of sent messages
MAX_WAITING_BYTES = 256 << 20  # of all messages that wait
MAX_ADDRESSES = 10_000  # with waiting messages


class LocalBus:
    """A bus for the agents of one process."""

    def __init__(self) -> None:
        self._inboxes: dict[str, _Inbox] = {}
        self._answers: dict[str, _LocalAnswer] = {}
        self._sent_by_id: OrderedDict[str, _QueuedMessage] = OrderedDict()
        self._cards: dict[str, tuple[Card, float]] = {}
        self._watchers: set[asyncio.Queue[Change | None]] = set()

    async def send(self, envelope: Envelope, *, timeout: float = 10.0) -> "_QueuedMessage":
        size = len(encode_body(envelope))
        if (known := self._sent_by_id.get(envelope.id)) is not None:
            return known
        inbox = self._inbox(envelope.to.name)
        if sum(inbox.size for inbox in self._inboxes.values()) + size > MAX_WAITING_BYTES:
            raise Full(f"More than {MAX_WAITING_BYTES:,} bytes of messages wait on this bus already.")
        try:
            async with asyncio.timeout(timeout):
                await inbox.signal.wait(lambda: len(inbox.waiting) < MAX_INBOX_MESSAGES)
        except TimeoutError:
            raise Full(f"The inbox of {envelope.to} is full: {MAX_INBOX_MESSAGES:,} messages wait there.") from None
        message = self._sent_by_id[envelope.id] = _QueuedMessage(envelope, size)
        while len(self._sent_by_id) > MAX_REMEMBERED:
            self._sent_by_id.popitem(last=False)
        inbox.put(message)
        return message

    @asynccontextmanager
    async def asking(self, envelope: Envelope, *, timeout: float = 600.0) -> AsyncGenerator[AsyncIterator[Frame]]:
        until = time.monotonic() + timeout
        request = replace(envelope, answers_to="local", deadline=time.time() + timeout)
        answer = self._answers[envelope.id] = _LocalAnswer()
        message: _QueuedMessage | None = None
        try:
            message = await self.send(request, timeout=timeout)
            yield answer.frames(message, until)
        finally:
            del self._answers[envelope.id]
            answer.cancelled.set()
            answer.signal.set()
            if message is not None:
                self._inbox(envelope.to.name).remove(message)

    @asynccontextmanager
    async def receiving(self, name: str) -> AsyncGenerator[AsyncIterator[Delivery]]:
        inbox, last = self._inbox(name), list[_QueuedMessage]()

        async def deliveries() -> AsyncIterator[Delivery]:
            while True:
                message = await inbox.take()
                last[:] = [message]
                delivery = _Delivery(inbox, message, self._answers.get(message.id) or _LocalAnswer())
                if message.envelope.is_late:
                    await delivery.fail(str(answer_timeout(message.envelope)), answer_timeout(message.envelope).kind)
                else:
                    yield delivery

        inbox.receivers += 1
        try:
            yield deliveries()
        finally:
            inbox.receivers -= 1
            for message in last:
                inbox.put_back(message)

    async def put_card(self, card: Card) -> None:
        self._cards[card.address] = card, time.monotonic() + names.CARD_TTL
        self._publish(Change(card.address, card))

    async def remove_card(self, address: str) -> None:
        if self._cards.pop(address, None):
            self._publish(Change(address))

    async def cards(self, *queries: Query) -> list[Card]:
        self._expire()
        return matching(queries, (card for card, _ in self._cards.values()))

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
    """A condition variable without a lock: `set` makes every waiter check its condition again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._event.wait()


class _QueuedMessage:
    """A message in an inbox."""

    def __init__(self, envelope: Envelope, size: int) -> None:
        self.envelope, self.size, self.deliveries, self.sequence = envelope, size, 0, 0
        self.is_taken = asyncio.Event()
        self.is_given_up = False

    @property
    def id(self) -> str:
        return self.envelope.id

    def forget(self) -> None:
        """Drop the message's body; its id is still recognized."""
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
    """The messages waiting at one address. Its receiver handles `current`."""

    def __init__(self) -> None:
        self.waiting: deque[_QueuedMessage] = deque()
        self.size = 0  # in bytes, of what waits
        self.signal = _Signal()
        self.receivers = 0
        self._current: _QueuedMessage | None = None
        self._count = 0

    @property
    def is_used(self) -> bool:
        """True if messages wait, or somebody receives."""
        return bool(self.waiting or self._current or self.receivers)

    def put(self, message: _QueuedMessage) -> None:
        self._count += 1
        message.sequence = self._count
        self.waiting.append(message)
        self.size += message.size
        self.signal.set()

    async def take(self) -> _QueuedMessage:
        """Wait for the next message once the one before is done; messages that nobody took in time are dropped."""
        while True:
            await self.signal.wait(lambda: bool(self.waiting) and self._current is None)
            message = self.waiting.popleft()
            self.size -= message.size
            self.signal.set()  # there is room
            until = message.envelope.kept_until
            if message.is_given_up or (until is not None and until < time.time() and not message.deliveries):
                message.forget()
                continue
            self._current = message
            message.deliveries += 1
            message.is_taken.set()
            return message

    def done(self, message: _QueuedMessage) -> None:
        if self._current is message:
            self._current = None
            message.forget()
            self.signal.set()

    def put_back(self, message: _QueuedMessage) -> None:
        if self._current is message:
            self._current = None
            self.waiting.appendleft(message)
            self.size += message.size
            self.signal.set()

    def remove(self, message: _QueuedMessage) -> None:
        if message in self.waiting:
            self.waiting.remove(message)
            self.size -= message.size
            message.forget()
            self.signal.set()


class _LocalAnswer:
    """The answer to one message, as its frames arrive. Its writer waits while too many are unread."""

    def __init__(self) -> None:
        self.cancelled, self.signal, self._answer = asyncio.Event(), _Signal(), Answer()

    async def put(self, frame: Frame) -> None:
        await self.signal.wait(lambda: len(self._answer) < MAX_UNREAD_FRAMES or self.cancelled.is_set())
        self._answer.put(frame)
        self.signal.set()

    async def frames(self, message: _QueuedMessage, until: float) -> AsyncIterator[Frame]:
        while True:
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await self.signal.wait(lambda: len(self._answer) > 0)
            except TimeoutError:
                error = answer_timeout if message.is_taken.is_set() else no_receiver
                raise error(message.envelope) from None
            while (frame := self._answer.take()) is not None:
                self.signal.set()
                yield frame
                if frame.is_last:
                    return


class _Delivery(AnsweredDelivery):
    def __init__(self, inbox: _Inbox, message: _QueuedMessage, answer: _LocalAnswer) -> None:
        super().__init__(message.envelope, message.sequence, message.deliveries, answer.cancelled)
        self._inbox, self._sent, self._answer = inbox, message, answer

    async def ack(self) -> None:
        self._inbox.done(self._sent)

    async def put(self, frame: Frame) -> None:
        await self._answer.put(frame)
