"""The way to a provider: bytes out, bytes back. The direct transport speaks HTTP/1.1 over asyncio's sockets."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from errno import ECONNREFUSED
from typing import TYPE_CHECKING, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from sagent.lib.dataclass import dataclass
from sagent.providers.access import loopback
from sagent.providers.wire.faults import ExchangeFailed
from sagent.providers.wire.http1 import Connection
from sagent.version import __version__

if TYPE_CHECKING:
    import ssl

_PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
# Lifetime of an unused connection by default: many local servers close it after 5 s (uvicorn, Node, cpp-httplib), load
# balancers after 60 s (AWS; nginx 75 s).
_IDLE_SECONDS = {"http": 4.0, "https": 55.0}
_MAX_IDLE_SECONDS = 300.0
_IDLE_CONNECTIONS = 256  # per server: as many as agents may work at a time
_PORTS = {"http": 80, "https": 443}
NOT_RUNNING = ". Start the server there, or name another address with --base-url"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response whose body is still arriving. Header names are lower case.

    `chunks` raises ExchangeFailed("cut") if the body ends early. `aclose` must be called; after reading the whole body
    the connection stays open for the next call.
    """

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    aclose: Callable[[], Awaitable[None]]


class Transport(Protocol):
    """Posts and gets. Every method raises ExchangeFailed, and nothing else, when it fails."""

    async def post(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> Answer:
        """Send a body, given in parts, once; return when the response's headers arrive. Errors after the first byte may
        have left are raised as `sent`."""
        ...

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        """Send a GET; return when the response's headers arrive."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


@dataclass(frozen=True, slots=True)
class _Route:
    """Route of a connection: to a server, directly or through a proxy."""

    scheme: str
    host: str
    port: int
    proxy: str = ""
    variable: str = ""  # that names the proxy

    @property
    def through(self) -> str:
        """The proxy, described without its password."""
        return f"the proxy {urlsplit(self.proxy).netloc.rpartition('@')[2]} that {self.variable} names"


class DirectTransport:
    """HTTP/1.1 with connections kept alive, through the proxy that the usual variables name, if any and if `proxied`.

    `connect` is the time to open a connection, in seconds. Certificates are checked against the system's roots, or
    SSL_CERT_FILE / SSL_CERT_DIR. It may be used from one event loop after another. A local server that has never
    answered is not running, so there is no second try; one that has answered may be restarting.
    """

    def __init__(self, *, connect: float = 10.0, proxied: bool = True) -> None:
        self._connect = connect
        self._proxied = proxied
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: dict[_Route, list[Connection]] = {}
        self._tls: ssl.SSLContext | None = None
        self._answered: set[tuple[str, int]] = set()  # servers of this machine that were seen to run

    async def post(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> Answer:
        return await self._send("POST", url, {**headers, "content-length": str(sum(map(len, body)))}, body)

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        return await self._send("GET", url, headers, ())

    async def aclose(self) -> None:
        idle, self._idle = self._idle, {}
        if self._loop is asyncio.get_running_loop():
            for connections in idle.values():
                for connection in connections:
                    connection.abort()
            await asyncio.sleep(0)  # the sockets are closed in the loop's next round

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> Answer:
        if (loop := asyncio.get_running_loop()) is not self._loop:  # connections of an ended loop are of no use
            self._loop, self._idle = loop, {}
        parts = urlsplit(url)
        way = _way(parts, *(proxy_for(parts) if self._proxied else ("", "")))
        target, fields = _request_head(parts, headers, way)
        connection, sent = await self._reuse(way) or await self._open(way), False
        try:
            connection.send(method, target, fields, body)
            sent = True
            status, found = await connection.head()
        except BaseException as error:
            connection.abort()
            if isinstance(error, ExchangeFailed):
                reason = f"{way.scheme}://{parts.netloc}{way.proxy and f' through {way.through}'}: {error.reason}"
                raise ExchangeFailed(error.kind, reason, final=error.final, sent=sent) from error
            raise
        if loopback(url):
            self._answered.add((way.host, way.port))
        kept, encoding = _kept(found, way.scheme), found.get("content-encoding", "")
        stream = connection.body(lambda: self._keep(connection, way, kept))
        chunks = inflated(stream, encoding) if _encodings(encoding) else stream

        async def close() -> None:
            await chunks.aclose()
            await stream.aclose()
            if not connection.kept_until:
                connection.abort()

        return Answer(status, found, chunks, close)

    def _keep(self, connection: Connection, route: _Route, seconds: float) -> None:
        """Keep a connection for the next call, for a number of seconds, or end it."""
        idle = self._idle.setdefault(route, [])
        if len(idle) < _IDLE_CONNECTIONS and connection.renew(seconds):
            idle.append(connection)
        else:
            connection.abort()

    async def _reuse(self, route: _Route) -> Connection | None:
        """Return the connection used last, if it still lives."""
        while idle := self._idle.get(route):
            connection, usable = idle.pop(), False
            try:
                if usable := await connection.is_usable():
                    return connection
            finally:
                if not usable:
                    connection.abort()
        return None

    async def _open(self, route: _Route) -> Connection:
        loop = asyncio.get_running_loop()
        tls = None
        if route.scheme == "https" or route.proxy.startswith("https:"):
            # Reading the roots takes tens of milliseconds, during which the connection is opened.
            tls = loop.run_in_executor(None, _tls_context) if self._tls is None else None
        near = urlsplit(route.proxy) if route.proxy else None
        host, port = (near.hostname or "", near.port or _PORTS[near.scheme]) if near else (route.host, route.port)
        goal = route.through if near else f"{host}:{port}"
        connection = Connection()
        try:
            async with asyncio.timeout(self._connect):
                # it is an address; and cancelling a race of several may leak a socket (python/cpython#128475)
                delay = None if ":" in host or host.replace(".", "").isdecimal() else 0.25
                await loop.create_connection(lambda: connection, host, port, happy_eyeballs_delay=delay)
                connection.tune()
                if tls is not None:
                    self._tls = await tls
                if near is not None:
                    await self._through(connection, near, route)
                    goal = f"{route.host}:{route.port} through {route.through}"
                if route.scheme == "https":
                    assert self._tls is not None
                    await connection.secure(self._tls, route.host)
        except BaseException as error:
            connection.abort()
            if isinstance(error, TimeoutError):
                raise ExchangeFailed("network", f"no connection to {goal} within {self._connect:g} s") from error
            if isinstance(error, OSError | UnicodeError):
                failed = unreachable(f"no connection to {goal}", error)
                silent = near is None and (host, port) not in self._answered
                raise not_running(failed, f"http://{_bracketed(host)}") if silent else failed from error
            raise
        return connection

    async def _through(self, connection: Connection, proxy: SplitResult, route: _Route) -> None:
        """Connect through a proxy: by TLS to itself if it wants that, by CONNECT if the server uses TLS."""
        if proxy.scheme == "https":
            assert self._tls is not None
            await connection.secure(self._tls, proxy.hostname or "")
        if route.scheme == "https":
            target = f"{_bracketed(route.host)}:{route.port}"
            connection.send("CONNECT", target, [("host", target), *_proxy_key(route.proxy)])
            try:
                status, _ = await connection.head()
            except ExchangeFailed as lost:
                raise ExchangeFailed("network", f"{route.through} did not connect to {target}: {lost.reason}") from lost
            if not 200 <= status < 300:
                raise refused_by_proxy(f"{route.through} answered {status} to CONNECT {target}", status, route.variable)
            connection.begin_tunnel()


def _kept(headers: Mapping[str, str], scheme: str) -> float:
    """Return the seconds to keep an unused connection: one less than the server says, if it does (RFC 2068 19.7.1)."""
    for item in headers.get("keep-alive", "").split(","):
        name, _, value = item.partition("=")
        if name.strip().lower() == "timeout" and value.strip().isdecimal():
            return min(float(value) - 1.0, _MAX_IDLE_SECONDS)
    return _IDLE_SECONDS[scheme]


def _way(url: SplitResult, proxy: str, variable: str) -> _Route:
    try:
        port = url.port or _PORTS[url.scheme]
    except (KeyError, ValueError) as error:
        raise ExchangeFailed(
            "network", f"cannot call {url.scheme}://{url.netloc}: it must begin with http:// or https://"
        ) from error
    return _Route(url.scheme, url.hostname or "", port, proxy, variable)


def _request_head(url: SplitResult, headers: Mapping[str, str], route: _Route) -> tuple[str, list[tuple[str, str]]]:
    """Return the target and the headers of a request."""
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host = url.netloc.rpartition("@")[2]
    fields = {"host": host, "user-agent": f"sagent/{__version__}", "accept-encoding": "identity", **headers}
    lines = list(fields.items())
    if route.proxy and route.scheme == "http":
        target = f"http://{host}{target}"
        lines += _proxy_key(route.proxy)
    return target, lines


def proxy_for(url: SplitResult, *, socks: bool = False) -> tuple[str, str]:
    """Return the proxy for this URL and the variable that names it; "" for none. Raises ExchangeFailed if it is bad."""
    if not any(name.upper() in _PROXY_VARIABLES for name in os.environ):
        return "", ""
    from sagent.providers.wire.proxies import proxy_named

    return proxy_named(url, socks=socks)


def through(url: str) -> str:
    """Return the proxy for a URL, as text after its host; "" for none."""
    parts = urlsplit(url)
    proxy = proxy_for(parts, socks=True)
    return f" through {_way(parts, *proxy).through}" if proxy[0] else ""


def _proxy_key(proxy: str) -> list[tuple[str, str]]:
    parts = urlsplit(proxy)
    if not parts.username:
        return []
    from binascii import b2a_base64

    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return [("proxy-authorization", f"Basic {b2a_base64(pair.encode(), newline=False).decode()}")]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _tls_context() -> "ssl.SSLContext":
    """Return a context with the system's trust; SSL_CERT_FILE and SSL_CERT_DIR come first."""
    from sagent.lib.tls import system_context

    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if (path := os.environ.get(name)) and not os.access(path, os.R_OK):
            raise ExchangeFailed("network", f"{name} names {path}, which cannot be read: fix or unset it", final=True)
    return system_context()


def unreachable(where: str, error: BaseException) -> ExchangeFailed:
    """Return the error of a failed connection; with an untrusted certificate, or without TLS, it is final."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and f"[Errno {ECONNREFUSED}]" in text:  # asyncio lists all addresses it has tried
        text = "the connection was refused"
    if "WRONG_VERSION_NUMBER" in text:
        return ExchangeFailed("network", f"{where}: {text}. The server there does not use TLS: use http://", final=True)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return ExchangeFailed("network", f"{where}: {text}. {_certificate_advice(text)}", final=True)
    return ExchangeFailed("network", f"{where}: {text}")


def _certificate_advice(text: str) -> str:
    """Return a remedy for a certificate error."""
    if "expired" in text or "not yet valid" in text:
        return f"Its operator must renew it, unless the clock here is wrong ({time.strftime('%Y-%m-%d')})."
    if "mismatch" in text or "not match" in text:
        return "It is for another name: is the base URL right, and the proxy, if there is one?"
    if own := os.environ.get("SSL_CERT_FILE"):
        return f"SSL_CERT_FILE names {own}: is the certificate of the authority that signed it there?"
    return "Where a proxy or a server signs with an authority of its own, name its certificate in SSL_CERT_FILE."


def refused_by_proxy(reason: str, status: int, variable: str = "HTTPS_PROXY") -> ExchangeFailed:
    """Turn a proxy's status into an error, final if the proxy will not connect, and not if it merely cannot now."""
    if status not in (401, 403, 407):
        return ExchangeFailed("network", reason)
    return ExchangeFailed("network", f"{reason}. Fix {variable}, or except the host with NO_PROXY", final=True)


def not_running(failed: ExchangeFailed, url: str) -> ExchangeFailed:
    """Say that a local server is not running if it never answered; return other failures unchanged."""
    return ExchangeFailed("network", f"{failed.reason}{NOT_RUNNING}", final=True) if loopback(url) else failed


def _encodings(named: str) -> str:
    """Return the encodings of a body, without identities; "" for none."""
    return ", ".join(each for name in named.lower().split(",") if (each := name.strip()) not in ("", "identity"))


async def inflated(chunks: AsyncIterable[bytes], encoding: str) -> AsyncGenerator[bytes]:
    """Decode a content encoding, in bounded pieces. We request none, but some proxies compress anyway."""
    encoding = _encodings(encoding)
    if not encoding:
        async for chunk in chunks:
            yield chunk
        return
    import zlib

    from sagent.lib.inflate import Inflater, encodings

    if encoding not in encodings():
        reason = f"the answer is encoded as {encoding!r}, which was not requested: a proxy may have done that"
        if encoding == "br":
            from sagent.lib.installed import install_command

            reason += f". The extra brotli reads it: {install_command('brotli', 'brotli')}"
        raise ExchangeFailed("protocol", reason, final=True)
    inflater = Inflater(encoding)
    try:
        async for chunk in chunks:
            for plain in inflater.feed(chunk):
                yield plain
        rest, whole = inflater.finish()
    except zlib.error as error:
        raise ExchangeFailed("protocol", f"the compressed answer is damaged: {error}") from error
    if rest:
        yield rest
    if not whole:
        raise ExchangeFailed("cut", "the compressed answer ended early")
