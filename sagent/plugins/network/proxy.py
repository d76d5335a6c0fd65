"""Network access of sandboxed commands: an HTTP proxy that lets each command reach the hosts it was admitted for.

A command presents a pass: the user name in its proxy's address. Its request is parsed strictly, compared to the pass's
entries, resolved once, judged by the addresses (see `hosts`), and connected to exactly the address that was judged. A
CONNECT tunnel is not inspected: an allowed name is a trusted one.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Self

import h11

from sagent.lib.dataclass import dataclass
from sagent.plugins.network.exchange import (
    CHUNK_BYTES,
    MAX_HEAD_BYTES,
    Refusal,
    Side,
    forward,
    proxy_user,
    read_head,
    reason,
    target,
    tunnel,
)
from sagent.sandbox.hosts import Address, Endpoint, Entry, reach

MAX_CONNECTIONS = 100  # per pass
MAX_WAITING = 100  # connections without a pass; beyond that the oldest ends, as honest clients present one at once
MAX_ALL_CONNECTIONS = 250  # each takes two descriptors; a process usually has 1024
MAX_REFUSED = 100  # targets remembered per pass
REQUEST_TIMEOUT_SECONDS = 30.0  # for a request's head, for a look-up, and for a connection
_FAREWELL_SECONDS = 5.0  # for a client to read its answer while it still sends; a reset would discard it

# Resolves host and port to addresses. Raises OSError if there are none.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_SOCKET_NAME_BYTES = 103  # the limit of macOS


class Proxy:
    """Serves until it is closed. Only what `admit` gave out is served, for as long as it is not dismissed."""

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolver = ThreadPoolExecutor(4, "sagent-resolver")  # slow look-ups must not block the session's threads
        self._resolve = resolve or self._look_up
        self._passes: dict[str, _Pass] = {}
        self._servers: list[asyncio.Server] = []
        self._sockets: list[Path] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Task[object], None] = {}  # of them, the oldest first

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def listen(self, directory: Path) -> Path:
        """Listen on a Unix socket in a private directory, created if missing; return its path."""
        directory.mkdir(mode=0o700, exist_ok=True)
        directory.chmod(0o700)
        path = directory / "proxy"
        held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:  # the name of a socket has at most 107 bytes, and the directory may be anywhere
            name = f"/proc/self/fd/{held}/proxy" if len(os.fsencode(path)) > MAX_SOCKET_NAME_BYTES else path
            self._servers.append(await asyncio.start_unix_server(self._accept, name, limit=MAX_HEAD_BYTES))
        finally:
            os.close(held)
        self._sockets.append(path)
        return path

    async def listen_on_loopback(self) -> int:
        """Listen on a free port of loopback, for a sandbox that shares the machine's network; return the port."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", limit=MAX_HEAD_BYTES)
        self._servers.append(server)
        return server.sockets[0].getsockname()[1]

    def admit(self, domains: Iterable[str]) -> str:
        """Return a pass for these entries. Raises ValueError for an invalid one."""
        entries = tuple(map(Entry.parse, domains))
        token = secrets.token_hex(16)
        self._passes[token] = _Pass(entries)
        return token

    def refused(self, token: str) -> tuple[str, ...]:
        """Return the refused targets of a pass, each once, as the entry that would allow it."""
        return tuple(self._passes[token].refused) if token in self._passes else ()

    def dismiss(self, token: str) -> None:
        """Invalidate a pass and end its connections."""
        if found := self._passes.pop(token, None):
            for task in found.tasks:
                task.cancel()

    def environment(self, token: str, port: int) -> Mapping[str, str]:
        """Return the variables by which programs find the proxy at a port of their own loopback.

        Programs reach servers in their own sandbox without it. If this machine's loopback is allowed by name, loopback
        names mean this machine. Raises KeyError for an unknown pass.
        """
        address = f"http://{token}:x@127.0.0.1:{port}"
        listed = {str(entry.host) for entry in self._passes[token].entries}
        direct = ",".join(name for name in ("127.0.0.1", "localhost", "::1") if name not in listed)
        known = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "ALL_PROXY": address, "NO_PROXY": direct}
        own = {"NODE_USE_ENV_PROXY": "1", "YARN_HTTP_PROXY": address, "YARN_HTTPS_PROXY": address}
        return known | {name.lower(): value for name, value in known.items()} | own

    async def aclose(self) -> None:
        """Stop, and end all connections."""
        loop = asyncio.get_running_loop()
        for listener in (listener for server in self._servers for listener in server.sockets):
            loop.remove_reader(listener.fileno())
        await asyncio.sleep(0)  # attach accepted connections first: the close would drop them, still open
        for server in self._servers:
            server.close()
        self._passes.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()
        for path in self._sockets:
            path.unlink(missing_ok=True)
        self._resolver.shutdown(wait=False, cancel_futures=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        admitted = sum(len(each.tasks) for each in self._passes.values())
        if admitted >= MAX_ALL_CONNECTIONS - MAX_WAITING or not all(server.is_serving() for server in self._servers):
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        if len(self._waiting) >= MAX_WAITING:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.cancel()
        self._tasks.add(task)
        self._waiting[task] = None
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda task: self._waiting.pop(task, None))
        task.add_done_callback(lambda _: writer.transport.abort())  # one cancelled before it starts runs no `finally`

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, which carries a single request."""
        with contextlib.suppress(OSError, h11.ProtocolError):  # TimeoutError is an OSError
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS) as timeout:
                client = Side(reader, writer, h11.SERVER, timeout)
                try:
                    await self._answer(client, await read_head(client))
                except Refusal as refusal:
                    await client.write(refusal.answer)
                writer.write_eof()
                timeout.reschedule(asyncio.get_running_loop().time() + _FAREWELL_SECONDS)
                while await reader.read(CHUNK_BYTES):
                    pass

    async def _answer(self, client: Side, request: h11.Request) -> None:
        admitted = self._passes.get(proxy_user(request))
        if admitted is None:
            raise Refusal(407, "This proxy serves running commands of sagent, and these credentials are not theirs.")
        if len(admitted.tasks) >= MAX_CONNECTIONS:
            raise Refusal(503, f"The sandbox allows a command at most {MAX_CONNECTIONS} connections at once.")
        self._waiting.pop(admitted.enter(), None)
        endpoint, path = target(request)
        client.timeout.reschedule(None)  # look-up and connection have their own limits
        reader, writer = await _connect(endpoint, await self._judged(endpoint, admitted))
        try:
            origin = Side(reader, writer, h11.CLIENT, client.timeout)
            origin.restart_timeout()
            if request.method == b"CONNECT":
                await tunnel(client, origin)
            else:
                await forward(client, origin, request, endpoint, path)
        finally:
            writer.transport.abort()

    async def _judged(self, endpoint: Endpoint, admitted: "_Pass") -> Sequence[Address]:
        """Return the permitted addresses of an endpoint, at least one. Raises Refusal."""
        entries = [entry for entry in admitted.entries if entry.covers(endpoint)]
        if not entries:
            raise admitted.refuse(endpoint.wanted, f"The sandbox does not let this command reach {endpoint}")
        if endpoint.fixed:
            return endpoint.fixed
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                found = [ip_address(text) for text in await self._resolve(str(endpoint.host), endpoint.port)]
        except OSError as error:
            raise Refusal(502, f"{endpoint.host} was not found: {reason(error)}.") from error
        allowed = {"public", "private"} if any(entry.port for entry in entries) else {"public"}
        if addresses := [address for address in found if reach(address) in allowed]:
            return addresses
        if any(reach(address) == "private" for address in found):
            raise admitted.refuse(str(endpoint), f"{endpoint.host} leads to a private address")
        raise _astray(endpoint)

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._resolver, ask)
        return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class _Pass:
    entries: tuple[Entry, ...]
    refused: dict[str, None] = field(default_factory=dict[str, None])
    tasks: "set[asyncio.Task[object]]" = field(default_factory=set[asyncio.Task[object]])

    def enter(self) -> "asyncio.Task[object]":
        """Count the task that calls until it is done; that task."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def refuse(self, target: str, sentence: str) -> Refusal:
        if len(self.refused) < MAX_REFUSED:
            self.refused[target] = None
        return Refusal(403, f"{sentence}: it lacks network:{target}.")


async def _connect(
    endpoint: Endpoint, addresses: Sequence[Address]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the first address that accepts one. Raises Refusal."""
    said = ""
    for address in addresses:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS / len(addresses)):
                reader, writer = await asyncio.open_connection(str(address), endpoint.port, limit=CHUNK_BYTES)
        except OSError as error:
            said = reason(error)
            continue
        ends = [writer.get_extra_info(name) for name in ("sockname", "peername")]
        if endpoint.fixed or (all(ends) and ends[0][0] != ends[1][0]):
            return reader, writer
        writer.transport.abort()
        raise _astray(endpoint)
    raise Refusal(502, f"{endpoint}: connecting failed: {said}.")


def _astray(endpoint: Endpoint) -> Refusal:
    return Refusal(403, f"{endpoint.host} leads to this machine, a link-local address or a metadata service.")
