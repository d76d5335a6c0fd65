"""The bus over HTTP keeps what a bus promises, over lost connections too."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette

from sagent.errors import UsageError
from sagent.mesh.buses.http import HttpBus, http_bus
from sagent.mesh.buses.http_routes import Gates, bus_routes
from sagent.mesh.buses.local import LocalBus
from sagent.testing.bus_suite import BusSuite


@asynccontextmanager
async def serving_bus() -> AsyncIterator[tuple[str, uvicorn.Server]]:
    """A server with a bus of its own."""
    local, bound = LocalBus(), socket.create_server(("127.0.0.1", 0))
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    gates = Gates(lambda _: local)
    config = uvicorn.Config(
        Starlette(routes=bus_routes(gates)), http="h11", ws="none", lifespan="off", log_level="critical"
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve([bound]))
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}", server
    finally:
        await gates.aclose()
        server.should_exit = server.force_exit = True
        await task
        bound.close()


async def test_a_timeout_that_is_too_long_is_refused() -> None:
    async with serving_bus() as (url, _), http_bus(url, "token") as bus:
        for timeout in (0, -1, 86_401, 10**400):
            with pytest.raises(UsageError, match="timeout: seconds"):
                await bus.call("POST", "/messages", {"to": "a", "body": 1, "timeout": timeout})


class TestHttpBus(BusSuite):
    @pytest.fixture
    async def server(self) -> AsyncIterator[tuple[str, uvicorn.Server]]:
        async with serving_bus() as found:
            yield found

    @pytest.fixture
    async def bus(self, server: tuple[str, uvicorn.Server]) -> AsyncIterator[HttpBus]:
        async with http_bus(server[0], "token") as found:
            yield found

    @pytest.fixture
    async def other(self, server: tuple[str, uvicorn.Server]) -> AsyncIterator[HttpBus]:
        async with http_bus(server[0], "token") as found:
            yield found

    @pytest.fixture
    def disrupt(self, server: tuple[str, uvicorn.Server]) -> Callable[[], Awaitable[None]]:
        async def disrupt() -> None:
            for connection in list(server[1].server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)

        return disrupt
