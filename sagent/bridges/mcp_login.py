"""Logins at MCP servers by OAuth: made once by a person in a browser, kept in a file for each server, renewed unseen.

The SDK speaks the protocol (metadata, registration, PKCE, step-up). Here are the file, the lock that has one process at
a time renew a token, and the address on loopback to which the browser returns.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, BaseModel

from sagent.config import McpServer
from sagent.lib.atomic import atomic_write

PATIENCE = 300.0  # seconds for a person to log in
_RENEWING = 30.0  # seconds that another process may take to renew a token
_EARLY = 30.0  # seconds before its end in which a token is renewed

Redirect = Callable[[str], Awaitable[None]]
Callback = Callable[[], Awaitable[AuthorizationCodeResult]]


class Kept(BaseModel):
    """What the file of a server holds. `expires` is a time as `time.time()` gives it."""

    url: str
    tokens: OAuthToken | None = None
    expires: float | None = None
    client: OAuthClientInformationFull | None = None


class LoginFile:
    """The login at one server, in a file that only its owner can read."""

    def __init__(self, directory: Path, url: str) -> None:
        self.url = url
        self.path = directory / f"{sha256(url.encode()).hexdigest()[:32]}.json"

    def read(self) -> Kept:
        """What is kept; nothing where the file is missing, damaged or another server's."""
        try:
            kept = Kept.model_validate_json(self.path.read_bytes())
        except (OSError, ValueError):
            return Kept(url=self.url)
        return kept if kept.url == self.url else Kept(url=self.url)

    def write(self, kept: Kept) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_write(self.path) as file:
            file.write(kept.model_dump_json(exclude_none=True).encode())

    def forget(self) -> bool:
        """Remove the login; whether there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    async def get_tokens(self) -> OAuthToken | None:
        return self.read().tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self.write(self.read().model_copy(update={"tokens": tokens, "expires": expires}))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.read().client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.write(self.read().model_copy(update={"client": client_info}))

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """The right to renew the tokens, among the processes of this machine. Raises TimeoutError."""
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            async with asyncio.timeout(_RENEWING):
                while True:
                    with suppress(BlockingIOError):
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    await asyncio.sleep(0.05)
            yield
        finally:
            os.close(handle)


class Login(OAuthClientProvider):
    """A server's login in every request to it. Without `redirect`, one that is needed anew is an OAuthFlowError."""

    def __init__(
        self,
        name: str,
        server: McpServer,
        file: LoginFile,
        redirect: Redirect | None = None,
        callback: Callback | None = None,
        address: str = "http://127.0.0.1/callback",
    ) -> None:
        metadata = OAuthClientMetadata(
            client_name="sagent", redirect_uris=[AnyUrl(address)], scope=server.oauth.get("scope")
        )
        super().__init__(
            server.url,
            metadata,
            file,
            redirect or _refusing(name),
            callback or _nobody,
            client_metadata_url=server.oauth.get("client_metadata_url"),
        )
        self._file = file

    async def _initialize(self) -> None:
        await super()._initialize()
        expires = self._file.read().expires
        self.context.token_expiry_time = None if expires is None else expires - _EARLY

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with AsyncExitStack() as lock:
            if not self._initialized:
                await self._initialize()
            if not self.context.is_token_valid() and self.context.can_refresh_token():
                try:
                    await lock.enter_async_context(self._file.locked())
                except (OSError, TimeoutError) as error:
                    raise OAuthFlowError(f"the login cannot be renewed: {error}") from error
                await self._initialize()  # another process may just have done it
            flow = super()._auth_flow(request)
            try:
                outgoing = await anext(flow)
                while True:
                    if outgoing is request:
                        await lock.aclose()
                    response = yield outgoing
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()


def _refusing(name: str) -> Redirect:
    async def refuse(url: str) -> None:
        raise OAuthFlowError(f"its login is missing or no longer valid. To log in: sagent mcp login {name}")

    return refuse


async def _nobody() -> AuthorizationCodeResult:
    raise OAuthFlowError("there is nobody to log in")  # the SDK wants a callback, and is refused before it calls it


async def log_in(name: str, server: McpServer, directory: Path, show: Callable[[str], None]) -> int:
    """Have a person log in at a server, by the address that is passed to `show`, and keep the login.

    Returns how many tools the server then lists. Raises OAuthFlowError, TimeoutError, and what the connection raises.
    """
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    file = LoginFile(directory, server.url)
    before = file.read()
    arrived: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
    port = int(server.oauth.get("callback_port", "0"))
    listener = await asyncio.start_server(lambda r, w: _receive(r, w, arrived), "127.0.0.1", port)
    address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/callback"

    async def redirect(url: str) -> None:
        show(url)

    async def callback() -> AuthorizationCodeResult:
        async with asyncio.timeout(PATIENCE):
            return await arrived

    fresh = Kept(url=server.url)
    if (client := server.oauth.get("client_id")) is not None:
        secret = server.oauth.get("client_secret")
        fresh.client = OAuthClientInformationFull(
            client_id=client, client_secret=secret, redirect_uris=[AnyUrl(address)],
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )  # fmt: skip
    file.write(fresh)
    try:
        async with listener:
            login = Login(name, server, file, redirect, callback, address)
            async with (
                httpx2.AsyncClient(auth=login, headers=dict(server.headers), timeout=server.timeout) as http,
                Client(streamable_http_client(server.url, http_client=http)) as session,
            ):
                return len((await session.list_tools()).tools)
    except BaseException:
        if before.tokens is not None:
            file.write(before)
        else:
            file.forget()
        raise


async def _receive(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, arrived: "asyncio.Future[AuthorizationCodeResult]"
) -> None:
    """Answer a browser that returns from the login."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        words = head.split(b" ", 2)
        target = urlsplit(words[1].decode("latin-1")) if len(words) == 3 else urlsplit("")
        given = {key: values[0] for key, values in parse_qs(target.query).items()}
        if target.path != "/callback" or not ({"code", "error"} & given.keys()):
            said, status = "This address is for the return from a login.", "404 Not Found"
        elif "error" in given:
            said, status = "The login was refused. You can close this page.", "200 OK"
            if not arrived.done():
                words_of = given.get("error_description", given["error"])
                arrived.set_exception(OAuthFlowError(f"the login was refused: {words_of}"))
        else:
            said, status = "You are logged in. You can close this page and return to sagent.", "200 OK"
            if not arrived.done():
                arrived.set_result(
                    AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))
                )
        body = f"<!doctype html><meta charset=utf-8><title>sagent</title><p>{said}".encode()
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
            "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()
    except (OSError, ValueError, EOFError, TimeoutError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
