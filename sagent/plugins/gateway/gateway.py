"""The way to a page: look a name up once, judge every address that it has, and connect to a judged address with the
name's certificate. Redirects are followed here, and only to the same host."""

import asyncio
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial
from ipaddress import ip_address
from typing import TypeAlias

import h11

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.inflate import Inflater, encodings
from sagent.lib.tls import system_context
from sagent.plugins.gateway.address import WebAddress, follow
from sagent.sandbox.hosts import Address, Endpoint, Entry, reach
from sagent.version import __version__

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port -> addresses. Raises OSError if there are none."""
Entries: TypeAlias = Callable[[], Sequence[Entry]]
"""Entries that may be reached in addition to public addresses. The function is called only if an address is not
public."""
Dial: TypeAlias = Callable[[Address, int, ssl.SSLContext | None, str], Awaitable[Streams]]
"""A connection to an address and a port. With a context it uses TLS and checks the certificate of a name."""

MAX_REDIRECTS = 5
USER_AGENT = f"sagent/{__version__}"
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK_BYTES = 65_536
_MAX_HEAD_BYTES = 65_536  # bytes of status line and headers, at most


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a fetch: seconds in all, bytes of a body when inflated, seconds for a connection."""

    seconds: float = 30.0
    bytes: int = 10_000_000
    connect: float = 10.0


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A request. A `body` has its media type in `headers`."""

    address: WebAddress
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class WebResponse:
    """A response. Header names are in lower case. `moved` is the target of a redirect that was not followed. `cut`: the
    body is incomplete. `public`: the response came from a public address."""

    address: WebAddress
    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool = False
    moved: WebAddress | None = None
    public: bool = True

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Gateway:
    """Without `resolve` and `dial`, the system's own are used."""

    def __init__(
        self,
        resolve: Resolve | None = None,
        dial: Dial | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._resolve = resolve or self._look_up
        self._dial = dial or _dial
        self._make_tls = tls or system_context
        self._bounds = bounds or Bounds()
        self._tls: ssl.SSLContext | None = None
        self._resolver: ThreadPoolExecutor | None = None

    async def fetch(self, request: WebRequest, entries: Entries = tuple, seconds: float | None = None) -> WebResponse:
        """Send a request, and follow its redirects within the same host. `seconds` limits the whole fetch; the default
        is that of the bounds. Raises ToolError."""
        seconds = self._bounds.seconds if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(request, entries)
        except TimeoutError:
            raise ToolError(f"{request.address} did not answer in full within {seconds:g} s.") from None

    async def _follow(self, request: WebRequest, entries: Entries) -> WebResponse:
        addresses = await self.check(request.address.endpoint, entries)
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._exchange(request, addresses)
            if response.status not in _REDIRECTS or "location" not in response.headers:
                return response
            there = follow(request.address, response.headers["location"])
            if (request.address.scheme, there.scheme) == ("https", "http"):
                raise ToolError(f"{request.address} redirects to {there}, which is not encrypted. It was not followed.")
            if not _stays(request.address.endpoint, there.endpoint):
                return replace(response, moved=there)
            request = replace(request, address=there)
            if response.status not in (307, 308):
                headers = {name: value for name, value in request.headers.items() if name != "content-type"}
                request = WebRequest(there, headers=headers)
        raise ToolError(f"{request.address} redirects again and again: {MAX_REDIRECTS} redirects were followed.")

    async def check(self, endpoint: Endpoint, entries: Entries) -> Sequence[Address]:
        """Return all addresses of an endpoint, each of them judged.

        Raises ToolError if one of them is not public, unless an entry covers it.
        """
        if endpoint.must_be_named and not any(entry.covers(endpoint) for entry in entries()):
            what = "is not a public address" if endpoint.fixed else "has no web port"
            raise _refused(f"{endpoint} {what}", str(endpoint))
        if endpoint.fixed:
            return endpoint.fixed
        try:
            async with asyncio.timeout(self._bounds.connect):
                found = [ip_address(text) for text in await self._resolve(str(endpoint.host), endpoint.port)]
        except TimeoutError:
            raise ToolError(f"{endpoint.host} was not found within {self._bounds.connect:g} s.") from None
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{endpoint.host} was not found: {_reason(error)}.") from None
        if not found:
            raise ToolError(f"{endpoint.host} was not found: it has no address.")
        kinds = {reach(address) for address in found}
        if "forbidden" in kinds:
            raise ToolError(
                f"{endpoint.host} resolves to this machine or to a special address, so it was not fetched. Give the "
                "address itself if you want it."
            )
        if "private" in kinds and not any(entry.port and entry.covers(endpoint) for entry in entries()):
            raise _refused(f"{endpoint.host} resolves to a private address", str(endpoint))
        return found

    async def _exchange(self, request: WebRequest, addresses: Sequence[Address]) -> WebResponse:
        """Send a request and return the answer. Raises ToolError."""
        address = request.address
        (reader, writer), public = await self._connect(address, addresses)
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        try:
            writer.write(_encode(http, request))
            await writer.drain()
            while not isinstance(event := await _next(http, reader), h11.Response):
                pass
            sent = reversed(list(event.headers))  # the first of two headers with one name counts
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in sent}
            body, cut = await self._body(http, reader, headers.get("content-encoding", ""))
        except (OSError, h11.ProtocolError, zlib.error) as error:
            raise ToolError(f"{address} could not be read: {_reason(error)}.") from None
        finally:
            writer.transport.abort()
        return WebResponse(address, event.status_code, headers, body, cut, public=public)

    async def _connect(self, place: WebAddress, addresses: Sequence[Address]) -> tuple[Streams, bool]:
        """Return a connection to the first address that accepts one, and whether the address is public. Raises
        ToolError."""
        tls, said = None, ""
        if place.scheme == "https":
            tls = self._tls = self._tls or await asyncio.to_thread(self._make_tls)
        for address in addresses:
            try:
                async with asyncio.timeout(self._bounds.connect / len(addresses)):
                    streams = await self._dial(address, place.endpoint.port, tls, str(place.endpoint.host))
            except ssl.SSLCertVerificationError as error:
                raise ToolError(f"{place.host} has no valid certificate: {error.verify_message}.") from None
            except OSError as error:
                said = _reason(error)
                continue
            return streams, reach(address) == "public"
        raise ToolError(f"{place.host} could not be connected to: {said}.")

    async def _body(self, http: h11.Connection, reader: asyncio.StreamReader, encoding: str) -> tuple[bytes, bool]:
        """Return the decoded body, and whether it is cut."""
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", *encodings()):
            raise ToolError(f"The page is encoded as {encoding!r}, which was not requested.")
        inflater = Inflater(encoding) if encoding in encodings() else None
        found = bytearray()
        while isinstance(event := await _next(http, reader), h11.Data):
            for plain in inflater.feed(bytes(event.data)) if inflater else (event.data,):
                found += plain
                if len(found) > self._bounds.bytes:
                    return bytes(found[: self._bounds.bytes]), True
        if inflater:
            found += inflater.finish()[0]
        return bytes(found), False

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        import socket

        # slow names must not block the session's own threads
        self._resolver = self._resolver or ThreadPoolExecutor(4, "sagent-web-resolver")
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._resolver, ask)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _dial(address: Address, port: int, tls: ssl.SSLContext | None, name: str) -> Streams:
    host = name if tls else None
    reader, writer = await asyncio.open_connection(
        str(address), port, ssl=tls, server_hostname=host, limit=_CHUNK_BYTES
    )
    ends = [writer.get_extra_info(end) for end in ("sockname", "peername")]
    if reach(address) == "public" and ends[0][0] == ends[1][0]:
        writer.transport.abort()
        raise OSError("it leads to this machine")
    return reader, writer


def _stays(source: Endpoint, target: Endpoint) -> bool:
    """Return True if a redirect stays with the host that was judged: on its port, or between 80 and 443."""
    return source.host == target.host and (source.port == target.port or {source.port, target.port} == {80, 443})


def _encode(http: h11.Connection, request: WebRequest) -> bytes:
    """Return the bytes of a request. Raises h11.LocalProtocolError."""
    fields = {
        "host": request.address.host,
        "user-agent": USER_AGENT,
        "accept-encoding": "gzip, br" if "br" in encodings() else "gzip",
        "connection": "close",
        **request.headers,
    }
    if request.body or request.method == "POST":
        fields["content-length"] = str(len(request.body))
    event = h11.Request(method=request.method, target=request.address.target, headers=list(fields.items()))
    parts = [http.send(event), http.send(h11.Data(data=request.body)) if request.body else b""]
    return b"".join(part for part in (*parts, http.send(h11.EndOfMessage())) if part)


async def _next(http: h11.Connection, reader: asyncio.StreamReader) -> object:
    """Return the next event. Raises h11.RemoteProtocolError if the data is not HTTP, or ends too early."""
    while (event := http.next_event()) is h11.NEED_DATA:
        data = await reader.read(_CHUNK_BYTES)
        if not data and http.their_state is h11.SEND_RESPONSE:
            raise ConnectionError("the server closed the connection before it answered")
        http.receive_data(data)
    return event


def _reason(error: Exception) -> str:
    """A short reason for an error."""
    if isinstance(error, TimeoutError):
        return "no answer"
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    return text.rstrip(".") or type(error).__name__


def _refused(request: str, model: str) -> ToolError:
    return ToolError(
        f"{request}, which needs a rule that names it. It was not fetched. The person can allow it: "
        f"--allow 'Network({model})' or --allow-domains '{model}'."
    )
