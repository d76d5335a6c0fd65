"""Streams of a bus: messages read in order, and messages to be worked on."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass
from sagent.plugins.mesh import names
from sagent.plugins.mesh.connection import CALL_TIMEOUT_SECONDS, Connection, Message
from sagent.plugins.mesh.errors import Unavailable

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.js.client import JetStreamContext

_FETCH_TIMEOUT_SECONDS = 5.0  # seconds of one request for messages, which is repeated
_BATCH = 8  # messages in one request: each may have 8 MB


@dataclass(frozen=True, slots=True)
class LeasedMessage:
    """A message that is ours to work on, for `ack_wait` seconds from each `working`; then it is delivered again."""

    message: Message
    deliveries: int
    _of: "Msg"

    async def ack(self) -> bool:
        """Acknowledge the message. Return False if the bus did not confirm that: it will be delivered again."""
        return await self._confirmed(lambda: self._of.ack_sync(CALL_TIMEOUT_SECONDS / 2))

    async def working(self) -> None:
        """Restart the time after which the message is delivered again. Does nothing if the bus cannot be reached."""
        await self._confirmed(self._of.in_progress)

    async def again(self, delay: float = 0.0) -> None:
        """Deliver it again after a delay in seconds."""
        await self._confirmed(lambda: self._of.nak(delay))

    async def _confirmed(self, call: Callable[[], Awaitable[object]]) -> bool:
        from nats.errors import Error

        try:
            await call()
        except (Error, TimeoutError):
            return False
        return True


def _stored(message: "Msg") -> Message:
    at = message.metadata
    return Message(
        message.subject, message.data, dict(message.headers or {}), at.sequence.stream, at.timestamp.timestamp()
    )


class _Consumer:
    """The bus's state of a reader of a stream."""

    _pull: "JetStreamContext.PullSubscription | None" = None

    async def aclose(self) -> None:
        pull, self._pull = self._pull, None
        if pull is not None:
            with suppress(Exception):
                await pull.unsubscribe()


class Reader(_Consumer):
    """Messages of a stream in order, each once, over reconnects and restarts of the bus."""

    def __init__(
        self, bus: Connection, stream: str, subjects: Sequence[str], after: int, *, latest: bool, idle: float
    ) -> None:
        self._bus, self._stream, self._subjects = bus, stream, subjects
        self._latest, self._idle = latest, idle
        self._after = after
        self._place = 0  # in the consumer's own count, which has no gaps

    async def __aiter__(self) -> AsyncGenerator[Message]:
        while True:
            for message in await self._next():
                yield _stored(message)

    async def until_end(self) -> AsyncGenerator[tuple[Message, int]]:
        """Yield each message, with the number of those after it. Ends after the last."""
        left = await self._left()
        while left:
            found = await self._next()
            for message in found:
                left = message.metadata.num_pending
                yield _stored(message), left
            if not found:  # the remaining ones may have expired
                left = await self._left()

    async def _left(self) -> int:
        from nats.js.errors import NotFoundError

        while True:
            await self._opened()
            assert self._pull is not None
            try:
                return (await self._bus.call(self._pull.consumer_info, CALL_TIMEOUT_SECONDS)).num_pending or 0
            except NotFoundError:  # forgotten, because this process did not run for so long
                await self.aclose()

    async def _next(self) -> "list[Msg]":
        """Return the next messages; replace the consumer if it or one of its messages is missing."""
        from nats.errors import Error

        await self._opened()
        assert self._pull is not None
        try:
            pull = self._pull
            found = await self._bus.unless_refused(lambda: pull.fetch(_BATCH, _FETCH_TIMEOUT_SECONDS))
        except (TimeoutError, Error):
            found = list["Msg"]()
            if not await self._bus.consumer_exists(self._pull):
                await self.aclose()
        taken = list["Msg"]()
        for message in found:
            at = message.metadata.sequence
            if at.consumer != self._place + 1:
                await self.aclose()
                break
            self._place, self._after = at.consumer, int(at.stream)
            taken.append(message)
        return taken

    async def _opened(self) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        if self._pull is not None:
            return
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT if self._latest else DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=None if self._latest else self._after + 1,
            inactive_threshold=self._idle,
            mem_storage=True,
            filter_subjects=[*self._subjects] if len(self._subjects) > 1 else None,
        )
        self._pull, self._place = await self._bus.consumer(self._stream, self._subjects[0], None, config), 0


class Intake(_Consumer):
    """Messages to be worked on: each is ours until it is acknowledged, or for `ack_wait` seconds without a sign."""

    def __init__(
        self, bus: Connection, stream: str, subject: str, name: str, ack_wait: float, limit: int, idle: float
    ) -> None:
        self._bus, self._stream, self._subject, self._name = bus, stream, subject, name
        self._ack_wait, self._limit, self._idle = ack_wait, limit, max(idle, ack_wait, 2 * _FETCH_TIMEOUT_SECONDS)

    async def next(self, timeout: float = _FETCH_TIMEOUT_SECONDS) -> LeasedMessage | None:
        """Return the next message; None if none arrived in time, or the bus was away. Raises Refused."""
        from nats.errors import Error
        from nats.js.api import ConsumerConfig

        if self._pull is None:
            config = ConsumerConfig(ack_wait=self._ack_wait, max_ack_pending=self._limit, inactive_threshold=self._idle)
            try:
                self._pull = await self._bus.consumer(self._stream, self._subject, self._name, config)
            except Unavailable:
                await self._bus.wait_until_up()
                return None
        try:
            pull = self._pull
            found = await self._bus.unless_refused(lambda: pull.fetch(1, timeout))
        except (TimeoutError, Error):
            if not self._bus.is_up or not await self._bus.consumer_exists(self._pull):
                await self.aclose()
                await self._bus.wait_until_up()
            return None
        return LeasedMessage(_stored(found[0]), found[0].metadata.num_delivered, found[0])


class Streams(Connection):
    """A connection for reading streams."""

    async def read(self, stream: str, subject: str, after: int = 0) -> AsyncGenerator[Message]:
        """Yield the messages on a subject (wildcards allowed) after a sequence, in order, up to the present end."""
        async with self.following(stream, subject, after=after, idle=_FETCH_TIMEOUT_SECONDS) as messages:
            async for message, left in messages.until_end():
                yield message
                if not left:
                    return

    def following(
        self,
        stream: str,
        *subjects: str,
        after: int = 0,
        latest: bool = False,
        idle: float = 6 * _FETCH_TIMEOUT_SECONDS,
    ) -> AbstractAsyncContextManager[Reader]:
        """Follow the messages on subjects after a sequence, in order. No two subjects may overlap. `latest` starts with
        only the last message of each subject, and repeats these after a lost connection. The bus forgets a reader
        without requests for `idle` seconds."""
        return aclosing(Reader(self, stream, subjects, after, latest=latest, idle=idle))

    def taking(
        self, stream: str, subject: str, name: str, *, ack_wait: float, limit: int = 1, idle: float = 3_600.0
    ) -> AbstractAsyncContextManager[Intake]:
        """Messages to be worked on and acknowledged, at most so many at a time over all who take under this name. The
        bus forgets that there was such a name when nobody has taken under it for `idle` seconds."""
        return aclosing(Intake(self, stream, subject, names.token(name), ack_wait, limit, idle))
