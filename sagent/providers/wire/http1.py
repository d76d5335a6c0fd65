"""An HTTP/1.1 client connection: h11 parses the bytes, asyncio transports them."""

import asyncio
from asyncio.trsock import TransportSocket
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import h11

from sagent.providers.wire.faults import ExchangeFailed

if TYPE_CHECKING:
    import ssl

_MAX_HEAD_BYTES = 256 * 1024  # bytes of status line and headers, at most
_HIGH_WATER_BYTES = 1024 * 1024  # bytes received and not yet read, above which reading from the socket pauses
_STEADY = 40  # consecutive small pieces, after which those of a short while are read together
_SMALL_BYTES = 2_048  # bytes
_GATHERED_BYTES = 65_536  # bytes: less than this, read after a wait, is small pieces still
_GATHER_SECONDS = 0.1  # seconds: to be woken for each piece costs more than to read it, and few read 10 times a second
_ROUNDS = 4  # of the loop, from bytes at a socket to connection_lost
_CLOSED = "the server closed the connection"


class Connection(asyncio.Protocol):
    """One connection. Received data wait in a buffer; the reader is woken by more data or by the end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchange = _begin()
        self._transport: asyncio.Transport | None = None
        self._wire: asyncio.Transport | None = None  # the same, below TLS
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._ended: str | None = None  # why no more data will come
        self._paused = False  # the buffer is full
        self._small = 0  # small pieces that came in a row
        self._rest: asyncio.TimerHandle | None = None  # until the next reading
        self._rested = False  # the next data came after a pause
        self.kept_until = 0.0  # loop time; 0 while a request is under way

    @property
    def _alive(self) -> bool:
        """True if the connection can carry another request: open, and silent since the last answer."""
        return self._ended is None and not self._buffer and self._transport is not None

    async def is_usable(self) -> bool:
        """Return True if a kept connection can carry another request. Yields to the event loop a few times, until the
        socket has reported what the server did meanwhile."""
        in_time, self.kept_until = self._loop.time() < self.kept_until, 0.0
        self._go_on()
        for _ in range(_ROUNDS if in_time else 0):
            await asyncio.sleep(0)
        return in_time and self._alive

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the open connection from asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = self._wire = transport

    def data_received(self, data: bytes) -> None:
        """Take bytes from asyncio."""
        self._buffer += data
        if self._transport is not None and not self._paused and len(self._buffer) > _HIGH_WATER_BYTES:
            self._paused = True
            self._transport.pause_reading()
        self._small = self._small + 1 if len(data) < (_GATHERED_BYTES if self._rested else _SMALL_BYTES) else 0
        self._rested = False
        if self._small > _STEADY and self._rest is None and self._wire is not None:
            self._wire.pause_reading()
            self._rest = self._loop.call_later(_GATHER_SECONDS, self._go_on)
        self._wake()

    def _go_on(self) -> None:
        """Read data received meanwhile."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
            self._rested = True
        if self._wire is not None and not self._paused:
            self._wire.resume_reading()

    def eof_received(self) -> None:
        """Record that the other side has sent everything."""
        self._ended = self._ended or _CLOSED
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note from asyncio that the connection is gone."""
        self._ended = self._ended or (str(exc) if exc else _CLOSED)
        self._wire = None
        self._go_on()
        self._wake()

    def tune(self) -> None:
        """Make the kernel notice within a minute if the other side of a silent connection is gone."""
        import socket

        raw: object = self._transport.get_extra_info("socket") if self._transport is not None else None
        if not isinstance(raw, TransportSocket):
            return
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            number: object = getattr(socket, name, None)
            if isinstance(number, int):
                raw.setsockopt(socket.IPPROTO_TCP, number, value)

    async def secure(self, context: "ssl.SSLContext", host: str) -> None:
        """Go on inside TLS. Raises OSError."""
        assert self._transport is not None
        secured = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        if secured is None:  # lost in the handshake
            raise ConnectionError(self._ended or "the connection was lost in the TLS handshake")
        self._transport = secured

    def send(self, method: str, target: str, headers: list[tuple[str, str]], body: Sequence[bytes] = ()) -> None:
        """Pass a request to the kernel. A server may answer before it has read all of it, so nobody waits for that.

        Raises ExchangeFailed for requests that HTTP cannot express.
        """
        try:
            head = self._exchange.send(h11.Request(method=method, target=target, headers=headers))
            data = self._exchange.send(h11.Data(data=b"".join(body))) if body else b""
            self._exchange.send(h11.EndOfMessage())
        except (h11.LocalProtocolError, UnicodeEncodeError) as error:
            raise ExchangeFailed("network", f"the URL or a header cannot be sent: {error}") from error
        self._small = 0
        self._go_on()
        if self._transport is not None:
            self._transport.write(b"".join(part for part in (head, data) if part))  # a small request is one packet

    def abort(self) -> None:
        """Drop the connection at once."""
        self._ended = self._ended or "we closed the connection"
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status, and headers in lower case. Raises ExchangeFailed."""
        while True:
            event = self._next_event()
            if isinstance(event, h11.Response):
                return event.status_code, _readable(event.headers)
            if event is h11.NEED_DATA and not await self._more():
                if self._exchange.trailing_data[0]:
                    raise ExchangeFailed("protocol", "the answer is not HTTP: it ends within its headers")
                raise ExchangeFailed("network", self._ended or _CLOSED)

    async def body(self, ended: Callable[[], None]) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives; data that came together are one piece. `ended` is called when all of it was
        read. Raises ExchangeFailed("cut") if it ends early."""
        while True:
            pieces: list[bytes] = []
            while isinstance(event := self._next_event(), h11.Data):
                pieces.append(bytes(event.data))
            if pieces:
                yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if event is not h11.NEED_DATA or (not await self._more() and self._may_end()):
                ended()
                return

    def renew(self, seconds: float) -> bool:
        """Get ready for another request within a time; false if the last exchange or the server does not allow one."""
        if not self._alive or self._exchange.trailing_data[0]:
            return False
        try:
            self._exchange.start_next_cycle()
        except h11.LocalProtocolError:  # closing was agreed on, or the exchange is not complete
            return False
        self.kept_until = self._loop.time() + seconds
        return True

    def begin_tunnel(self) -> None:
        """Start a new HTTP exchange inside the tunnel that a proxy opened."""
        self._exchange = _begin()

    def _may_end(self) -> bool:
        """Return True if a body can end with the bytes so far. Raises ExchangeFailed if the end is too early."""
        try:
            if self._ended == _CLOSED:
                self._exchange.receive_data(b"")
                return isinstance(self._exchange.next_event(), h11.EndOfMessage)
        except h11.RemoteProtocolError:
            pass
        raise ExchangeFailed("cut", f"the connection was lost in the middle of the answer: {self._ended}")

    def _next_event(self) -> object:
        if self._buffer:
            self._exchange.receive_data(bytes(self._buffer))
            self._buffer.clear()
        try:
            return self._exchange.next_event()
        except h11.RemoteProtocolError as error:
            raise ExchangeFailed("protocol", f"the answer is not HTTP: {error}") from error

    async def _more(self) -> bool:
        """Wait for more bytes; return False if none will come."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
            self._go_on()
        if self._ended is None and not self._buffer:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return bool(self._buffer)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _begin() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)


def _readable(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
