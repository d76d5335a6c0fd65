"""The state that a server keeps for HTTP clients of a bus, so that they can resume lost connections."""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_object, json_freeze_object, json_load, wire_bytes
from sagent.plugins.mesh.bus import Bus, Delivery, Envelope, Frame, Sent, encode
from sagent.plugins.mesh.errors import Full, MeshError, NobodyThere
from sagent.plugins.mesh.tasks import end

RETURN_TIMEOUT_SECONDS = 15.0  # for a client to come back after a lost connection
MAX_KEPT_EVENTS = 1_000  # sent events kept for a client that comes back
KEPT_BYTES = 64 << 20  # of these, except the last one
MAX_REMEMBERED = 10_000  # messages and deliveries
MAX_PENDING = 1_000  # requests, and receivers, at a time


@dataclass(frozen=True, slots=True)
class Event:
    """An event for a client, as JSON; its `id`, also in the JSON, names it when the client comes back."""

    id: str
    name: str
    data: bytes


class Feed:
    """Events for one client, which follows them over one connection at a time and may come back for the rest.

    Adding waits if nobody follows and much is unsent.
    """

    def __init__(self) -> None:
        self.ended = False
        self._own = secrets.token_hex(4)  # distinguishes our ids from those of an earlier feed
        self._events: deque[Event] = deque()
        self._size = 0  # of them, in bytes
        self._first, self._sent = 1, 1  # number of the first kept event, and of the next unsent one
        self._changed = asyncio.Event()
        self._followers = 0

    async def put(self, name: str, data: Mapping[str, object]) -> None:
        while (unsent := self._first + len(self._events) - self._sent) >= (
            MAX_KEPT_EVENTS if self._size < KEPT_BYTES else 1
        ):
            await self._changed.wait()
        number = f"{self._own}.{self._sent + unsent}"
        self._events.append(event := Event(number, name, wire_bytes({**data, "id": number})))
        self._size += len(event.data)
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    async def follow(self, after: str) -> AsyncGenerator[Event]:
        """Yield the events after one of its own, or all. Raises UsageError for an event that is no longer kept. Ends if
        another connection follows."""
        own, _, number = after.partition(".")
        place = int(number) + 1 if own == self._own and number.isdecimal() and len(number) < 16 else 1
        if place < self._first:
            raise UsageError(f"Events up to {self._first - 1} are no longer kept: start over.")
        self._followers += 1
        mine = self._followers
        self._wake()
        while mine == self._followers:
            while place < self._first + len(self._events):
                event = self._events[place - self._first]
                self._sent = max(self._sent, place + 1)
                place += 1
                self._forget()
                yield event
                if mine != self._followers:
                    return
            if self.ended:
                return
            await self._changed.wait()

    def _forget(self) -> None:
        while (count := self._sent - self._first) > MAX_KEPT_EVENTS or (count > 1 and self._size > KEPT_BYTES):
            self._size -= len(self._events.popleft().data)
            self._first += 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Gate:
    """The requests, receivers and messages of a bus's HTTP clients."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._asks: dict[str, ClientTask] = {}
        self._inboxes: dict[str, ClientTask] = {}
        self._deliveries: OrderedDict[str, _TrackedDelivery] = OrderedDict()
        self._sent: OrderedDict[str, Sent] = OrderedDict()

    async def send(self, envelope: Envelope, timeout: float) -> None:
        self._sent[envelope.id] = await self.bus.send(envelope, timeout=timeout)
        while len(self._sent) > MAX_REMEMBERED:
            self._sent.popitem(last=False)

    async def taken(self, message: str, seconds: float) -> bool:
        """Return True if a message sent here is taken within some seconds. Raises NobodyThere."""
        if (sent := self._sent.get(message)) is None:
            raise UsageError(f"This server has not sent a message {message} recently.")
        task = asyncio.ensure_future(sent.taken())
        try:
            done, _ = await asyncio.wait([task], timeout=seconds)
            if done:
                task.result()
            return bool(done)
        finally:
            await end(task)

    def ask(self, envelope: Envelope, timeout: float, *, again: bool) -> "ClientTask":
        """Return a request and its answer; a known id is resumed, or begun anew with `again`."""
        if (kept := self._asks.get(envelope.id)) is None:
            kept = ClientTask(self._asks, envelope.id, lambda feed: self._ask(feed, envelope, timeout, again=again))
        return kept

    async def _ask(self, feed: Feed, envelope: Envelope, timeout: float, *, again: bool) -> None:
        if again:
            await feed.put("restart", _frame(Frame("restart", None, 0)))
        async with self.bus.asking(envelope, timeout=timeout) as frames:
            async for frame in frames:
                await feed.put(frame.kind, _frame(frame))

    async def cancel(self, request: str) -> None:
        """Cancel a request whose answer is no longer wanted."""
        if (kept := self._asks.get(request)) is not None:
            await kept.aclose()

    async def receive(self, name: str, *, again: bool) -> "ClientTask":
        """Return the messages to an address; `again` if the client resumes its connection."""
        while (kept := self._inboxes.get(name)) is not None:
            if again:
                return kept
            await kept.aclose()
        return ClientTask(self._inboxes, name, lambda feed: self._receive(feed, name))

    async def leave(self, name: str) -> None:
        if (kept := self._inboxes.get(name)) is not None:
            await kept.aclose()

    async def _receive(self, feed: Feed, name: str) -> None:
        try:
            async with asyncio.TaskGroup() as group, self.bus.receiving(name) as deliveries:
                async for delivery in deliveries:
                    token = secrets.token_urlsafe(16)
                    self._deliveries[token] = _TrackedDelivery(delivery, feed)
                    while len(self._deliveries) > MAX_REMEMBERED:
                        self._deliveries.popitem(last=False)
                    members = {"delivery": token, "sequence": delivery.sequence, "deliveries": delivery.deliveries}
                    await feed.put("message", JsonObject({**members, "message": show(delivery.envelope)}))
                    if delivery.envelope.answers_to:
                        group.create_task(_cancelled(feed, delivery, token))
        finally:
            for token in [token for token, handled in self._deliveries.items() if handled.feed is feed]:
                del self._deliveries[token]  # they are delivered again to the next receiver

    def delivery(self, token: str) -> "_TrackedDelivery":
        """Return a delivery. Raises NobodyThere if it no longer belongs to this connection."""
        if (found := self._deliveries.get(token)) is None:
            raise NobodyThere(
                "This delivery is over: it was answered, or its receiver has left and it went to another."
            )
        return found

    def over(self, token: str) -> None:
        self._deliveries.pop(token, None)

    async def aclose(self) -> None:
        for kept in [*self._asks.values(), *self._inboxes.values()]:
            await kept.aclose()


class ClientTask:
    """Work for a client, with a feed, that ends when the client is away for more than RETURN_TIMEOUT_SECONDS. Until
    then it is in `others` under its name. Raises Full."""

    def __init__(
        self, others: dict[str, "ClientTask"], name: str, work: Callable[[Feed], Coroutine[None, None, None]]
    ) -> None:
        if len(others) >= MAX_PENDING:
            raise Full(f"{MAX_PENDING:,} streams are open on this server already: close some of them.")
        self._others, self._name, self._feed, self._followers = others, name, Feed(), 0
        others[name] = self

        async def run() -> None:
            try:
                await work(self._feed)
            except* MeshError as several:
                error = several.exceptions[0]
                kind = getattr(error, "kind", MeshError.kind)
                await self._feed.put("error", {"kind": kind, "message": str(error)})
            finally:
                self._feed.end()

        self._work = asyncio.create_task(run())
        self._leave()

    async def follow(self, after: str) -> AsyncGenerator[Event]:
        """Yield the events while a client follows."""
        self._followers += 1
        self._leaving.cancel()
        try:
            async for event in self._feed.follow(after):
                yield event
        finally:
            self._followers -= 1
            if not self._followers:
                self._leave()

    def _leave(self) -> None:
        async def leave() -> None:
            await asyncio.sleep(RETURN_TIMEOUT_SECONDS)
            await self.aclose()

        self._leaving = asyncio.create_task(leave())

    async def aclose(self) -> None:
        if self._others.get(self._name) is self:  # it may have been replaced
            del self._others[self._name]
        await end(*(task for task in (self._work, self._leaving) if task is not asyncio.current_task()))


class _TrackedDelivery:
    """A delivery, and the number of its frames so far: repeated frames are not passed on again."""

    def __init__(self, delivery: Delivery, feed: Feed) -> None:
        self.delivery, self.feed, self._frames = delivery, feed, 0

    async def emit(self, body: object, number: int) -> None:
        if number == 0 or number > self._frames:
            self._frames = max(self._frames, number)
            await self.delivery.emit(body)


async def _cancelled(feed: Feed, delivery: Delivery, token: str) -> None:
    await delivery.cancelled()
    await feed.put("cancelled", JsonObject({"delivery": token}))


def show(envelope: Envelope) -> JsonObject:
    """Return a message, as clients see it."""
    return json_freeze_object(as_object(json_load(encode(envelope))))


def _frame(frame: Frame) -> JsonObject:
    return JsonObject({"number": frame.number, "attempt": frame.attempt, "body": frame.body})
