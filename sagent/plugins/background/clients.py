"""The programs of this user that are connected to a background session."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from sagent.errors import SagentError
from sagent.lib.json import as_object, json_dump, json_load
from sagent.plugins.background.place import peer_uid

MAX_UNREAD_BYTES = 1 << 25  # by a client that has stopped reading, before it is dropped
Handler = Callable[[Mapping[str, object]], Awaitable[Mapping[str, object]]]


class Client:
    """A connection. One that follows the session is told every event."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.follows = False

    def write(self, line: bytes) -> None:
        """Send a line; drop the connection if its other end does not read."""
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() + len(line) > MAX_UNREAD_BYTES:
            self._writer.transport.abort()
        else:
            self._writer.write(line)

    async def aclose(self) -> None:
        with suppress(OSError):
            self._writer.close()
            async with asyncio.timeout(1):
                await self._writer.wait_closed()


class Clients:
    """The connections to a session. `handle` answers requests, and `on_gone` is called when one ends."""

    def __init__(self, handle: Handler, on_gone: Callable[[], None], greeting: Callable[[], Sequence[bytes]]) -> None:
        self._handle, self._on_gone, self._greeting = handle, on_gone, greeting
        self._clients = set[Client]()

    @property
    def following(self) -> int:
        """The number of clients that follow the session."""
        return sum(client.follows for client in self._clients)

    def tell(self, line: bytes) -> None:
        """Send a line to all clients that follow the session."""
        for client in tuple(self._clients):
            if client.follows:
                client.write(line)

    async def aclose(self) -> None:
        """Close all connections, once what was written to them has been read, or after a second."""
        await asyncio.gather(*(client.aclose() for client in tuple(self._clients)), return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, one after another; other users' are refused."""
        client = Client(writer)
        try:
            uid = peer_uid(writer.get_extra_info("socket"))
            if uid != os.getuid():
                client.write(_encode({"error": f"This session belongs to another user than yours ({uid})."}))
                return
            self._clients.add(client)
            while line := await reader.readline():
                client.write(_encode(await self._answer(client, line)))
        except (OSError, ValueError, asyncio.LimitOverrunError):  # gone, or no client of ours
            pass
        finally:
            self._clients.discard(client)
            await client.aclose()
            self._on_gone()

    async def _answer(self, client: Client, line: bytes) -> Mapping[str, object]:
        asked: Mapping[str, object] = {}
        try:
            asked = as_object(json_load(line))
            if asked.get("op") == "follow":
                client.follows = True
                for each in self._greeting():
                    client.write(each)
                said: Mapping[str, object] = {}
            else:
                said = await self._handle(asked)
        except (SagentError, ValueError, KeyError, RecursionError) as error:
            said = {"error": str(error)}
        return {"kind": "answer", "to": asked.get("to"), **said}


def _encode(value: Mapping[str, object]) -> bytes:
    return json_dump(value).encode("utf-8", "replace") + b"\n"
