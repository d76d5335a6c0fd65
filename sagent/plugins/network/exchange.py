"""A request through the proxy: its target, and the transfer in both directions. h11 parses HTTP."""

import asyncio
import base64
import os
import re
import socket
from collections.abc import Coroutine, Iterable
from http import HTTPStatus

import h11

from sagent.plugins.hosting.http1 import StrictConnection
from sagent.sandbox.hosts import Endpoint

MAX_HEAD_BYTES = 32 * 1024
IDLE_TIMEOUT_SECONDS = 600.0  # without a byte either way
CHUNK_BYTES = 65_536

# Headers that concern one connection only (RFC 9110, 7.6.1). `Transfer-Encoding` marks the end of a request's body.
_HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"}
_CLOSE = (b"connection", b"close")


class Refusal(Exception):
    """An error that the proxy itself answers. Status 403 means that the sandbox does not allow the request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        extra = {403: "X-Sagent-Sandbox: blocked\r\n", 407: 'Proxy-Authenticate: Basic realm="sagent"\r\n'}
        body = f"{sentence}\n".encode()
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n{extra.get(status, '')}\r\n"
        self.answer = head.encode() + body


class Side:
    """Either side of an exchange, the client or the origin server. Both share one idle timeout."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        role: type[h11.CLIENT | h11.SERVER],
        timeout: asyncio.Timeout,
    ) -> None:
        writer.transport.set_write_buffer_limits(0)  # what `drain` waited for is not lost by `abort`
        self.reader, self.writer, self.timeout = reader, writer, timeout
        kind = StrictConnection if role is h11.SERVER else h11.Connection
        self.http = kind(role, max_incomplete_event_size=4 * MAX_HEAD_BYTES)

    def restart_timeout(self) -> None:
        """Restart the idle timeout, unless it has expired."""
        if not self.timeout.expired():
            self.timeout.reschedule(asyncio.get_running_loop().time() + IDLE_TIMEOUT_SECONDS)

    async def read(self) -> bytes:
        data = await self.reader.read(CHUNK_BYTES)
        self.restart_timeout()
        return data

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def event(self) -> object:
        """Return the next event. Raises h11.RemoteProtocolError if the data is not HTTP, or ends too early."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.read())
        return event

    async def send(self, event: h11.Event) -> None:
        if data := self.http.send(event):
            await self.write(data)


async def read_head(client: Side) -> h11.Request:
    """Return the head of a request and nothing after it. Raises Refusal, or ConnectionError if none arrives."""
    try:
        client.http.receive_data(await client.reader.readuntil(b"\r\n\r\n"))
        event = client.http.next_event()
    except asyncio.LimitOverrunError:
        raise Refusal(431, f"The head of this request is longer than {MAX_HEAD_BYTES} bytes.") from None
    except asyncio.IncompleteReadError:
        raise ConnectionResetError from None
    except h11.RemoteProtocolError as error:
        raise Refusal(400, f"This is not HTTP/1.1: {error}.") from None
    if not isinstance(event, h11.Request):
        raise Refusal(400, "This is not a request.")
    return event


def proxy_user(request: h11.Request) -> str:
    """Return the user name in a request's proxy credentials; "" if there are none."""
    scheme, _, code = dict(request.headers).get(b"proxy-authorization", b"").partition(b" ")
    try:
        return base64.b64decode(code, validate=True).partition(b":")[0].decode() if scheme.lower() == b"basic" else ""
    except ValueError:
        return ""


def target(request: h11.Request) -> tuple[Endpoint, str]:
    """Return the requested endpoint and the path there. Raises Refusal."""
    text = request.target.decode("ascii")
    try:
        if request.method == b"CONNECT":
            return Endpoint.parse(text), ""
        if match := re.fullmatch(r"(?i:http)://([^/?#]*)([^#]*)", text):
            return Endpoint.parse(match[1], 80), match[2] if match[2].startswith("/") else f"/{match[2]}"
    except ValueError as error:
        raise Refusal(403, f"The sandbox refuses a request that can be read in two ways: {error}.") from None
    raise Refusal(400, "This is a proxy: ask it for http://HOST/PATH, or for CONNECT HOST:PORT.")


async def tunnel(client: Side, origin: Side) -> None:
    """Copy bytes in both directions until both sides have finished. Raises OSError."""
    await client.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await _run_both(_copy(origin, client), _copy(client, origin), wait=True)


async def forward(client: Side, origin: Side, request: h11.Request, endpoint: Endpoint, path: str) -> None:
    """Forward a request to the origin, and its answer to the client. Raises Refusal, OSError and h11.ProtocolError."""
    headers = [
        *_end_to_end(request.headers, b"host"),
        (b"host", str(endpoint).removesuffix(":80").encode()),
        _CLOSE,
    ]
    await origin.send(h11.Request(method=request.method, target=path, headers=headers))
    await _run_both(_forward_answer(origin, client), _forward_request(client, origin), wait=False)


def reason(error: OSError) -> str:
    """Return the system's reason why a connection or a look-up failed."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or "no answer in time"
    return os.strerror(error.errno)  # asyncio's own messages are longer


async def _run_both(main: Coroutine[None, None, None], other: Coroutine[None, None, None], *, wait: bool) -> None:
    """Run both until `main` is done, or with `wait` until both are. Raises the first error of either."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(other)
            await main
            if not wait:
                task.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _copy(source: Side, sink: Side) -> None:
    while data := await source.read():
        await sink.write(data)
    sink.writer.write_eof()


async def _forward_request(client: Side, origin: Side) -> None:
    try:
        await _forward_body(client, origin)
    except OSError:
        if client.writer.is_closing():
            raise
        # The origin has stopped reading, but it may still answer.


async def _forward_answer(origin: Side, client: Side) -> None:
    try:
        while isinstance(event := await origin.event(), h11.InformationalResponse):
            headers = _end_to_end(event.headers, b"transfer-encoding")
            await client.send(h11.InformationalResponse(status_code=event.status_code, headers=headers))
    except (OSError, h11.RemoteProtocolError) as error:
        raise Refusal(502, f"The server gave no answer: {error}.") from error
    if not isinstance(event, h11.Response):
        raise Refusal(502, "The server gave no answer.")
    headers = [*_end_to_end(event.headers, b"transfer-encoding"), _CLOSE]
    await client.send(h11.Response(status_code=event.status_code, reason=event.reason, headers=headers))
    await _forward_body(origin, client)


async def _forward_body(source: Side, sink: Side) -> None:
    while isinstance(event := await source.event(), h11.Data):
        await sink.send(h11.Data(data=event.data))
    await sink.send(h11.EndOfMessage())


def _end_to_end(headers: Iterable[tuple[bytes, bytes]], dropped: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers to pass on, without `dropped`. Content-Length is dropped from a chunked message."""
    headers = list(headers)
    options = [value.lower().split(b",") for name, value in headers if name == b"connection"]
    excluded = _HOP_BY_HOP | {dropped} | {name.strip() for option in options for name in option}
    excluded |= {b"content-length" for name, _ in headers if name == b"transfer-encoding"}
    return [(name, value) for name, value in headers if name not in excluded and not name.startswith(b"proxy-")]
