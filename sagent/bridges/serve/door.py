"""Who may come in: whoever has a token, from this server's own pages or from no page at all."""

import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import TYPE_CHECKING

from sagent.bridges.serve.problem import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sagent.bridges.serve.sessions import Sessions

OPEN = ("/", "/login", "/openapi.json")
"""What is shown without a token, in addition to the page's own files."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
USER = "sagent.sessions"
"""The member of a request's scope that has the sessions of its user."""


class Door:
    """An ASGI application for those who have a token, as a bearer's or in the page's cookie. A request that names
    another host is refused, for a name of somebody else's may lead here (DNS rebinding), and so is one that another
    origin's page makes."""

    def __init__(self, app: "ASGIApp", users: "Mapping[str, Sessions]", host: str, cookie: str) -> None:
        self._app, self._users, self._host, self._cookie = app, users, host, cookie

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: "Message") -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if not self._knows(host):
            await problem(421, f"This server is not {host or 'nameless'}: use the address that it has printed.")(
                scope, receive, answer
            )
        elif origin not in (None, f"http://{host}", f"https://{host}"):
            await problem(403, f"Pages of {origin} may not use this server.")(scope, receive, answer)
        elif (sessions := self.sessions_of(headers)) is not None:
            await self._app({**scope, USER: sessions}, receive, answer)
        elif scope["path"] in OPEN or scope["path"].startswith("/assets/"):
            await self._app(scope, receive, answer)
        else:
            text = "Send the server's token: Authorization: Bearer ..., or log in at / with it."
            await problem(401, text, {"WWW-Authenticate": "Bearer"})(scope, receive, answer)

    def sessions_of(self, headers: Mapping[bytes, str]) -> "Sessions | None":
        """Those that the token of a request opens."""
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            token = _cookie(headers.get(b"cookie", ""), self._cookie)
        return self.find(token.strip())

    def find(self, token: str) -> "Sessions | None":
        found = None
        for known, sessions in self._users.items():  # all of them: how long it takes says nothing
            if secrets.compare_digest(known.encode(), token.encode()):
                found = sessions
        return found

    def _knows(self, host: str) -> bool:
        """Whether a request may name this host: an address, for a foreign name is none, or the name it listens at."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        name = name if port.isdecimal() else host
        if name.lower() in ("localhost", self._host.lower()):
            return True
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
