"""What the mesh needs of NATS and JetStream, in types of our own; nats-py is imported here and in no other module.

Connections reconnect for ever. While one is down nothing is queued up to be sent later, for a write that arrives late
could be of somebody who has lost a lease since: calls wait for the connection, at most `timeout` seconds, and raise
Unavailable. docs.nats.io describes the headers and errors of JetStream (its ADRs 8, 10, 20 and 43).
"""

import asyncio
import os
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.mesh import names
from sagent.mesh.errors import Fenced, Full, NobodyThere, NoRoom, Refused, TooLarge, Unavailable

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js.api import ConsumerConfig, RawStreamMsg, StreamConfig
    from nats.js.client import JetStreamContext
    from nats.js.object_store import ObjectStore

T = TypeVar("T")

PATIENCE = 10.0  # seconds a call waits for the bus by default
INBOX_LIMIT = 1_000  # messages that wait for one address; then its senders wait
PARCELS_KEPT = 7 * 86_400.0  # seconds
REPLIES_KEPT = 3_600.0  # seconds
_OLDEST = (2, 11)  # the first server with a time to live for each message
_STARTING = 0.9  # seconds in which a server may begin to listen
_ROUND = 5.0  # seconds of one request for messages; it is repeated
_BATCH = 8  # messages of one request: each may have 8 MB
_WRONG_SEQUENCE, _TOO_MANY, _NO_ROOM = (10071, 10164), 10077, 10023
_FULL_DISK = (
    "The bus has no room: its disk is full, and nothing is stored. Make room where it keeps its store (the `--dir` of "
    "`sagent bus`); it goes on by itself then."
)
_UNSYNCED = (
    "The bus is not one that `sagent bus` has started: what it acknowledges is on its disk only where its "
    "configuration says `sync_interval: always` for jetstream, or where its streams have several replicas."
)
_MARKER = ("KV-Operation", "Nats-Marker-Reason")  # headers of a key that is gone


@dataclass(frozen=True, slots=True)
class Message:
    """What was read. `sequence` is its place in the stream, 0 of what is not kept; `at` when it was stored (UTC, s)."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    sequence: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """A message whose sender waits for an answer, or not."""

    message: Message
    respond: Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that is ours to work on, for `ack_wait` seconds from each `working`; then it is delivered again."""

    message: Message
    deliveries: int
    _of: "Msg"

    async def ack(self) -> bool:
        """It is done with. False where the bus did not confirm that: it will be delivered again."""
        return await self._confirmed(lambda: self._of.ack_sync(PATIENCE / 2))

    async def working(self) -> None:
        """It is not done with: start the time anew. Says nothing where the bus cannot be reached."""
        await self._confirmed(self._of.in_progress)

    async def again(self, delay: float = 0.0) -> None:
        """Have it delivered again, after a delay in seconds."""
        await self._confirmed(lambda: self._of.nak(delay))

    async def _confirmed(self, call: Callable[[], Awaitable[object]]) -> bool:
        from nats.errors import Error

        try:
            await call()
        except (Error, TimeoutError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's value and revision; None for a key that was deleted or has expired."""

    key: str
    value: bytes | None
    revision: int


def _options(url: str) -> tuple[str, dict[str, object]]:
    """The server's address, and what a connection to it needs, from a bus's URL. Raises UsageError."""
    parts = urlsplit(url)
    known = dict(parse_qsl(parts.query))
    if parts.scheme not in ("nats", "tls", "ws", "wss") or not parts.hostname:
        raise UsageError(f"{url.partition('?')[0]} is not the URL of a bus: nats://HOST:PORT or tls://HOST:PORT.")
    if unknown := set(known) - {"key", "credentials", "ca", "cert", "cert_key"}:
        raise UsageError(f"{min(unknown)} in the URL of a bus: there are key, credentials, ca, cert and cert_key.")
    for name, path in known.items():
        if not Path(path).is_file():
            raise UsageError(f"{name}={path} in the URL of a bus: there is no such file.")
    options: dict[str, object] = {}
    if "key" in known:
        options["nkeys_seed"] = known["key"]
    if "credentials" in known:
        options["user_credentials"] = known["credentials"]
    if parts.scheme in ("tls", "wss") or known.keys() & {"ca", "cert"}:
        context = ssl.create_default_context(cafile=known.get("ca"))
        if "cert" in known:
            context.load_cert_chain(known["cert"], known.get("cert_key"))
        options["tls"] = context
    return parts._replace(query="").geturl(), options


def _user(options: Mapping[str, object]) -> str:
    from sagent.mesh.security import public_key

    path = options.get("nkeys_seed")
    try:
        return public_key(Path(path).read_text().strip()) if isinstance(path, str) else names.ANYBODY
    except ValueError as error:
        raise UsageError(f"{path} does not hold the key of a user: {error}") from None


class JetStream:
    """A connection to the bus. Open it with `connected`."""

    def __init__(self, client: "Client", user: str) -> None:
        self._client = client
        self._context: JetStreamContext = client.jetstream(timeout=PATIENCE / 2)  # pyright: ignore[reportUnknownMemberType] -- its options
        self._link, self._began, self._is_open = asyncio.Event(), time.monotonic(), False
        self._refusals: set[asyncio.Future[str]] = set()
        self.user = user
        """The user's public key, or "_" for one that is known by something else."""
        self.on_reconnect: set[Callable[[], None]] = set()
        """Called when the connection is there again; what was published in between and is not kept was missed."""
        self.problem: Exception | None = None
        """The last one of the connection."""

    async def connect(self, address: str, name: str, options: Mapping[str, object]) -> None:
        """Tries until it is cancelled. Raises what cannot get better: a refusal, or nobody who listens."""
        await self._client.connect(
            address,
            name=name,
            error_cb=self._on_error,
            disconnected_cb=self._on_lost,
            reconnected_cb=self._on_found,
            max_reconnect_attempts=-1,
            reconnect_time_wait=1,
            ping_interval=5,
            pending_size=0,
            inbox_prefix=names.private_inbox(self.user),
            **options,  # pyright: ignore[reportArgumentType] -- of its own parameters, by their names
        )
        self._is_open = True
        self._link.set()

    async def _on_lost(self) -> None:
        self._link.clear()

    async def _on_found(self) -> None:
        self._link.set()
        for call in [*self.on_reconnect]:
            call()

    async def _on_error(self, error: Exception) -> None:
        self.problem = error
        if "permissions violation" in str(error).lower():
            for refusal in self._refusals:
                if not refusal.done():
                    refusal.set_result(str(error))
        nobody = isinstance(error, ConnectionRefusedError) and time.monotonic() - self._began > _STARTING
        if not self._is_open and (nobody or isinstance(error, ssl.SSLError) or "uthorization" in str(error)):
            raise error  # it would be tried again for ever

    @property
    def is_up(self) -> bool:
        """Whether the bus can be reached now, as far as is known."""
        return self._link.is_set()

    async def up(self) -> None:
        """Return when the bus can be reached."""
        await self._link.wait()

    async def aclose(self) -> None:
        with suppress(
            Exception
        ):  # of a connection that is lost there is nothing to end, though nats-py may wait for it
            async with asyncio.timeout(1.0):
                await self._client.close()

    # What is not kept

    async def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None = None, *, timeout: float = PATIENCE
    ) -> None:
        """Send to whoever listens now. Raises Unavailable, TooLarge."""
        await self.call(lambda: self._client.publish(subject, data, headers=dict(headers or {})), timeout)

    async def request(self, subject: str, data: bytes, *, timeout: float = PATIENCE) -> bytes:
        """The answer of one who listens. Raises NobodyThere where nobody does, Unavailable without an answer."""
        from nats.errors import NoRespondersError

        try:
            answer = await self.call(lambda: self._client.request(subject, data, timeout), timeout, tries=1)
        except NoRespondersError:
            raise NobodyThere(f"Nobody answers at {subject}.") from None
        return answer.data

    @asynccontextmanager
    async def listening(self, subject: str) -> AsyncGenerator[AsyncIterator[Request]]:
        """Requests and messages on a subject, from now on."""
        subscribe = self._client.subscribe  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] -- its future
        found = await self.call(lambda: subscribe(subject), PATIENCE)
        await self.call(self._flush, PATIENCE)  # what the server refuses of it is known by then

        async def requests() -> AsyncIterator[Request]:
            async for message in found.messages:
                yield Request(_read(message), message.respond if message.reply else _no_answer)

        try:
            yield requests()
        finally:
            with suppress(Exception):  # the connection may be lost: so is the subscription then
                await found.unsubscribe()

    async def _flush(self) -> None:
        """Return when the server has read what was sent. It goes on without us where we are cancelled: nats-py ends its
        reader when the answer to a flush arrives that nobody waits for."""
        flushing = asyncio.ensure_future(self._client.flush(3_600))
        flushing.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(flushing)

    # Streams

    async def append(
        self,
        subject: str,
        data: bytes,
        *,
        id: str = "",  # noqa: A002 -- what it is called everywhere
        expected: int | None = None,
        headers: Mapping[str, str] | None = None,
        ttl: float | None = None,
        timeout: float = PATIENCE,
    ) -> int:
        """Store a message, and return its sequence when the bus has acknowledged it. Tried again until `timeout`.

        One with an `id` is stored once. `expected` is the sequence of the last message on the subject, 0 for none:
        raises Fenced where there is another by now, Full where the subject has no room, Unavailable, TooLarge.
        """
        from nats.js.errors import APIError

        all_headers = dict(headers or {})
        if id:
            all_headers["Nats-Msg-Id"] = id
        if expected is not None:
            all_headers["Nats-Expected-Last-Subject-Sequence"] = str(expected)
        seconds = None if ttl is None else max(1.0, ttl)
        try:
            stored = await self.call(
                lambda: self._context.publish(subject, data, headers=dict(all_headers), msg_ttl=seconds), timeout
            )
        except APIError as error:
            if error.err_code in _WRONG_SEQUENCE:
                return await self._own_or_fenced(subject, id)  # the answer to an earlier try may be lost
            if error.err_code == _TOO_MANY:
                raise Full(f"{subject} has no room: {INBOX_LIMIT} messages wait there.") from None
            raise _refusal(error) from error
        return stored.seq

    async def _own_or_fenced(self, subject: str, id: str) -> int:  # noqa: A002 -- as above
        """Where the last message is the one we wrote and had no answer for, all is well."""
        last = await self.last(names.stream_of(subject), subject)
        if last is not None and id and last.headers.get("Nats-Msg-Id") == id:
            return last.sequence
        raise Fenced(f"Somebody else has written to {subject}.")

    async def last(self, stream: str, subject: str) -> Message | None:
        """The last message on a subject, as the leader of the stream has it."""
        return await self._found(subject, lambda: self._context.get_last_msg(stream, subject))

    async def newest(self, stream: str, subject: str) -> Message | None:
        """The same, as some replica has it, by a request that a user may be allowed for single subjects."""
        return await self._found(subject, lambda: self._context.get_last_msg(stream, subject, direct=True))

    async def _found(self, subject: str, call: "Callable[[], Awaitable[RawStreamMsg]]") -> Message | None:
        from nats.js.errors import NotFoundError

        try:
            found = await self.call(call, PATIENCE)
        except NotFoundError:
            return None
        headers = cast("dict[str, str]", found.headers or {})  # pyright: ignore[reportUnknownMemberType] -- a bare dict
        return Message(subject, found.data or b"", headers, found.seq or 0)

    async def delivered(self, stream: str, name: str) -> int:
        """The sequence of the last message that was given to those who take under a name; 0 where nobody does."""
        from nats.js.errors import NotFoundError

        try:
            found = await self.call(lambda: self._context.consumer_info(stream, name), PATIENCE)
        except NotFoundError:
            return 0
        return found.delivered.stream_seq if found.delivered else 0

    async def read(self, stream: str, subject: str, after: int = 0) -> AsyncGenerator[Message]:
        """What is stored on a subject (wildcards allowed) after a sequence, in order, up to its present end."""
        async with self.following(stream, subject, after, idle=_ROUND) as messages:
            async for message, left in messages.until_end():
                yield message
                if not left:
                    return

    @asynccontextmanager
    async def following(
        self, stream: str, subject: str, after: int = 0, *, latest: bool = False, idle: float = 6 * _ROUND
    ) -> AsyncGenerator["Reader"]:
        """What is stored on a subject after a sequence, in order, and what comes. With `latest` only the last of each
        subject at first, and after a lost connection the last of each once more. The bus forgets a reader that has
        asked for nothing for `idle` seconds."""
        reader = Reader(self, stream, subject, after, latest=latest, idle=idle)
        try:
            yield reader
        finally:
            await reader.aclose()

    @asynccontextmanager
    async def taking(
        self, stream: str, subject: str, name: str, *, ack_wait: float, most: int = 1, idle: float = 3_600.0
    ) -> AsyncGenerator["Intake"]:
        """Messages to be worked on and acknowledged, at most so many at a time over all who take under this name. The
        bus forgets that there was such a name when nobody has taken under it for `idle` seconds."""
        intake = Intake(self, stream, subject, names.token(name), ack_wait, most, idle)
        try:
            yield intake
        finally:
            await intake.aclose()

    def bucket(self, name: str) -> "Bucket":
        return Bucket(self, name)

    def store(self, name: str) -> "Store":
        return Store(self, name)

    async def ensure(self) -> list[str]:
        """Make the streams and buckets that are missing. Returns what its user should be warned of. Raises Refused."""
        version = self._client.connected_server_version
        if (version.major, version.minor) < _OLDEST:
            raise Refused(f"The bus runs nats-server {version.major}.{version.minor}; sagent needs 2.11 or later.")
        for config in _streams():
            await self._ensure(config)
        name = self._client._server_info.get("server_name", "")  # noqa: SLF001 -- nats-py shows it nowhere else
        if str(name).startswith(names.SYNCED):
            return []
        return [_UNSYNCED]

    async def _ensure(self, config: "StreamConfig") -> None:
        from nats.js.errors import APIError, NotFoundError

        try:
            await self.call(lambda: self._context.stream_info(str(config.name)), PATIENCE)
        except NotFoundError:
            try:
                add = self._context.add_stream  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] -- its options
                await self.call(lambda: add(config), PATIENCE)
            except APIError as error:
                raise _refusal(error) from error
            except Refused:
                text = (
                    "This bus has no streams yet, and this user may not make them: connect a node first (sagent node)."
                )
                raise Refused(text) from None

    async def pull(
        self, stream: str, subject: str, durable: str | None, config: "ConsumerConfig"
    ) -> "JetStreamContext.PullSubscription":
        """A consumer, made where it is missing. Raises Unavailable, Refused."""
        from nats.js.errors import APIError

        context = self._context
        try:
            return await self.call(lambda: context.pull_subscribe(subject, durable, stream, config), PATIENCE)
        except APIError as error:
            raise _refusal(error) from error

    async def is_there(self, pull: "JetStreamContext.PullSubscription") -> bool:
        """Whether a consumer still exists, once the bus can be reached."""
        from nats.js.errors import APIError

        try:
            await self.call(pull.consumer_info, PATIENCE)
        except (APIError, Unavailable):
            return False
        return True

    def context(self) -> "JetStreamContext":
        """For the classes of this module."""
        return self._context

    async def call(self, call: Callable[[], Awaitable[T]], timeout: float, *, tries: int = 1_000) -> T:
        """Make a call once the bus can be reached, and again where it was lost in between. Errors of JetStream pass."""
        from nats import errors
        from nats.js.errors import APIError

        end = time.monotonic() + timeout
        lost = f"The bus does not answer within {timeout:g} s."
        while True:
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + max(0.0, end - time.monotonic())):
                    await self._link.wait()
                    return await self.unless_refused(call)
            except errors.MaxPayloadError:
                limit = self._client.max_payload
                raise TooLarge(f"A message is larger than the {limit:,} bytes that the bus takes.") from None
            except (errors.ConnectionClosedError, errors.AuthorizationError) as error:
                raise Unavailable(f"The connection to the bus is closed: {error}.") from error
            except (TimeoutError, errors.Error, ConnectionError) as error:
                if isinstance(error, APIError) and error.err_code == _NO_ROOM:
                    raise NoRoom(_FULL_DISK) from error
                if _is_an_answer(error):
                    raise
                tries -= 1
                if not tries or time.monotonic() >= end:
                    reason = f" It says: {error}." if isinstance(error, APIError) else ""
                    raise Unavailable(lost + reason) from error
                await asyncio.sleep(0.05)

    async def unless_refused(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call returns. Raises Refused when the server says meanwhile that something is not allowed: for that
        it sends no other answer, nor does it say to which call."""
        refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._refusals.add(refusal)
        task = asyncio.ensure_future(call())
        try:
            await asyncio.wait([task, refusal], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Refused(f"The bus does not allow this user to do that: {refusal.result()}")
            return task.result()
        finally:
            self._refusals.discard(refusal)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # or its loss would be reported, though nobody waits for it any more


def _is_an_answer(error: Exception) -> bool:
    """Whether the bus has said that, so that asking again is of no use."""
    from nats.errors import NoRespondersError
    from nats.js.errors import APIError, ServiceUnavailableError

    if isinstance(error, ServiceUnavailableError) and error.err_code != _TOO_MANY:  # while it starts
        return False
    return isinstance(error, APIError | NoRespondersError)


def _refusal(error: Exception) -> Refused:
    return Refused(f"The bus has refused: {getattr(error, 'description', '') or error}.")


async def _no_answer(_: bytes) -> None:
    """Whoever sent it does not wait."""


def _read(message: "Msg") -> Message:
    return Message(message.subject, message.data, dict(message.headers or {}))


def _stored(message: "Msg") -> Message:
    at = message.metadata
    return Message(
        message.subject, message.data, dict(message.headers or {}), at.sequence.stream, at.timestamp.timestamp()
    )


class Reader:
    """Messages of a stream in order, each once, over reconnects and restarts of the bus."""

    def __init__(self, bus: JetStream, stream: str, subject: str, after: int, *, latest: bool, idle: float) -> None:
        self._bus, self._stream, self._subject = bus, stream, subject
        self._latest, self._idle = latest, idle
        self._after = after
        self._pull: JetStreamContext.PullSubscription | None = None
        self._place = 0  # in the consumer's own count, which has no gaps

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        while True:
            for message in await self._next():
                yield _stored(message)

    async def until_end(self) -> AsyncGenerator[tuple[Message, int]]:
        """Each message, and how many follow it by now. Ends where there is none."""
        await self._opened()
        assert self._pull is not None
        pull = self._pull
        info = await self._bus.call(pull.consumer_info, PATIENCE)
        left = info.num_pending or 0
        while left:
            for message in await self._next():
                left = message.metadata.num_pending
                yield _stored(message), left

    async def _next(self) -> "list[Msg]":
        """Some messages; the consumer is made anew where it is gone, or where one of its messages is missing."""
        from nats.errors import Error

        await self._opened()
        assert self._pull is not None
        try:
            pull = self._pull
            found = await self._bus.unless_refused(lambda: pull.fetch(_BATCH, _ROUND))
        except (TimeoutError, Error):
            found = list["Msg"]()
            if not await self._bus.is_there(self._pull):
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
        )
        self._pull, self._place = await self._bus.pull(self._stream, self._subject, None, config), 0

    async def aclose(self) -> None:
        pull, self._pull = self._pull, None
        if pull is not None:
            with suppress(Exception):
                await pull.unsubscribe()


class Intake:
    """Messages to be worked on: each is ours until it is acknowledged, or for `ack_wait` seconds without a sign."""

    def __init__(
        self, bus: JetStream, stream: str, subject: str, name: str, ack_wait: float, most: int, idle: float
    ) -> None:
        self._bus, self._stream, self._subject, self._name = bus, stream, subject, name
        self._ack_wait, self._most, self._idle = ack_wait, most, max(idle, ack_wait, 2 * _ROUND)
        self._pull: JetStreamContext.PullSubscription | None = None

    async def next(self, timeout: float = _ROUND) -> Taken | None:
        """The next message; None where none has come in time. Raises Unavailable, Refused."""
        from nats.errors import Error
        from nats.js.api import ConsumerConfig

        if self._pull is None:
            config = ConsumerConfig(ack_wait=self._ack_wait, max_ack_pending=self._most, inactive_threshold=self._idle)
            self._pull = await self._bus.pull(self._stream, self._subject, self._name, config)
        try:
            pull = self._pull
            found = await self._bus.unless_refused(lambda: pull.fetch(1, timeout))
        except (TimeoutError, Error):
            if not self._bus.is_up or not await self._bus.is_there(self._pull):
                await self.aclose()
                await self._bus.up()
            return None
        return Taken(_stored(found[0]), found[0].metadata.num_delivered, found[0])

    async def aclose(self) -> None:
        pull, self._pull = self._pull, None
        if pull is not None:
            with suppress(Exception):
                await pull.unsubscribe()


class Bucket:
    """A key-value bucket, laid out as NATS lays them out (ADR-8). Keys are made of `names.token` and dots."""

    def __init__(self, bus: JetStream, name: str) -> None:
        self._bus, self._stream, self._prefix = bus, f"KV_{name}", f"$KV.{name}."

    async def get(self, key: str) -> Entry | None:
        """A key's value; None where there is none, or where it was deleted or has expired."""
        entry = await self._last(key)
        return None if entry is None or entry.value is None else entry

    async def create(self, key: str, value: bytes, *, ttl: float | None = None, timeout: float = PATIENCE) -> int:
        """Set a key that is not there, and return its revision. Raises Fenced where it is there, Unavailable."""
        try:
            return await self._write(key, value, 0, ttl=ttl, timeout=timeout)
        except Fenced:
            gone = await self._last(key)
            if gone is None or gone.value is not None:
                raise
            return await self._write(key, value, gone.revision, ttl=ttl, timeout=timeout)

    async def update(self, key: str, value: bytes, revision: int, *, timeout: float = PATIENCE) -> int:
        """Set a key that has this revision, and return its new one. Raises Fenced where it has another, Unavailable."""
        return await self._write(key, value, revision, timeout=timeout)

    async def put(self, key: str, value: bytes, *, ttl: float | None = None, timeout: float = PATIENCE) -> int:
        """Set a key whatever it was, and return its revision. Raises Unavailable."""
        return await self._write(key, value, None, ttl=ttl, timeout=timeout)

    async def delete(self, key: str, revision: int | None = None, *, timeout: float = PATIENCE) -> None:
        """Remove a key. Raises Fenced where it has another revision, Unavailable."""
        await self._write(key, b"", revision, {"KV-Operation": "DEL"}, timeout=timeout)

    async def _write(
        self,
        key: str,
        value: bytes,
        expected: int | None,
        headers: Mapping[str, str] | None = None,
        *,
        ttl: float | None = None,
        timeout: float = PATIENCE,
    ) -> int:
        mark = os.urandom(12).hex()  # by which a write is known whose answer was lost
        return await self._bus.append(
            self._prefix + key, value, id=mark, expected=expected, headers=headers, ttl=ttl, timeout=timeout
        )

    async def _last(self, key: str) -> Entry | None:
        found = await self._bus.last(self._stream, self._prefix + key)
        return None if found is None else _entry(found, self._prefix)

    async def entries(self, pattern: str = ">") -> list[Entry]:
        """The keys that match now, with their values."""
        found: dict[str, Entry] = {}
        async with self.watching(pattern) as changes:
            async for entry in changes:
                if entry is None:
                    break
                found[entry.key] = entry
        return [entry for entry in found.values() if entry.value is not None]

    @asynccontextmanager
    async def watching(self, pattern: str = ">") -> AsyncGenerator[AsyncGenerator[Entry | None]]:
        """The keys that match, then None, then every change as it comes: over reconnects, so a key may come twice."""
        async with self._bus.following(self._stream, self._prefix + pattern, latest=True) as messages:
            yield self._changes(messages)

    async def _changes(self, messages: "Reader") -> AsyncGenerator[Entry | None]:
        async for message, _ in messages.until_end():
            yield _entry(message, self._prefix)
        yield None
        async for message in messages:
            yield _entry(message, self._prefix)


def _entry(message: Message, prefix: str) -> Entry:
    gone = any(name in message.headers for name in _MARKER)
    return Entry(message.subject.removeprefix(prefix), None if gone else message.data, message.sequence)


class Store:
    """An object store: large values by name, in chunks, checked by their SHA-256."""

    def __init__(self, bus: JetStream, name: str) -> None:
        self._bus, self._name = bus, name
        self._found: ObjectStore | None = None

    async def has(self, name: str) -> bool:
        from nats.js.errors import NotFoundError

        found = await self._there()
        try:
            await self._bus.call(lambda: found.get_info(name), PATIENCE)
        except NotFoundError:
            return False
        return True

    async def put(self, name: str, data: bytes, *, timeout: float = 6 * PATIENCE) -> None:
        """Store a value under a name, in place of another."""
        found = await self._there()
        await self._bus.call(lambda: found.put(name, data), timeout)

    async def get(self, name: str) -> bytes | None:
        """A value; None where there is none. Raises Unavailable, also where it is damaged."""
        from nats.js.errors import NotFoundError

        found = await self._there()
        for _ in range(2):  # it may be put anew while it is read
            try:
                info = await self._bus.call(lambda: found.get_info(name), PATIENCE)
            except NotFoundError:
                return None
            chunks = self._bus.read(f"OBJ_{self._name}", f"$O.{self._name}.C.{info.nuid}")
            data = b"".join([chunk.data async for chunk in chunks]) if info.size else b""
            if info.digest == f"SHA-256={urlsafe_b64encode(sha256(data).digest()).decode()}":
                return data
        raise Unavailable(f"What the bus keeps as {name} in {self._name} is damaged.")

    async def delete(self, name: str) -> None:
        from nats.js.errors import NotFoundError

        found = await self._there()
        with suppress(NotFoundError):
            await self._bus.call(lambda: found.delete(name), PATIENCE)

    async def _there(self) -> "ObjectStore":
        if self._found is None:
            self._found = await self._bus.call(lambda: self._bus.context().object_store(self._name), PATIENCE)
        return self._found


def _streams() -> "list[StreamConfig]":
    """The streams, and the buckets as the streams they are (ADR-8 and ADR-20 say how those are laid out)."""
    from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

    inbox = StreamConfig(
        name=names.INBOX,
        subjects=["sagent.inbox.>"],
        retention=RetentionPolicy.WORK_QUEUE,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=True,
        max_msgs_per_subject=INBOX_LIMIT,
        allow_msg_ttl=True,
    )
    return [
        StreamConfig(name=names.LOG, subjects=["sagent.log.>"], allow_direct=True, deny_delete=True),
        inbox,
        StreamConfig(name=names.WORK, subjects=["sagent.work.>"], retention=RetentionPolicy.WORK_QUEUE),
        StreamConfig(name=names.REPLIES, subjects=["sagent.replies.>"], max_age=REPLIES_KEPT, allow_direct=True),
        _bucket(names.LEASES, names.LEASE_TTL),
        _bucket(names.CARDS, names.CARD_TTL),
        _bucket(names.SESSIONS),
        _once(names.FATES, PARCELS_KEPT),
        _objects(names.BLOBS),
        _objects(names.PARCELS, PARCELS_KEPT),
    ]


def _bucket(name: str, ttl: float | None = None) -> "StreamConfig":
    """Where keys expire, the server leaves a marker, so that who watches sees it."""
    from nats.js.api import DiscardPolicy, StreamConfig

    return StreamConfig(
        name=f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        max_msgs_per_subject=1,
        max_age=ttl,
        duplicate_window=min(ttl or 120.0, 120.0),
        discard=DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
        allow_msg_ttl=True,
        subject_delete_marker_ttl=None if ttl is None else max(1.0, 2 * min(ttl, 30.0)),
        deny_delete=True,
    )


def _once(name: str, ttl: float) -> "StreamConfig":
    """A bucket of which nobody may change a key that is there."""
    from nats.js.api import DiscardPolicy, StreamConfig

    return StreamConfig(
        name=f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        max_msgs_per_subject=1,
        max_age=ttl,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=True,
        allow_direct=True,
        deny_delete=True,
    )


def _objects(name: str, ttl: float | None = None) -> "StreamConfig":
    from nats.js.api import DiscardPolicy, StreamConfig

    return StreamConfig(
        name=f"OBJ_{name}",
        subjects=[f"$O.{name}.C.>", f"$O.{name}.M.>"],
        max_age=ttl,
        discard=DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
    )


@asynccontextmanager
async def connected(url: str, *, name: str = "sagent", timeout: float = PATIENCE) -> AsyncGenerator[JetStream]:
    """Connect to a bus, and disconnect with the block. Raises UsageError, Refused, and Unavailable after `timeout`."""
    try:
        from nats.aio.client import Client
        from nats.errors import Error
    except ImportError:
        from sagent.lib.installed import install_command

        raise UsageError(f"A bus needs packages that are not installed: {install_command('mesh')}") from None
    address, options = _options(url)
    bus = JetStream(Client(), _user(options))
    where = address.rpartition("@")[2]
    try:
        async with asyncio.timeout(timeout):
            await bus.connect(address, name, options)
    except (TimeoutError, ConnectionRefusedError) as error:
        await bus.aclose()
        said = bus.problem or error
        raise Unavailable(f"There is no bus at {where}: {str(said) or 'no answer'}. To start one: sagent bus") from None
    except (Error, ssl.SSLError) as error:
        await bus.aclose()
        raise Refused(f"The bus at {where} does not admit this user: {error}") from None
    try:
        yield bus
    finally:
        await bus.aclose()
