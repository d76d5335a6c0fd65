"""Requests on the wire, as no client of ours would send them, to every server that sagent has."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a_served import a2a_served
from served import served
from starlette.types import Message, Receive, Scope, Send

from sagent.bridges.mcp import login
from sagent.bridges.serve import door
from sagent.bridges.serve.door import Bounded
from sagent.sandbox.proxy import Proxy
from tests.lib.test_http1 import UNCLEAR

SERVERS = ["serve", "a2a"]


@pytest.fixture(params=SERVERS)
async def port(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[int]:
    (tmp_path / "work").mkdir()
    if request.param == "serve":
        async with served(tmp_path / "work") as client:
            yield int(client.url.rpartition(":")[2])
    else:
        async with a2a_served(tmp_path / "work") as [peer]:
            yield int(re.findall(r":(\d+)", peer.url)[0])


async def exchange(port: int, data: bytes) -> bytes:
    """What a server answers until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:  # it did not read all
        return b"reset"
    finally:
        writer.close()


@pytest.mark.parametrize("name", UNCLEAR)
async def test_unclear_request_is_refused(port: int, name: str) -> None:
    smuggled = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = await exchange(port, UNCLEAR[name].replace(b"Host: a", b"Host: 127.0.0.1") + smuggled)
    assert re.match(rb"HTTP/1\.1 (400|501) ", answer)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()


async def test_refusal_says_why(port: int) -> None:
    answer = await exchange(port, UNCLEAR["both"])
    assert b"both Content-Length and Transfer-Encoding" in answer


async def test_huge_head_is_refused(port: int) -> None:
    answer = await exchange(port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000)
    assert re.match(rb"HTTP/1\.1 4\d\d |reset", answer)


async def test_every_answer_has_a_policy(port: int) -> None:
    for path in (b"/", b"/none", b"/v1/sessions", b"/openapi.json", b"/assets/app.js"):
        answer = await exchange(port, b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % path)
        assert b"content-security-policy: default-src 'none'" in answer
        assert b"frame-ancestors 'none'" in answer


async def test_proxy_of_commands_refuses_them(tmp_path: Path) -> None:
    proxy = Proxy()
    port = await proxy.listen_on_loopback()
    try:
        for name in ("both", "folded coding", "bare LF within", "NUL"):
            data = UNCLEAR[name].replace(b" / ", b" http://example.org/ ")
            assert (await exchange(port, data)).startswith(b"HTTP/1.1 400 "), name
    finally:
        await proxy.aclose()


async def test_login_callback_refuses_them() -> None:
    arrival = login._Arrival()
    listener = await asyncio.start_server(arrival.receive, "127.0.0.1", 0)
    async with arrival.closing(listener):
        port = listener.sockets[0].getsockname()[1]
        for name in ("both", "folded coding", "bare LF within", "NUL"):
            answer = await exchange(port, UNCLEAR[name])
            assert answer.startswith(b"HTTP/1.1 400 "), name
            assert b"Content-Security-Policy: default-src 'none'" in answer
        assert (await exchange(port, b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")).startswith(b"HTTP/1.1 404 ")


# -- bodies


class App:
    """What an application was given."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        self.bodies.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def asked(pieces: list[bytes], *headers: tuple[bytes, bytes], hangs: bool = False) -> tuple[int, list[bytes]]:
    """The status that a bounded application answers with, and what the application was given."""
    app, sent, left = App(), list[int](), [*pieces]

    async def receive() -> Message:
        if not left and hangs:
            await asyncio.Event().wait()
        piece = left.pop(0) if left else b""
        return {"type": "http.request", "body": piece, "more_body": bool(left) or hangs}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}
    await Bounded(app)(scope, receive, send)
    return sent[0], app.bodies


async def test_bodies_are_bounded_before_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MAX_BODY_BYTES", 10)
    monkeypatch.setattr(door, "MAX_PAUSE_SECONDS", 0.05)
    assert await asked([b"12345", b"67890"]) == (200, [b"1234567890"])
    assert await asked([]) == (200, [b""])
    assert await asked([b"12345", b"678901"]) == (413, [])
    assert await asked([b"x"], (b"content-length", b"11")) == (413, [])
    assert await asked([b"x"], (b"content-length", b"9" * 4_000)) == (413, [])
    assert await asked([b"x"], (b"content-length", b"-1")) == (413, [])
    assert await asked([b"123"], hangs=True) == (408, [])
    monkeypatch.setattr(door, "MAX_DROPPED_BYTES", 30)
    assert await asked([b"x" * 10] * 1_000_000) == (413, [])
