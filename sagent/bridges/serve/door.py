"""Admits requests: those with a token, from this server's own pages or from no page at all."""

import secrets
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Generic, TypeVar

from sagent.bridges.serve.problem import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

U = TypeVar("U")

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
"""The member of a request's scope that has what belongs to its user."""


def is_open(path: str) -> bool:
    """Whether a path is shown without a token."""
    return path in OPEN or path.startswith("/assets/")


class Door(Generic[U]):
    """An ASGI application for those who send a token, or the key that the page got for one. A request that names
    another host is refused, for a name of somebody else's may lead here (DNS rebinding), and so is one that another
    origin's page makes. `users` has what belongs to the user of each token; `opens` says which paths need none.

    No cookie opens anything: browsers send the cookies of a host to all of its ports, and to whoever listens there.
    """

    def __init__(
        self, app: "ASGIApp", users: Mapping[str, U], host: str, opens: Callable[[str], bool] = is_open
    ) -> None:
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
        """What the token of a request opens."""
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        return self.find(token.strip()) if scheme.lower() == "bearer" else None

    def key_of(self, token: str) -> str | None:
        """Return the key by which pages of a token's user come in while this server runs; None for no token."""
        if (user := self.find(token)) is None:
            return None
        if (key := next((key for key, known in self._pages.items() if known is user), None)) is None:
            key = secrets.token_urlsafe(32)
            self._pages[key] = user
        return key

    def find(self, token: str) -> U | None:
        found = None
        for known, user in (*self._users.items(), *self._pages.items()):  # all of them: how long it takes says nothing
            if secrets.compare_digest(known.encode(), token.encode("utf-8", "surrogatepass")):
                found = user
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
