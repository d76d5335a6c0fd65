"""A server on loopback of which nothing is left in the end."""

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def lasting_port() -> int:
    """Return a free port of loopback for a server that is started there twice.

    Nobody is given it in between: it lies below those that systems choose for connections and for port 0."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(20_000, 32_000)))
            return probe.getsockname()[1]


@asynccontextmanager
async def listen(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """A loopback server, "127.0.0.1:port"; in the end nothing of it is left."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await handler(reader, writer)
        writer.close()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for listener in server.sockets:
            asyncio.get_running_loop().remove_reader(listener.fileno())
        for _ in range(4):  # of the loop, until what was accepted by now has its task: after the close it stays open
            await asyncio.sleep(0)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # for the transports to be gone


@asynccontextmanager
async def app_at(bound: socket.socket, app: Any, users: Sequence[Any] = ()) -> AsyncGenerator[None]:
    """An ASGI application at a socket that listens, by our own server, which closes `users` in the end."""
    from sagent.plugins.hosting.running import serve

    stop = asyncio.Event()
    running = asyncio.create_task(serve(app, bound, users, stop))
    try:
        yield
    finally:
        stop.set()
        assert await running == 0
        bound.close()
