"""The server as long as it runs."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sagent.lib.signals import handled_signals
from sagent.plugins.hosting.http1 import StrictConnection

if TYPE_CHECKING:
    from starlette.types import ASGIApp


MAX_HEAD_BYTES = 1 << 16
HEAD_TIMEOUT_SECONDS = 30  # for a connection to send the head of a request
CLOSE_TIMEOUT_SECONDS = 3  # for clients with open requests when the server ends


class Closing(Protocol):
    """The belongings of a user of the server."""

    async def aclose(self) -> None: ...


async def serve(
    app: "ASGIApp", bound: socket.socket, users: Sequence[Closing], stop: asyncio.Event | None = None
) -> int:
    """Serve until a signal, or `stop`; return 128 plus the signal's number, or 0. Runs are interrupted, and all
    sessions closed."""
    config = uvicorn.Config(
        app, http=_Protocol, ws="none", lifespan="auto", log_level="error", access_log=False, server_header=False,
        timeout_graceful_shutdown=CLOSE_TIMEOUT_SECONDS,
    )  # fmt: skip
    server = _Server(config, stop or asyncio.Event())
    serving = asyncio.create_task(server.serve([bound]))
    ended = asyncio.create_task(server.ended.wait())
    await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    await asyncio.gather(*(user.aclose() for user in users))
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a client that is cut off now is no error
    server.should_exit = True
    await serving
    return 128 + server.signal if server.signal else 0


class _Protocol(H11Protocol):
    """HTTP/1.1 that refuses ambiguous requests, and does not wait for ever for a head."""

    _head: asyncio.TimerHandle | None = None

    def __init__(self, config: uvicorn.Config, *others: Any, **named: Any) -> None:
        super().__init__(config, *others, **named)
        self.conn = self._strict = StrictConnection(h11.SERVER, config.h11_max_incomplete_event_size or MAX_HEAD_BYTES)

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._head is not None:
            self._head.cancel()

    def _await_head(self) -> None:
        """Close the connection after a while if it has not sent a complete head."""
        waits = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        if self._head is not None and not waits:
            self._head.cancel()
            self._head = None
        elif self._head is None and waits:
            self._head = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        why = f" The request was refused: {self._strict.problem}." if self._strict.problem else ""
        super().send_400_response(f"{msg}{why}")


class _Server(uvicorn.Server):
    """A server without its own signal handling."""

    def __init__(self, config: uvicorn.Config, ended: asyncio.Event) -> None:
        super().__init__(config)
        self.ended, self.signal, self._heeded = ended, 0, handled_signals()
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig not in self._heeded:
            return
        if self.signal:  # a second one does not wait
            self.force_exit = True
        self.signal = int(sig)
        self._loop.call_soon_threadsafe(self.ended.set)
