"""A connection to NATS: sending, storing, and its errors as our own types.

Connections reconnect for ever. While one is down nothing is queued, because a late write might come after its writer
has lost a lease: calls wait for the connection, at most `timeout` seconds, and raise Unavailable. docs.nats.io
describes the headers and errors of JetStream (its ADRs 8, 10, 20 and 43).
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.regular import read_given
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import Fenced, Full, Missing, NobodyThere, NoRoom, Refused, TooLarge, Unavailable
from sagent.plugins.mesh.tasks import drop_error

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js.api import ConsumerConfig
    from nats.js.client import JetStreamContext

T = TypeVar("T")

CALL_TIMEOUT_SECONDS = 10.0  # default time a call waits for the bus
MAX_INBOX_MESSAGES = 1_000  # messages waiting at one address; then senders wait
_TRY_SECONDS = CALL_TIMEOUT_SECONDS / 2  # seconds until a call is repeated, because its connection may have been lost
_NEVER_SECONDS = 3_600.0  # seconds that nats-py may wait by itself: `call` ends the wait
_READING_STEPS = 20  # steps of the event loop within which an answer that has arrived is read
_SERVER_START_SECONDS = 0.9  # seconds for a server to begin to listen
_WRONG_SEQUENCE, _TOO_MANY, _NO_ROOM = (10071, 10164), 10077, 10023
_NO_PEERS, _NO_STREAM = 10005, 10059
_FULL_DISK = (
    "The bus's disk is full, and nothing is stored. Free some space in its directory (the `--dir` of `sagent bus`); "
    "it then continues by itself."
)


@dataclass(frozen=True, slots=True)
class Message:
    """A received message. `sequence` is its place in the stream, 0 if it is not kept; `at` is when it was stored (UTC,
    seconds)."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    sequence: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """A message and the function that answers it, which does nothing if the sender does not wait."""

    message: Message
    respond: Callable[[bytes], Awaitable[None]]


def parse_bus_url(url: str) -> tuple[list[str], dict[str, object]]:
    """Parse a bus's URL into server addresses and connection options. Raises UsageError."""
    parts = urlsplit(url)
    known = dict(parse_qsl(parts.query))
    addresses = [parts._replace(netloc=netloc, query="") for netloc in parts.netloc.split(",")]
    if parts.scheme not in ("nats", "tls", "ws", "wss") or not all(_is_address(address) for address in addresses):
        raise UsageError(f"{url.partition('?')[0]} is not the URL of a bus: give nats://HOST:PORT or tls://HOST:PORT.")
    if unknown := set(known) - {"key", "credentials", "ca", "cert", "cert_key"}:
        raise UsageError(
            f"{min(unknown)} is not an option in the URL of a bus: the options are key, credentials, "
            "ca, cert and cert_key."
        )
    for name, path in known.items():
        if not Path(path).is_file():
            raise UsageError(f"{name}={path} in the URL of a bus: no such file.")
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
    return [address.geturl() for address in addresses], options


def _is_address(address: SplitResult) -> bool:
    try:
        return bool(address.hostname) and (address.port is None or address.port > 0)
    except ValueError:
        return False


def public_key_of(options: Mapping[str, object]) -> str:
    from sagent.plugins.mesh.security import public_key

    path = options.get("nkeys_seed")
    try:
        return public_key(read_given(path).decode().strip()) if isinstance(path, str) else names.ANYBODY
    except ValueError as error:
        raise UsageError(f"{path} is not the key of a user: {error}") from None


class Connection:
    """A connection to the bus."""

    def __init__(self, client: "Client", user: str) -> None:
        self._client = client
        self.context: JetStreamContext = client.jetstream(timeout=_NEVER_SECONDS)  # pyright: ignore[reportUnknownMemberType] -- its options
        self._link_up, self._began, self._is_open = asyncio.Event(), time.monotonic(), False
        self._refusals: set[asyncio.Future[str]] = set()
        self.user = user
        """The user's public key, or "_" for a user without one."""
        self.on_reconnect: set[Callable[[], None]] = set()
        """Called when the connection is back; unstored messages published meanwhile were missed."""
        self.problem: Exception | None = None
        """The connection's last problem."""

    async def connect(self, addresses: list[str], name: str, options: Mapping[str, object]) -> None:
        """Connect, trying until cancelled. Raises errors that no retry can fix: a refusal, or no listener."""
        await self._client.connect(
            addresses,
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
        self._link_up.set()

    async def _on_lost(self) -> None:
        self._link_up.clear()

    async def _on_found(self) -> None:
        self._link_up.set()
        for call in [*self.on_reconnect]:
            call()

    async def _on_error(self, error: Exception) -> None:
        self.problem = error
        if "permissions violation" in str(error).lower():
            for refusal in self._refusals:
                if not refusal.done():
                    refusal.set_result(str(error))
        nobody = isinstance(error, ConnectionRefusedError) and time.monotonic() - self._began > _SERVER_START_SECONDS
        if not self._is_open and (nobody or isinstance(error, ssl.SSLError | Refused) or "uthorization" in str(error)):
            raise error  # otherwise it would retry for ever

    @property
    def is_up(self) -> bool:
        """True if the bus is reachable, as far as known."""
        return self._link_up.is_set()

    async def wait_until_up(self) -> None:
        """Wait until the bus can be reached."""
        await self._link_up.wait()

    async def aclose(self) -> None:
        """Close the connection. Closing a lost one may hang or be cancelled in nats-py: that is ignored."""
        closing = asyncio.ensure_future(self._client.close())
        if not (await asyncio.wait([closing], timeout=1.0))[0]:
            closing.cancel()
            await asyncio.wait([closing])
        drop_error(closing)
        _abort(self._client)

    # Messages that are not stored

    async def publish(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = CALL_TIMEOUT_SECONDS,
    ) -> None:
        """Send to whoever listens now. Raises Unavailable, TooLarge."""
        await self.call(lambda: self._client.publish(subject, data, headers=dict(headers or {})), timeout)

    async def request(self, subject: str, data: bytes, *, timeout: float = CALL_TIMEOUT_SECONDS) -> bytes:
        """Send a request and return the answer of a listener. Raises NobodyThere if there is none, Unavailable without
        an answer."""
        from nats.errors import NoRespondersError

        try:
            answer = await self.call(lambda: self._client.request(subject, data, timeout), timeout, tries=1)
        except NoRespondersError:
            raise NobodyThere(f"Nobody answers at {subject}.") from None
        return answer.data

    @asynccontextmanager
    async def listening(self, subject: str) -> AsyncGenerator[AsyncIterator[Request]]:
        """Subscribe to a subject, for its requests and messages from now on; to none if it is empty."""
        if not subject:
            yield _nothing()
            return
        subscribe = self._client.subscribe  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] -- its future
        found = await self.call(lambda: subscribe(subject), CALL_TIMEOUT_SECONDS)
        await self.call(self._flush, CALL_TIMEOUT_SECONDS)  # by then the server has reported refusals

        async def requests() -> AsyncIterator[Request]:
            async for message in found.messages:
                yield Request(_read(message), message.respond if message.reply else _ignore_answer)

        try:
            yield requests()
        finally:
            with suppress(Exception):  # the connection may be lost: so is the subscription then
                await found.unsubscribe()

    async def _flush(self) -> None:
        """Return when the server has read everything sent. Survives cancellation, because nats-py's reader ends when
        the answer to a flush finds nobody waiting."""
        flushing = asyncio.ensure_future(self._client.flush(3_600))
        flushing.add_done_callback(drop_error)
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
        timeout: float = CALL_TIMEOUT_SECONDS,
    ) -> int:
        """Store a message and return its sequence once the bus has acknowledged it. Retries until `timeout`.

        A message with an `id` is stored once. `expected` is the sequence of the subject's last message, 0 for none:
        raises Fenced if there is another by now, Full if the subject has no room, Unavailable, TooLarge.
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
                lambda: self.context.publish(subject, data, headers=dict(all_headers), msg_ttl=seconds), timeout
            )
        except APIError as error:
            if error.err_code in _WRONG_SEQUENCE:
                return await self._own_or_fenced(subject, id)  # the answer to an earlier try may be lost
            if error.err_code == _TOO_MANY:
                raise Full(f"{subject} has no room: {MAX_INBOX_MESSAGES} messages wait there.") from None
            raise refusal(error) from error
        return stored.seq

    async def _own_or_fenced(self, subject: str, id: str) -> int:  # noqa: A002 -- as above
        """Return the sequence of the last message if it is our own unanswered write. Raises Fenced otherwise."""
        last = await self.last_message(names.stream_of(subject), subject)
        if last is not None and id and last.headers.get("Nats-Msg-Id") == id:
            return last.sequence
        raise Fenced(f"Somebody else has written to {subject}.")

    async def last_message(self, stream: str, subject: str, *, direct: bool = False) -> Message | None:
        """Return the last message on a subject, or None. The stream's leader is asked; with `direct` any replica, by a
        request that a user may be allowed for single subjects."""
        from nats.js.errors import NotFoundError

        try:
            found = await self.call(
                lambda: self.context.get_last_msg(stream, subject, direct=direct), CALL_TIMEOUT_SECONDS
            )
        except NotFoundError:
            return None
        headers = cast("dict[str, str]", found.headers or {})  # pyright: ignore[reportUnknownMemberType] -- a bare dict
        at = found.time.timestamp() if found.time else 0.0
        return Message(subject, found.data or b"", headers, found.seq or 0, at)

    async def count(self, stream: str) -> int:
        """Return how many messages a stream has. Raises Unavailable and Refused."""
        from nats.js.errors import APIError

        try:
            return (await self.call(lambda: self.context.stream_info(stream), CALL_TIMEOUT_SECONDS)).state.messages
        except APIError as error:
            raise refusal(error) from error

    async def last_delivered(self, stream: str, name: str) -> int:
        """Return the sequence of the last message delivered to consumers of a name; 0 if there are none."""
        from nats.js.errors import NotFoundError

        try:
            found = await self.call(lambda: self.context.consumer_info(stream, name), CALL_TIMEOUT_SECONDS)
        except NotFoundError:
            return 0
        return found.delivered.stream_seq if found.delivered else 0

    async def consumer(
        self, stream: str, subject: str, durable: str | None, config: "ConsumerConfig"
    ) -> "JetStreamContext.PullSubscription":
        """Return a consumer, created if missing. Raises Unavailable, Refused."""
        from nats.js.errors import APIError

        try:
            return await self.call(
                lambda: self.context.pull_subscribe(subject, durable, stream, config), CALL_TIMEOUT_SECONDS
            )
        except APIError as error:
            raise refusal(error) from error

    async def consumer_exists(self, pull: "JetStreamContext.PullSubscription") -> bool:
        """Return True if a consumer still exists, once the bus can be reached."""
        from nats.js.errors import APIError

        try:
            await self.call(pull.consumer_info, CALL_TIMEOUT_SECONDS)
        except (APIError, Unavailable):
            return False
        return True

    async def call(self, call: Callable[[], Awaitable[T]], timeout: float, *, tries: int = 1_000) -> T:
        """Make a call once the bus is reachable, and again if the connection was lost meanwhile. Raises JetStream's
        errors."""
        from nats import errors
        from nats.js.errors import APIError

        end, once = time.monotonic() + timeout, tries == 1
        no_answer = f"The bus does not answer within {timeout:g} s."
        while True:
            try:
                async with asyncio.timeout(max(0.0, end - time.monotonic())):
                    await self._link_up.wait()
                left = max(0.0, end - time.monotonic())
                return await self.unless_refused(call, left if once else min(left, max(_TRY_SECONDS, timeout / 2)))
            except errors.MaxPayloadError:
                limit = self._client.max_payload
                raise TooLarge(f"A message is larger than the {limit:,} bytes that the bus takes.") from None
            except (errors.ConnectionClosedError, errors.AuthorizationError) as error:
                raise Unavailable(f"The connection to the bus is closed: {error}.") from error
            except (TimeoutError, errors.Error, ConnectionError) as error:
                if isinstance(error, APIError) and error.err_code == _NO_ROOM:
                    raise NoRoom(_FULL_DISK) from error
                if _is_answer(error):
                    raise
                tries -= 1
                if not tries or time.monotonic() >= end:
                    reason = f" It says: {error}." if isinstance(error, APIError) else ""
                    raise Unavailable(no_answer + reason) from error
                await asyncio.sleep(0.05)

    async def unless_refused(self, call: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        """Return the result of a call. Raises Refused if the server reports missing permissions meanwhile, because that
        report is its only answer, and does not name the call; TimeoutError without an answer."""
        refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._refusals.add(refusal)
        task = asyncio.ensure_future(call())
        task.add_done_callback(drop_error)  # also where this is cancelled twice, as at the end of a node
        try:
            found, _ = await asyncio.wait([task, refusal], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not found:
                await _read_arrived(task)
            if not task.done():
                if not refusal.done():
                    raise TimeoutError
                raise Refused(f"The bus does not allow this user to do that: {refusal.result()}")
            return task.result()
        finally:
            self._refusals.discard(refusal)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])


async def _read_arrived(task: "asyncio.Task[T]") -> None:
    """Let a task read the answer that has arrived by now: in a process that did not run for a while, the time is over
    before anything that came meanwhile is looked at."""
    for _ in range(_READING_STEPS):
        if task.done():
            return
        await asyncio.sleep(0)


def _is_answer(error: Exception) -> bool:
    """Return True if an error is the bus's answer to a call, so that a retry is useless."""
    from nats.errors import NoRespondersError
    from nats.js.errors import APIError, ServiceUnavailableError

    if isinstance(error, ServiceUnavailableError) and error.err_code != _TOO_MANY:  # while it starts
        return False
    if isinstance(error, APIError) and error.err_code == _NO_PEERS:  # while the servers of a cluster find each other
        return False
    return isinstance(error, APIError | NoRespondersError)


def refusal(error: Exception) -> Refused:
    if getattr(error, "err_code", None) == _NO_STREAM:
        return Missing("The bus does not have its streams any more: its data was lost. A node makes new ones.")
    return Refused(f"The bus refused this: {getattr(error, 'description', '') or error}.")


def new_client() -> "Client":
    from nats.aio.client import Client

    class PatchedClient(Client):
        """A client without three faults of nats-py. It reconnects only after closing the old connection, which waits
        for unsent data or a TLS close, and neither ends if the server is unreachable. It opens a second connection to a
        silent server, and leaves the first one open. And it continues without TLS if the first line, which anybody on
        the way may have written, says so."""

        async def _attempt_reconnect(self) -> None:
            _abort(self)
            await super()._attempt_reconnect()

        async def _select_next_server(self) -> None:
            _abort(self)
            await super()._select_next_server()

        async def _process_info(
            self,
            info: dict[str, object],
            initial_connection: bool = False,  # noqa: FBT001, FBT002 -- as nats-py has it
        ) -> None:
            tls_wanted = self.options.get("tls") and self._current_server and self._current_server.uri.scheme != "wss"
            if initial_connection and tls_wanted and not info.get("tls_required"):
                raise Refused("The bus does not use TLS, which its URL asks for: nothing was sent.")
            await super()._process_info(info, initial_connection)

        def _connect_command(self) -> bytes:
            transport = _transport(self)
            if transport is not None and transport.get_extra_info("sslcontext"):
                protocol = transport.get_protocol()
                if isinstance(protocol, asyncio.StreamReaderProtocol):
                    vars(protocol)["_over_ssl"] = True  # it does not know of the change, and would warn of each end
            return super()._connect_command()

    return PatchedClient()


def _abort(client: "Client") -> None:
    """Close a connection at once, without a TLS close."""
    if transport := _transport(client):
        with suppress(AttributeError):  # of Python 3.11.2 over TLS, once it is lost
            transport.abort()


def _transport(client: "Client") -> asyncio.WriteTransport | None:
    writer = getattr(client._transport, "_io_writer", None)  # noqa: SLF001 -- it has no other name
    return writer.transport if isinstance(writer, asyncio.StreamWriter) else None


async def _nothing() -> AsyncIterator[Request]:
    """Yield no requests."""
    for request in list[Request]():
        yield request


async def _ignore_answer(_: bytes) -> None:
    """Drop an answer whose receiver does not wait for it."""


def _read(message: "Msg") -> Message:
    return Message(message.subject, message.data, dict(message.headers or {}))
