"""Requests on the wire, as no client of ours would send them, for the tests of every server that sagent has."""

import asyncio
import re

import pytest

from tests.lib.test_http1 import UNCLEAR


async def exchange(port: int, data: bytes) -> bytes:
    """What a server answers until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:  # it did not read all
        return b"reset"
    finally:
        writer.close()


class StrictHttp:
    """What a server does with them; `port` is where it listens."""

    @pytest.mark.parametrize("name", UNCLEAR)
    async def test_unclear_request_is_refused(self, port: int, name: str) -> None:
        smuggled = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        answer = await exchange(port, UNCLEAR[name].replace(b"Host: a", b"Host: 127.0.0.1") + smuggled)
        assert re.match(rb"HTTP/1\.1 (400|501) ", answer)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in answer.lower()

    async def test_refusal_says_why(self, port: int) -> None:
        answer = await exchange(port, UNCLEAR["both"])
        assert b"both Content-Length and Transfer-Encoding" in answer

    async def test_huge_head_is_refused(self, port: int) -> None:
        answer = await exchange(port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000)
        assert re.match(rb"HTTP/1\.1 4\d\d |reset", answer)

    async def test_every_answer_has_a_policy(self, port: int) -> None:
        for path in (b"/", b"/none", b"/v1/sessions", b"/openapi.json", b"/assets/app.js"):
            answer = await exchange(port, b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % path)
            assert b"content-security-policy: default-src 'none'" in answer
            assert b"frame-ancestors 'none'" in answer
