"""Logins at an MCP server with OAuth: a real server on loopback, and a browser that is an HTTP client."""

import asyncio
import json
import secrets
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from sagent.plugins.mcp import open_servers
from sagent.plugins.mcp.login import LoginFile, log_in
from sagent.plugins.mcp.server import McpServer
from tests.depth import later
from tests.listening import app_at
from tests.plugins.mcp.calls import call


@dataclass
class Site:
    """An MCP server that wants a token, and the server that gives tokens."""

    url: str
    refuses: bool = False
    forgets: bool = False  # who has logged in
    valid: set[str] = field(default_factory=set[str])
    grants: list[str] = field(default_factory=list[str])

    @property
    def server(self) -> McpServer:
        return McpServer(url=f"{self.url}/mcp")

    async def protected(self, request: Request) -> Response:
        return JSONResponse({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})

    async def metadata(self, request: Request) -> Response:
        return JSONResponse({
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token", "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
        })  # fmt: skip

    async def register(self, request: Request) -> Response:
        return JSONResponse({**await request.json(), "client_id": "c1", "token_endpoint_auth_method": "none"}, 201)

    async def authorize(self, request: Request) -> Response:
        given = request.query_params
        back = f"{given['redirect_uri']}?state={given['state']}&iss={self.url}&"
        return RedirectResponse(back + ("error=access_denied" if self.refuses else "code=right"))

    async def token(self, request: Request) -> Response:
        form = await request.form()
        self.grants.append(str(form["grant_type"]))
        if self.forgets and form["grant_type"] == "refresh_token":
            return JSONResponse({"error": "invalid_grant"}, 400)
        await asyncio.sleep(0.2)  # long enough for another one to ask too
        token = secrets.token_hex(8)
        self.valid = {token}  # and no other: who renews twice loses
        return JSONResponse(
            {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "refresh_token": secrets.token_hex(8)}
        )


@pytest.fixture
async def site() -> AsyncGenerator[Site]:
    bound = socket.create_server(("127.0.0.1", 0))
    site = Site(f"http://127.0.0.1:{bound.getsockname()[1]}")
    things = MCPServer("things", log_level="ERROR")

    def add(a: int, b: int) -> int:
        return a + b

    things.add_tool(add)
    inner = things.streamable_http_app()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if scope["type"] == "http" and given not in site.valid:
            where = f'Bearer resource_metadata="{site.url}/.well-known/oauth-protected-resource/mcp"'
            await Response(status_code=401, headers={"www-authenticate": where})(scope, receive, send)
        else:
            await inner(scope, receive, send)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    routes = [
        Route("/.well-known/oauth-protected-resource/mcp", site.protected),
        Route("/.well-known/oauth-authorization-server", site.metadata),
        Route("/register", site.register, methods=["POST"]),
        Route("/authorize", site.authorize),
        Route("/token", site.token, methods=["POST"]),
        Mount("/", guarded),
    ]
    async with app_at(bound, Starlette(routes=routes, lifespan=lifespan)):
        yield site


async def browse(site: Site, logins: Path) -> int:
    """Log in as a person would: open the address, be led back."""
    visits: list[asyncio.Task[str]] = []

    async def visit(url: str) -> str:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            return (await browser.get(url)).text

    tools = await log_in("things", site.server, logins, lambda url: visits.append(asyncio.create_task(visit(url))))
    assert "You are logged in" in await visits[0]
    return tools


async def test_login_enables_private_tools(site: Site, tmp_path: Path) -> None:
    logins = tmp_path / "state" / "mcp"
    async with open_servers({"things": site.server}, logins=logins) as tools:
        assert tools == ()
    assert "sagent mcp login things" in tools.notices[0]

    assert await browse(site, logins) == 1
    [kept] = logins.glob("*.json")
    assert kept.stat().st_mode & 0o077 == 0
    async with open_servers({"things": site.server}, logins=logins) as tools:
        result = await call(tools[0], a=2, b=3)
        assert "5" in result.results[0].text
    assert site.grants == ["authorization_code"]


async def test_expired_token_renewed_once(site: Site, tmp_path: Path) -> None:
    logins = tmp_path / "mcp"
    await browse(site, logins)
    file = LoginFile(logins, site.server.url)
    file.write(file.read().model_copy(update={"expires": time.time() - 1}))

    async def use() -> str:
        async with open_servers({"things": site.server}, logins=logins) as tools:
            assert not tools.notices
            return (await call(tools[0], a=2, b=3)).results[0].text

    assert all("5" in said for said in await asyncio.gather(*(use() for _ in range(4))))
    assert site.grants == ["authorization_code", "refresh_token"]


async def test_invalid_login_asks_again(site: Site, tmp_path: Path) -> None:
    logins = tmp_path / "mcp"
    await browse(site, logins)
    site.valid.clear()
    site.forgets = True
    async with open_servers({"things": site.server}, logins=logins) as tools:
        assert tools == ()
    assert "sagent mcp login things" in tools.notices[0]
    before = LoginFile(logins, site.server.url).path.read_bytes()
    site.refuses = True
    with pytest.raises(BaseException) as raised:  # noqa: PT011 -- a group, or the error itself
        await browse(site, logins)
    assert raised.group_contains(OAuthFlowError) or isinstance(raised.value, OAuthFlowError)
    after = LoginFile(logins, site.server.url).path.read_bytes()
    assert json.loads(after)["tokens"] == json.loads(before)["tokens"]


async def test_rejected_token_renewed_first(site: Site, tmp_path: Path) -> None:
    logins = tmp_path / "mcp"
    await browse(site, logins)
    async with open_servers({"things": site.server}, logins=logins) as tools:
        site.valid.clear()  # an hour is over, or somebody has revoked it
        assert "5" in (await call(tools[0], a=2, b=3)).results[0].text
    assert site.grants == ["authorization_code", "refresh_token"]


async def test_login_lost_mid_session_named(site: Site, tmp_path: Path) -> None:
    logins = tmp_path / "mcp"
    await browse(site, logins)
    async with open_servers({"things": site.server}, logins=logins) as tools:
        site.valid.clear()
        site.forgets = True
        said = (await call(tools[0], a=2, b=3)).results[0].text
    assert "login is missing" in said and "sagent mcp login things" in said


USER = """
import asyncio, os, sys
import mcp.client.auth, mcp.client.streamable_http
from pathlib import Path
from sagent.plugins.mcp import open_servers
from sagent.plugins.mcp.server import McpServer
from tests.plugins.mcp.calls import call

async def main():
    async with open_servers({"things": McpServer(url=sys.argv[1])}, logins=Path(sys.argv[2])) as tools:
        print("5" in (await call(tools[0], a=2, b=3)).results[0].text, [*tools.notices])

child = os.fork()  # all is imported once, for both
asyncio.run(main())
sys.stdout.flush()
if child:
    os.waitpid(child, 0)
"""


@later
async def test_two_processes_renew_once(site: Site, tmp_path: Path) -> None:
    logins = tmp_path / "mcp"
    await browse(site, logins)
    file = LoginFile(logins, site.server.url)
    file.write(file.read().model_copy(update={"expires": time.time() - 1}))
    argv = [sys.executable, "-c", USER, site.server.url, str(logins)]
    pipe = asyncio.subprocess.PIPE
    users = await asyncio.create_subprocess_exec(*argv, stdout=pipe)
    assert (await users.communicate())[0] == b"True []\n" * 2
    assert site.grants == ["authorization_code", "refresh_token"]


async def test_callback_with_wrong_state_ignored(site: Site, tmp_path: Path) -> None:
    visits: list[asyncio.Task[list[int]]] = []

    async def visit(url: str) -> list[int]:
        back = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            strangers = ("?error=access_denied", "?code=stolen&state=guessed", "?code=stolen", "?error=x&state=")
            codes = [(await browser.get(back + query)).status_code for query in strangers]
            return [*codes, (await browser.get(url)).status_code]

    def show(url: str) -> None:
        visits.append(asyncio.create_task(visit(url)))

    assert await log_in("things", site.server, tmp_path / "mcp", show) == 1
    assert await visits[0] == [404, 404, 404, 404, 200]


async def test_failed_login_keeps_newer_one(site: Site, tmp_path: Path) -> None:
    logins = tmp_path / "mcp"
    begun = asyncio.Event()
    left = asyncio.create_task(log_in("things", site.server, logins, lambda _: begun.set()))
    await begun.wait()
    await browse(site, logins)
    made = LoginFile(logins, site.server.url).read().tokens
    left.cancel()  # the person closes the first one
    await asyncio.wait([left])
    assert LoginFile(logins, site.server.url).read().tokens == made
    assert made is not None


async def test_idle_callback_connection_closed(site: Site, tmp_path: Path) -> None:
    silent: list[socket.socket] = []
    visits: list[asyncio.Task[httpx2.Response]] = []

    async def visit(url: str) -> httpx2.Response:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            return await browser.get(url)

    def show(url: str) -> None:
        back = urlsplit(dict(parse_qsl(urlsplit(url).query))["redirect_uri"])
        silent.append(socket.create_connection((back.hostname, back.port)))
        visits.append(asyncio.create_task(visit(url)))

    assert await log_in("things", site.server, tmp_path / "mcp", show) == 1
    assert (await visits[0]).status_code == 200
    with silent[0] as left, suppress(ConnectionError):
        left.settimeout(5)
        assert await asyncio.to_thread(left.recv, 1) == b""
