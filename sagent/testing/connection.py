"""A TCP connection to the fake provider: requests in, deliveries out, HTTP/1.1 by hand so that it can go wrong."""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import assert_never, cast

from sagent.lib.dataclass import dataclass
from sagent.lib.json import Thawed
from sagent.testing.delivery import Delivery
from sagent.testing.families import family_of
from sagent.testing.script import Cut, Received, Stall

_MARKS = {"anthropic-version": "anthropic", "x-goog-api-key": "google"}  # headers that show the family of a listing


class Reader(asyncio.StreamReader):
    """A stream reader that notices when the client hangs up, also while nothing is read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=1 << 20, loop=loop)
        self.gone = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.gone.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.gone.set()


@dataclass(frozen=True, slots=True)
class Connection:
    """A TCP connection. (asyncio has set TCP_NODELAY, so one write is one segment.)"""

    reader: Reader
    writer: asyncio.StreamWriter
    serial: int

    async def receive(self) -> Received | None:
        """Return the next request, or None when there is none. Raises ConnectionError for what is not HTTP."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.rstrip("\r\n").split("\r\n")
        try:
            method, target, version = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await self._body(headers)
        except ValueError:
            await self._send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return None
        if version == "HTTP/1.0":
            headers.setdefault("connection", "close")
        path, _, query = target.partition("?")
        family = family_of(path) or next((name for mark, name in _MARKS.items() if mark in headers), "chat")
        now = time.monotonic()
        return Received(method, path, query, headers, body, _parse(body), now, self.serial, family)

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("expect", "").lower() == "100-continue":
            await self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" not in headers.get("transfer-encoding", ""):
            return await self.reader.readexactly(int(headers.get("content-length", "0")))
        body = bytearray()
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).partition(b";")[0], 16)
            body += (await self.reader.readexactly(size + 2))[:-2]
            if size == 0:
                return bytes(body)

    async def perform(self, delivery: Delivery) -> bool:
        """Send an answer, faults included. Returns True if the connection can be used again. Raises ConnectionError."""
        await self._pause(delivery.delay)
        await self._send_all(delivery.writes, delivery)
        match delivery.fault:
            case None:
                return True
            case Stall():
                await self._fall_silent(delivery.fault, delivery.ping)
                await self._send_all(delivery.rest, delivery)
                return True
            case Cut():
                if delivery.fault.how == "reset":
                    await self._reset()
                return False
            case _:
                assert_never(delivery.fault)

    async def _send_all(self, writes: Sequence[bytes], delivery: Delivery) -> None:
        for number, data in enumerate(writes):
            if number and delivery.gap > 0:
                await self._pause(delivery.gap)
            elif number and number % delivery.breath == 0:
                await asyncio.sleep(0)
            await self._send(data)

    async def _fall_silent(self, stall: Stall, ping: bytes) -> None:
        if not (stall.pings and ping):
            await self._pause(stall.seconds)
            return
        end = time.monotonic() + stall.seconds
        while (left := end - time.monotonic()) > 0:
            await self._pause(min(left, stall.ping_every))
            await self._send(ping)

    async def _pause(self, seconds: float) -> None:
        """Wait. Raises ConnectionResetError as soon as the client hangs up."""
        if seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.reader.gone.wait()
        except TimeoutError:
            return
        raise ConnectionResetError("the client hung up")

    async def _send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def _reset(self) -> None:
        await asyncio.sleep(0.02)  # a reset would overtake bytes that the client has not read yet
        linger = struct.pack("ii", 1, 0)
        with suppress(OSError):  # the client was quicker
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


def _parse(body: bytes) -> Mapping[str, Thawed]:
    try:
        value: object = json.loads(body) if body else None
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Thawed]", value) if isinstance(value, dict) else {}
