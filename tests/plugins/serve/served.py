"""`sagent serve` in this process, and a client of it that reads events."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from sagent.cli.settings import load_settings
from sagent.plugins.hosting.opening import opening_of, state_of
from sagent.plugins.serve.app import make_app
from sagent.plugins.serve.sessions import Place, Sessions
from tests.listening import app_at

TOKEN = "token-of-the-person"
MODEL = "anthropic/claude-sonnet-4-6"


@dataclass
class Arrived:
    """A server-sent event."""

    id: str
    name: str
    data: dict

    @property
    def type(self) -> str:
        return self.name or self.data["type"]


@dataclass
class Client:
    """Speaks to a server with a token."""

    url: str
    token: str = TOKEN
    http: httpx2.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        self.http = httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=30)

    async def post(self, path: str, body: Mapping[str, object] | None = None, **headers: str) -> httpx2.Response:
        return await self.http.post(f"/v1/sessions{path}", json=body or {}, headers=headers)

    async def get(self, way: str = "", **query: str) -> httpx2.Response:
        return await self.http.get(f"/v1/sessions{way}", params=query)

    async def begin(self, text: str = "", **wanted: object) -> str:
        made = await self.post("", {**wanted, **({"text": text} if text else {})})
        assert made.status_code == 201, made.text
        return made.json()["id"]

    @asynccontextmanager
    async def stream(self, session: str, after: str = "", **query: str) -> AsyncGenerator[AsyncIterator[Arrived]]:
        headers = {"last-event-id": after} if after else {}
        async with self.http.stream("GET", f"/v1/sessions/{session}/events", headers=headers, params=query) as response:
            assert response.status_code == 200, await response.aread()
            yield read_events(response)

    async def until(self, session: str, *types: str, after: str = "", **query: str) -> list[Arrived]:
        """The events up to the first of some types."""
        found: list[Arrived] = []
        async with asyncio.timeout(60), self.stream(session, after, **query) as events:
            async for event in events:
                found.append(event)
                if event.type in types:
                    break
        return found

    async def question(self, session: str, after: dict | None = None) -> dict:
        """What is asked first, once that is another question than the one before."""
        async with asyncio.timeout(60), self.stream(session) as events:
            async for event in events:
                for question in event.data["questions"] if event.name == "status" else ():
                    if after is None or question["id"] != after["id"]:
                        return question
        raise AssertionError("nothing was asked")

    async def half_a_request(
        self, path: str = "/v1/sessions", token: str = TOKEN, more: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which a request has begun that does not go on."""
        url = httpx2.URL(self.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = f"POST {path} HTTP/1.1\r\nHost: {url.host}\r\nAuthorization: Bearer {token}\r\n{more}"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        await writer.drain()
        return reader, writer

    async def done(self, session: str) -> dict:
        async with asyncio.timeout(60):
            while (status := (await self.get(f"/{session}")).json())["state"] != "idle":
                await asyncio.sleep(0.05)
        return status


async def read_events(response: httpx2.Response) -> AsyncIterator[Arrived]:
    """The events of a stream, as the standard has them."""
    id_ = name = data = ""
    async for line in response.aiter_lines():
        key, _, value = line.partition(": ")
        match key:
            case "id":
                id_ = value
            case "event":
                name = value
            case "data":
                data += value
            case "" if data:
                yield Arrived(id_, name, json.loads(data))
                id_ = name = data = ""
            case _:
                pass


@asynccontextmanager
async def served(
    cwd: Path,
    *more: Path,
    users: Sequence[str] = ("",),
    keep: Callable[[str], None] | None = None,
    **flags: object,
) -> AsyncGenerator[Client]:
    """A server for a directory; with `users`, each one's token is the name with `TOKEN` after it. `keep` writes rules
    that are allowed always."""
    given = {"model": MODEL, "cwd": str(cwd), **flags}
    settings, roots = load_settings(given), (cwd.resolve(), *(each.resolve() for each in more))
    known = {
        f"{name}{TOKEN}": Sessions(opening_of(given, name, users=users), Place(roots, state_of(settings, name)), keep)
        for name in users
    }
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}", f"{users[0]}{TOKEN}")
    app = make_app(known, "127.0.0.1")
    async with app_at(bound, app, list(known.values())), client.http:
        yield client
