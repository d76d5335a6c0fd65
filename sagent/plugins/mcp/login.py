"""Logins at MCP servers by OAuth: made once by a person in a browser, kept in a file for each server, renewed
automatically.

The SDK implements the protocol (metadata, registration, PKCE, step-up). This module has the file, and the lock under
which one process at a time renews a token.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, BaseModel

from sagent.lib.atomic import put
from sagent.lib.filelock import locked
from sagent.lib.regular import read_given
from sagent.plugins.hosting.browser_return import browser_return, refusal_in
from sagent.plugins.mcp.bodies import http_client
from sagent.plugins.mcp.host import client_info
from sagent.plugins.mcp.server import McpServer

_RENEWAL_TIMEOUT_SECONDS = 30.0  # seconds that another process may take to renew a token
_RENEWAL_LEAD_SECONDS = 30.0  # seconds before its expiry to renew a token

Redirect = Callable[[str], Awaitable[None]]
Callback = Callable[[], Awaitable[AuthorizationCodeResult]]


class StoredLogin(BaseModel):
    """The file of a server's login. `expires` is a time as in `time.time()`; `wanted` are scopes that the server has
    requested since the login."""

    url: str
    tokens: OAuthToken | None = None
    expires: float | None = None
    client: OAuthClientInformationFull | None = None
    wanted: str | None = None


class LoginStore:
    """A login that is being made, in memory."""

    def __init__(self, url: str) -> None:
        self.url, self.kept = url, StoredLogin(url=url)

    def read(self) -> StoredLogin:
        return self.kept

    def write(self, login: StoredLogin) -> None:
        self.kept = login

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
        """Yield the exclusive right to renew the tokens."""
        yield


class LoginFile(LoginStore):
    """The login at one server, in a file that only its owner can read."""

    def __init__(self, directory: Path, url: str) -> None:
        super().__init__(url)
        self.path = directory / f"{sha256(url.encode()).hexdigest()[:32]}.json"

    def read(self) -> StoredLogin:
        """Read the file; return an empty login if it is missing, damaged or another server's."""
        try:
            kept = StoredLogin.model_validate_json(read_given(self.path))
        except (OSError, ValueError):
            return StoredLogin(url=self.url)
        return kept if kept.url == self.url else StoredLogin(url=self.url)

    def write(self, login: StoredLogin) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        put(self.path, login.model_dump_json(exclude_none=True).encode())

    def forget(self) -> bool:
        """Remove the login; return True if there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Yield the right to renew the tokens, among the processes of this machine. Raises TimeoutError."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with locked(self.path.with_suffix(".lock"), _RENEWAL_TIMEOUT_SECONDS):
            yield


class Login(OAuthClientProvider):
    """A server's login in every request to it. Without `redirect` there is nobody to log in: if that is needed, it
    raises OAuthFlowError, and saves the missing scopes for the next login."""

    def __init__(
        self,
        name: str,
        server: McpServer,
        store: LoginStore,
        redirect: Redirect | None = None,
        callback: Callback | None = None,
        address: str = "http://127.0.0.1/callback",
        wanted: str | None = None,
    ) -> None:
        self._scope = union_scopes(server.oauth.get("scope"), wanted)
        metadata = OAuthClientMetadata(client_name="sagent", redirect_uris=[AnyUrl(address)], scope=self._scope)
        super().__init__(
            server.url,
            metadata,
            store,
            redirect or _nowhere,
            callback or _nobody,
            client_metadata_url=server.oauth.get("client_metadata_url"),
        )
        self._name, self._store, self._silent = name, store, redirect is None
        self.lacks = ""  # instruction for the person: the connection fails without a reason

    async def _initialize(self) -> None:
        await super()._initialize()
        expires = self._store.read().expires
        self.context.token_expiry_time = None if expires is None else expires - _RENEWAL_LEAD_SECONDS

    async def _perform_authorization(self) -> httpx2.Request:
        self.context.client_metadata.scope = union_scopes(self.context.client_metadata.scope, self._scope)
        return await super()._perform_authorization()

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        refused = ""  # a token that the server has rejected before its expiry
        while True:
            async with AsyncExitStack() as lock:
                await self._make_ready(lock, refused)
                flow = super()._auth_flow(request)
                try:
                    outgoing = await anext(flow)
                    while True:
                        if outgoing is request:
                            await lock.aclose()
                        response = yield outgoing
                        if outgoing is request and self._silent and _wants_login(response):
                            tokens = self.context.current_tokens
                            if tokens is None or refused or not self._may_renew(response):
                                raise await self._refusal(response)
                            refused = tokens.access_token
                            break
                        outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    return
                finally:
                    await flow.aclose()

    async def _make_ready(self, lock: AsyncExitStack, refused: str) -> None:
        """Load the stored tokens, and take the right to renew them if needed."""
        if not self._initialized:
            await self._initialize()
        if (refused or not self.context.is_token_valid()) and self.context.can_refresh_token():
            try:
                await lock.enter_async_context(self._store.locked())
            except (OSError, TimeoutError) as error:
                raise OAuthFlowError(f"the login cannot be renewed: {error}") from error
            await self._initialize()  # another process may just have done it
            if (tokens := self.context.current_tokens) is not None and tokens.access_token == refused:
                self.context.token_expiry_time = 1.0

    def _may_renew(self, response: httpx2.Response) -> bool:
        return response.status_code == 401 and self.context.can_refresh_token()

    async def _refusal(self, response: httpx2.Response) -> OAuthFlowError:
        """Return an error that tells the person to log in; the requested scopes are saved."""
        if response.status_code == 401:
            why = "its login is missing or no longer valid"
        else:
            with suppress(OSError, TimeoutError):
                async with self._store.locked():
                    kept = self._store.read()
                    granted = kept.tokens.scope if kept.tokens else None
                    wanted = union_scopes(granted, extract_scope_from_www_auth(response))
                    self._store.write(kept.model_copy(update={"wanted": wanted}))
            why = "it needs more rights than the login has"
        self.lacks = f"{why}. To log in: sagent mcp login {self._name}"
        return OAuthFlowError(self.lacks)


def _wants_login(response: httpx2.Response) -> bool:
    """Return True if a server rejects the login, or wants one with more rights."""
    lacking = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401 or lacking


async def _nowhere(url: str) -> None:
    raise OAuthFlowError("there is nobody to log in")  # a silent login ends before it is led anywhere


async def _nobody() -> AuthorizationCodeResult:
    raise OAuthFlowError("there is nobody to log in")  # the SDK requires a callback; it is refused before it is called


async def log_in(name: str, server: McpServer, directory: Path, show: Callable[[str], None]) -> int:
    """Log a person in at a server, by the address that is passed to `show`, and save the login.

    Return the number of tools that the server then lists. Raises OAuthFlowError, TimeoutError, and the connection's
    errors.
    """
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    file = LoginFile(directory, server.url)
    async with browser_return("/callback", port=int(server.oauth.get("callback_port", "0"))) as back:
        made = LoginStore(server.url)  # the file stays until the new one is complete, because other sessions use it
        if (client := server.oauth.get("client_id")) is not None:
            secret = server.oauth.get("client_secret")
            made.kept.client = OAuthClientInformationFull(
                client_id=client, client_secret=secret, redirect_uris=[AnyUrl(back.address)],
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
            )  # fmt: skip

        async def redirect(url: str) -> None:
            back.expect(url)
            show(url)

        async def callback() -> AuthorizationCodeResult:
            given = await back.wait()
            if why := refusal_in(given):
                raise OAuthFlowError(f"the login was refused: {why}")
            return AuthorizationCodeResult(code=given["code"], state=given["state"], iss=given.get("iss"))

        login = Login(name, server, made, redirect, callback, back.address, file.read().wanted)
        async with (
            http_client(server, login) as http,
            Client(streamable_http_client(server.url, http_client=http), client_info=client_info()) as session,
        ):
            tools = len((await session.list_tools()).tools)
    async with file.locked():
        file.write(made.kept)
    return tools
