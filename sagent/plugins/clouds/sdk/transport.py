"""The official SDKs as a transport: they find addresses, signatures and logins of the clouds, and we encode and read
the bytes.

Each SDK's raw request method sends the body as it is and returns the response unread. So one encoder and one reader of
events serve both transports.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from re import match
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sagent.plugins.clouds.sdk.client import ClientParameters, SdkClient
from sagent.providers.access import NO_KEY, Access
from sagent.providers.wire.faults import ExchangeFailed
from sagent.providers.wire.transport import Answer, not_running, refused_by_proxy, through, unreachable

if TYPE_CHECKING:
    import httpx2


class SdkTransport:
    """A Transport through an official SDK, which is imported in a thread at the first request.

    The SDK makes no second try of its own: the engine repeats requests and reserves money for each.
    """

    def __init__(self, family: str, via: str, access: Access, *, connect: float = 10.0) -> None:
        self._family = family
        # If the login is ours and has no key, the SDK must not look for one: it would find another provider's.
        given_key = access.key if access.given else ""
        key = (given_key or None) if access.delegated else (access.key or NO_KEY)
        self._reach = ClientParameters(via, access.base_url or None, key, own=not access.delegated, connect=connect)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: asyncio.Task[SdkClient] | None = None
        self._answered = False  # a server was seen to run

    async def post(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> Answer:
        return await self._send("POST", url, headers, b"".join(body))

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        return await self._send("GET", url, headers, None)

    async def aclose(self) -> None:
        opened, self._client = self._client, None
        if opened is None or self._loop is not asyncio.get_running_loop():
            return
        opened.cancel()
        if opened.done() and not opened.cancelled() and opened.exception() is None:
            await opened.result().aclose()

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        client = await self._opened()
        try:
            response = await client.send(method, url, {"accept-encoding": "identity", **headers}, body)
        except ImportError as error:  # some parts are imported only when a request is signed
            raise self._lacking(error) from error
        except Exception as error:
            place = url if "://" in url else self._reach.base_url or ""
            raise _disrupted(error, place, silent=not self._answered) from error
        self._answered = True
        received = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, received, _chunks(client, response), response.aclose)

    async def _opened(self) -> SdkClient:
        """Return the client of this event loop. It is opened once, even for simultaneous requests."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop or _failed(self._client):
            self._loop = loop
            self._client = loop.create_task(asyncio.to_thread(_open_client, self._family, self._reach))
        try:
            return await asyncio.shield(self._client)
        except ImportError as error:
            raise self._lacking(error) from error
        except Exception as error:
            raise ExchangeFailed("auth", f"the SDK cannot be used: {_words(error)}") from error

    def _lacking(self, error: ImportError) -> ExchangeFailed:
        from sagent.lib.installed import install_command

        cloud, needed = self._reach.via, f"{error.name} cannot be imported: install it"
        needed = install_command("bedrock", "boto3") if cloud == "bedrock" else needed
        return ExchangeFailed("auth", f"the SDK lacks a part that {cloud or self._family} needs: {needed}")


def _open_client(family: str, reach: ClientParameters) -> SdkClient:
    match family:
        case "anthropic":
            from sagent.plugins.clouds.sdk.anthropic import AnthropicClient as Client
        case "google":
            from sagent.plugins.clouds.sdk.google import GoogleClient as Client
        case _:
            from sagent.plugins.clouds.sdk.openai import OpenAIClient as Client
    return Client(reach)


def _failed(opened: "asyncio.Task[SdkClient]") -> bool:
    return opened.done() and (opened.cancelled() or opened.exception() is not None)


async def _chunks(client: SdkClient, response: "httpx2.Response") -> AsyncGenerator[bytes]:
    import httpx2

    if response.is_stream_consumed:  # the SDK has read the body of an error
        yield response.content
        return
    try:
        async for chunk in client.decode(response):
            yield chunk
    except httpx2.HTTPError as error:
        raise ExchangeFailed("cut", f"the connection broke in the middle of the answer: {_words(error)}") from error


def _disrupted(error: Exception, url: str, *, silent: bool) -> ExchangeFailed:
    """Return our error for an SDK's exception. Exceptions that are not about the connection are about the login.

    `silent`: `url` has never answered.
    """
    import httpx2

    lost = httpx2.ReadError, httpx2.WriteError, httpx2.CloseError, httpx2.RemoteProtocolError
    silence = httpx2.ReadTimeout, httpx2.WriteTimeout
    if isinstance(error, ExchangeFailed):
        return error
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    for cause in causes:
        if isinstance(cause, OSError) and cause.filename:  # a file, and no connection
            return ExchangeFailed("auth", f"the login cannot be read: {_words(cause)}")
        if isinstance(cause, httpx2.HTTPError | OSError):
            where = urlsplit(url).netloc.rpartition("@")[2]
            failed = unreachable(f"no answer from {where}{through(url)}" if where else "no answer", cause)
            if isinstance(cause, httpx2.ProxyError):
                status = match(r"(\d{3}) ", str(cause))
                return refused_by_proxy(failed.reason, int(status[1]) if status else 0)
            refused = isinstance(cause, httpx2.ConnectError) and not failed.final
            failed.sent = isinstance(cause, (*lost, *silence))
            return not_running(failed, url) if silent and refused else failed
    return ExchangeFailed("auth", f"the SDK could not make the request: {_words(error)}")


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
