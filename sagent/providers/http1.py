"""HTTP/1.1 as a client needs it for one request after another: a connection, and the reading of responses (RFC 9112).

Written here because the libraries cost more than the whole start-up may: httpcore2 brings 130 modules and 55 ms, and
three times the CPU for each chunk of a stream.
"""

import asyncio
from asyncio.trsock import TransportSocket
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from sagent.providers.disruption import Disrupted

if TYPE_CHECKING:
    import ssl

_HEAD = 256 * 1024  # bytes of status line and headers, at most
_HIGH_WATER = 1024 * 1024  # bytes received and not yet read, above which the socket is left alone
_NO_BODY = (204, 304)
_CLOSED = "the server closed the connection"


class Connection(asyncio.Protocol):
    """One connection. What has arrived waits in a buffer; whoever reads is woken by the next bytes or by the end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._ended: str | None = None  # why nothing more will come
        self._paused = False
        self.used = False  # a request has been answered on it
        self.idle_since = 0.0  # loop time; 0 while a request is under way

    @property
    def alive(self) -> bool:
        """Whether it can carry another request: open, and silent since the last answer."""
        return self._ended is None and not self._buffer and self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: the connection stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio's: bytes came."""
        self._buffer += data
        if len(self._buffer) > _HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """asyncio's: the other side has said all it will."""
        self._ended = self._ended or _CLOSED
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: the connection is gone."""
        self._ended = self._ended or (str(exc) if exc else _CLOSED)
        self._wake()

    def tune(self) -> None:
        """Let the kernel notice within a minute that the other side of a silent connection is gone."""
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

    def send(self, *parts: bytes) -> None:
        """Hand bytes to the kernel. A server may answer before it has taken all of them, so nobody waits for that."""
        if self._transport is not None:
            self._transport.write(b"".join(parts[:2]))  # a small request is one packet
            for part in parts[2:]:
                self._transport.write(part)

    def abort(self) -> None:
        """Drop the connection at once."""
        self._ended = self._ended or "we closed the connection"
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    async def head(self) -> tuple[int, dict[str, str], bool]:
        """Status, headers in lower case, and whether the connection may be kept. Raises Disrupted."""
        while True:
            found = self._buffer.find(b"\r\n\r\n")
            if found >= 0:
                status, headers, keep = _parse_head(bytes(self._buffer[:found]))
                del self._buffer[: found + 4]
                if status >= 200 or status == 101:
                    return status, headers, keep
                continue  # 1xx: the real one follows
            if len(self._buffer) > _HEAD:
                raise Disrupted("protocol", "the answer's headers do not end")
            if not await self._more():
                if self._buffer:
                    raise Disrupted("protocol", f"the answer is not HTTP: {bytes(self._buffer[:60])!r}")
                raise Disrupted("network", self._ended or _CLOSED)

    async def body(self, status: int, headers: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """The body as it comes. Raises Disrupted("cut") when it ends early."""
        if status in _NO_BODY:
            return
        if "chunked" in headers.get("transfer-encoding", "").lower():
            chunks = _Chunks()
            while not chunks.ended:
                if data := chunks.take(self._buffer):
                    yield data
                elif not chunks.ended and not await self._more():
                    raise self._cut()
            return
        length = headers.get("content-length", "").strip()
        if length and not (length.isascii() and length.isdecimal()):
            raise Disrupted("protocol", f"the answer's length is {length!r}")
        left = int(length) if length else None
        while left != 0:
            if not self._buffer and not await self._more():
                if left is None and self._ended == _CLOSED:
                    return
                raise self._cut()
            data = bytes(self._buffer[:left])
            del self._buffer[:left]
            left = None if left is None else left - len(data)
            yield data

    def _cut(self) -> Disrupted:
        return Disrupted("cut", f"the connection was lost in the middle of the answer: {self._ended}")

    async def _more(self) -> bool:
        """Wait for further bytes; False when none will come."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        before = len(self._buffer)
        if self._ended is None:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return len(self._buffer) > before

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Chunks:
    """The chunked coding, taken apart as it arrives."""

    __slots__ = ("_left", "_trailer", "ended")

    def __init__(self) -> None:
        self._left = 0  # bytes of the current chunk that have not come, the line end after it included
        self._trailer = False
        self.ended = False

    def take(self, buffer: bytearray) -> bytes:
        """What the buffer holds of the body; what was understood is removed from it."""
        data = bytes(buffer)
        taken: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.ended:
            if self._left > 2:
                piece = data[at : at + self._left - 2]
                taken.append(piece)
                at += len(piece)
                self._left -= len(piece)
            elif self._left:
                given = data[at : at + self._left]
                if given != b"\r\n"[2 - self._left :][: len(given)]:
                    raise Disrupted("protocol", "a chunk of the answer is longer than it says")
                at += len(given)
                self._left -= len(given)
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    if size - at > _HEAD:
                        raise Disrupted("protocol", "a chunk of the answer has no size")
                    break
                self._line(data[at:end])
                at = end + 2
        del buffer[:at]
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _line(self, line: bytes) -> None:
        if self._trailer:
            self.ended = not line
            return
        digits = line.partition(b";")[0].strip()
        try:
            size = int(digits, 16) if digits[:1].isalnum() else -1
        except ValueError:
            size = -1
        if size < 0:
            raise Disrupted("protocol", f"a chunk of the answer has the size {line[:40]!r}")
        self._left, self._trailer = size + 2 if size else 0, not size


def _parse_head(data: bytes) -> tuple[int, dict[str, str], bool]:
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdecimal() and len(code) == 3):
        raise Disrupted("protocol", f"the answer is not HTTP: {first[:60]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    said = headers.get("connection", "").lower()
    keep = "close" not in said and (version != "HTTP/1.0" or "keep-alive" in said)
    framed = "transfer-encoding" in headers or "content-length" in headers or int(code) in _NO_BODY
    return int(code), headers, keep and framed
