"""Admits requests: those with a token, from this server's own pages or from no page at all."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Generic, TypeVar

from sagent.plugins.hosting.problem import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

U = TypeVar("U")

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
)
USER = "sagent.sessions"
"""The member of a request's scope that has what belongs to its user."""


MAX_BODY_BYTES = 40 << 20  # of a request: a PDF in base64
MAX_DROPPED_BYTES = 64 << 20  # read of an oversized request, so that a client that sends all first can read the answer
MAX_PAUSE_SECONDS = 30.0  # between two pieces of a request
MAX_BODY_SECONDS = 600.0  # for a complete request


class Bounded:
    """An application that gets complete requests; oversized and stalled ones are refused."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        too_large = problem(413, f"The request is larger than {MAX_BODY_BYTES:,} bytes.")
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        if not stated.isdigit() or int(stated[:20]) > MAX_BODY_BYTES:
            await too_large(scope, receive, send)
            return
        try:
            body = await _read(receive)
        except TimeoutError:
            waited = f"no more of it for {MAX_PAUSE_SECONDS:.0f} seconds, or not all in {MAX_BODY_SECONDS:.0f}"
            text = f"The request did not arrive ({waited}): send it again."
            await problem(408, text)(scope, receive, send)
            return
        if body is None:
            return
        if len(body) > MAX_BODY_BYTES:
            await too_large(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> "Message":
            return whole.pop() if whole else await receive()  # after that it reports when the client has gone

        await self._app(scope, replay, send)


async def _read(receive: "Receive") -> bytes | None:
    """Return a request's body, with one byte too many if it is too large; None if the client has gone. Raises
    TimeoutError."""
    data, size, more = bytearray(), 0, True
    end = asyncio.get_running_loop().time() + MAX_BODY_SECONDS
    while more and size <= MAX_DROPPED_BYTES:
        async with asyncio.timeout_at(end), asyncio.timeout(MAX_PAUSE_SECONDS):
            message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece: bytes = message.get("body", b"")
        size, more = size + len(piece), message.get("more_body", False)
        data += piece[: MAX_BODY_BYTES + 1 - len(data)]
    return bytes(data)


class Door(Generic[U]):
    """An ASGI application for clients that send a token, or the key that the page got for one. It refuses requests for
    another host, because a foreign name may lead here (DNS rebinding), and requests of another origin's page. `users`
    has the data of each token's user; `opens` decides which paths need no token.

    Cookies are not used: browsers send the cookies of a host to all of its ports, and to whoever listens there.
    """

    def __init__(self, app: "ASGIApp", users: Mapping[str, U], host: str, opens: Callable[[str], bool]) -> None:
        self._app, self._users, self._host, self._opens = app, users, host, opens
        self._pages: dict[str, U] = {}  # by the key of their pages

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: "Message") -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                said = {name for name, _ in own}
                message["headers"] = [*own, *(each for each in HEADERS if each[0] not in said)]
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if not self._knows(host):
            await problem(421, f"This server is not {host or 'nameless'}: use the address that it printed.")(
                scope, receive, answer
            )
        elif origin not in (None, f"http://{host}", f"https://{host}"):
            await problem(403, f"Pages of {origin} may not use this server.")(scope, receive, answer)
        elif (user := self.user_of(headers)) is not None:
            await self._app({**scope, USER: user}, receive, answer)
        elif self._opens(scope["path"]):
            await self._app(scope, receive, answer)
        else:
            text = "Send the server's token: Authorization: Bearer ..."
            await problem(401, text, {"WWW-Authenticate": "Bearer"})(scope, receive, answer)

    def user_of(self, headers: Mapping[bytes, str]) -> U | None:
        """Return the user of a request's token."""
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        return self.find(token.strip()) if scheme.lower() == "bearer" else None

    def key_of(self, token: str) -> str | None:
        """Return the key for pages of a token's user while this server runs; None for an invalid token."""
        if (user := self.find(token)) is None:
            return None
        if (key := next((key for key, known in self._pages.items() if known is user), None)) is None:
            key = secrets.token_urlsafe(32)
            self._pages[key] = user
        return key

    def find(self, token: str) -> U | None:
        found = None
        for known, user in (*self._users.items(), *self._pages.items()):  # all, so that the time reveals nothing
            if secrets.compare_digest(known.encode(), token.encode("utf-8", "surrogatepass")):
                found = user
        return found

    def _knows(self, host: str) -> bool:
        """Return True if a request may name this host: an address, which no foreign name is, or the name it listens
        at."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        name = name if port.isdecimal() else host
        if name.lower() in ("localhost", self._host.lower()):
            return True
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True
