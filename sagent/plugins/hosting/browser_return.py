"""The return of a browser from a login: an address on this machine for it to come back to, once.

Any page can send a browser to this machine, so a request counts only with the state of the login, or at a path that
cannot be guessed.
"""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

from sagent.lib.listener import stop_accepting
from sagent.lib.text import one_line, printable
from sagent.plugins.hosting.http1 import problem_of

LOGIN_TIMEOUT_SECONDS = 300.0  # for a person to log in
_HEAD_TIMEOUT_SECONDS = 10.0  # of a browser's request
_MAX_REASON_CHARS = 300


class BrowserReturn:
    """An address for a browser to come back to, with the query that it then brings."""

    def __init__(self, path: str) -> None:
        self.address = ""
        self.path = path
        self._state: str | None = None
        self._arrived: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self.connections: set[asyncio.StreamWriter] = set()

    def expect(self, page: str) -> None:
        """Wait for the answer to the login that begins at this page, whose query has a state. Earlier answers are
        dropped."""
        self._state = query_of(page).get("state", "")
        self._arrived = asyncio.get_running_loop().create_future()

    async def wait(self) -> Mapping[str, str]:
        """Return the query of the browser's return, with "code" or "error". Raises TimeoutError."""
        async with asyncio.timeout(LOGIN_TIMEOUT_SECONDS):
            return await self._arrived

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a browser."""
        self.connections.add(writer)
        with suppress(OSError, ValueError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_TIMEOUT_SECONDS)
            if problem := problem_of(head):
                status, said = "400 Bad Request", f"The request was refused: {problem}."
            else:
                method, target, _ = head.split(b" ", 2)
                status, said = self._take(target.decode("latin-1") if method == b"GET" else "")
            body = f"<!doctype html><meta charset=utf-8><title>sagent</title><p>{said}".encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
                "Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\n"
                "Connection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()
        self.connections.discard(writer)

    def _take(self, target: str) -> tuple[str, str]:
        """Return the status and the text for a browser's request."""
        given = query_of(target)
        if not self._is_ours(target, given) or not {"code", "error"} & given.keys():
            return "404 Not Found", "This address is only for returning from a login that sagent started."
        if not self._arrived.done():
            self._arrived.set_result(given)
        if refusal_in(given):
            return "200 OK", "The login was refused. You can close this page."
        return "200 OK", "You are logged in. You can close this page and return to sagent."

    def _is_ours(self, target: str, query: Mapping[str, str]) -> bool:
        if not secrets.compare_digest(urlsplit(target).path.encode(), self.path.encode()):
            return False
        if self._state is None:
            return True
        return bool(self._state) and secrets.compare_digest(query.get("state", "").encode(), self._state.encode())


@asynccontextmanager
async def browser_return(path: str = "", *, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[BrowserReturn]:
    """Listen for a browser's return, and close all its connections at the end.

    Without `path` it is one that cannot be guessed, and no state is expected. With one, `expect` must be called. `host`
    is how the address names this machine. Raises OSError if the port is taken.
    """
    back = BrowserReturn(path or f"/callback/{secrets.token_urlsafe(16)}")
    if path:
        back.expect("")
    server = await asyncio.start_server(back.receive, "127.0.0.1", port)
    back.address = f"http://{host}:{server.sockets[0].getsockname()[1]}{back.path}"
    try:
        yield back
    finally:
        await stop_accepting(server)
        server.close()
        for writer in tuple(back.connections):  # a browser may hold connections that it never uses
            writer.transport.abort()


def query_of(url: str) -> Mapping[str, str]:
    """Return the first value of each name in an address's query."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def refusal_in(query: Mapping[str, str]) -> str:
    """Return the reason of a refused login; "" for one that was allowed."""
    if "error" not in query:
        return ""
    return one_line(printable(query.get("error_description", query["error"])), _MAX_REASON_CHARS) or "no reason given"


def open_browser(url: str) -> None:
    """Open a browser that has a window; one in this terminal would write over the session."""
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        import webbrowser

        webbrowser.open(url)
