"""Servers that say exactly the bytes they are told to say."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import pytest

from tests.listening import listen

pytest.register_assert_rewrite("sagent.testing.model_suite")

Piece: TypeAlias = bytes | float | None


class RawServer:
    """Answers the n-th request, on whatever connection, with the n-th list of pieces; the last one repeats.

    A piece is bytes to write, a number of seconds to wait, or None to close the connection there and then.
    """

    def __init__(self, answers: list[list[Piece]]) -> None:
        self.answers = answers
        self.requests: list[bytes] = []
        self.connections = self.open = 0
        self.url = ""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            await self._answer(reader, writer)
        finally:
            self.open -= 1

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(int(sizes[0].split(b":")[1])) if sizes else b""
            self.requests.append(head + body)
            for piece in self.answers[min(len(self.requests), len(self.answers)) - 1]:
                if piece is None:
                    return
                if isinstance(piece, bytes):
                    writer.write(piece)
                    await writer.drain()
                else:
                    await asyncio.sleep(piece)


@pytest.fixture
def listening() -> Callable[..., AbstractAsyncContextManager[str]]:
    """Open a server with a handler: `async with listening(handler) as address`."""
    return listen


@pytest.fixture
def raw_server() -> Callable[..., AbstractAsyncContextManager[RawServer]]:
    """Open a RawServer: `async with raw_server([...], [...]) as server`."""

    @asynccontextmanager
    async def opened(*answers: list[Piece]) -> AsyncGenerator[RawServer]:
        raw = RawServer(list(answers))
        async with listen(raw.connected) as address:
            raw.url = f"http://{address}"
            yield raw

    return opened
