"""The bus over HTTP keeps what a bus promises, over lost connections too."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette

from sagent.errors import UsageError
from sagent.plugins.mesh import bus_suite
from sagent.plugins.mesh.bus import Bus, Delivery
from sagent.plugins.mesh.bus_suite import BusSuite
from sagent.plugins.mesh.buses import http_routes, local
from sagent.plugins.mesh.buses.http import HttpBus, http_bus
from sagent.plugins.mesh.buses.http_routes import Gates, bus_routes
from sagent.plugins.mesh.buses.local import LocalBus
from sagent.plugins.mesh.errors import Refused, TooLarge, Unavailable
from tests.strict_http import exchange


@asynccontextmanager
async def serving_bus(local: Bus | None = None) -> AsyncIterator[tuple[str, uvicorn.Server]]:
    """A server with a bus of its own."""
    local, bound = local or LocalBus(), socket.create_server(("127.0.0.1", 0))
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


async def test_invalid_timeout_or_kind_refused() -> None:
    async with serving_bus() as (url, _), http_bus(url, "token") as bus:
        for timeout in (0, -1, 86_401, 10**400, "5", True):
            with pytest.raises(UsageError, match="timeout: seconds"):
                await bus.call("POST", "/messages", {"to": "a", "body": 1, "timeout": timeout})
        with pytest.raises(UsageError, match="kind=other"):
            await bus.call("GET", "/cards?kind=other")


async def test_unreadable_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_bus() as (url, _), httpx2.AsyncClient(base_url=f"{url}/v1/bus") as client:
        for body in (
            b"[]",
            b"5",
            b'"x"',
            b'{"a": NaN}',
            b'{"a": "\xff"}',
            b'{"a": ' * 10_000,
            b'{"a": %b}' % (b"9" * 5_000),
        ):
            for method, path in (("POST", "/messages"), ("POST", "/requests"), ("PUT", "/cards/a")):
                assert (await client.request(method, path, content=body)).status_code == 400
        assert (await client.post("/messages", json={"to": "a", "body": 1, "id": "x" * 1_000})).status_code == 400
        monkeypatch.setattr(http_routes, "BODY_TIMEOUT_SECONDS", 0.05)
        head = b"POST /v1/bus/messages HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{"
        assert (await exchange(int(url.rpartition(":")[2]), head)).startswith(b"HTTP/1.1 408 ")
        monkeypatch.setattr(http_routes, "_MAX_BODY_BYTES", 1_000)
        large = await client.post("/messages", json={"to": "a", "body": "x" * 1_000})
        assert (large.status_code, large.json()["kind"]) == (413, TooLarge.kind)


class TestHttpBus(BusSuite):
    @pytest.fixture(autouse=True)
    def _small_inboxes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each message is a request here. The bus behind it is tested with all the room that an inbox has."""
        monkeypatch.setattr(bus_suite, "INBOX", 200)
        monkeypatch.setattr(local, "MAX_INBOX_MESSAGES", 200)

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


async def test_unreadable_stream_ends_with_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: message\ndata: {no json\n\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, http_bus(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "t") as bus:
        async with asyncio.timeout(60):
            with pytest.raises(Unavailable, match="cannot be read"):
                await bus.cards()
            async with bus.receiving("a") as deliveries:
                with pytest.raises(Unavailable, match="cannot be read"):
                    await anext(deliveries)


async def test_refused_receiver_told_why() -> None:
    class Deaf(LocalBus):
        @asynccontextmanager
        async def receiving(self, name: str) -> AsyncIterator[AsyncIterator[Delivery]]:
            raise Refused(f"Not at {name}.")
            yield  # pyright: ignore[reportUnreachable] -- it is a generator

    async with (
        asyncio.timeout(60),
        serving_bus(Deaf()) as (url, _),
        http_bus(url, "token") as bus,
        bus.receiving("a") as deliveries,
    ):
        with pytest.raises(Refused, match=r"Not at a\."):
            await anext(deliveries)
