"""Requests on the wire, as no client of ours would send them, for the tests of every server that sagent has."""

import asyncio
import re

import pytest

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
UNCLEAR = {
    "both": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
    "both the other way": b"PUT / HTTP/1.1\r\nHost: a\r\ntransfer-encoding:chunked\r\nCONTENT-LENGTH:4\r\n\r\n",
    "folded coding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
    "folded header": GET + b"X: a\r\n\tb\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare LF within": GET + b"X: a\nContent-Length: 4\r\n\r\n",
    "bare LF at the end": GET + b"\n",
    "bare CR": GET + b"X: a\rContent-Length: 4\r\n\r\n",
    "NUL": GET + b"X: a\0b\r\n\r\n",
    "escape": GET + b"X: a\x1b[31mb\r\n\r\n",
    "delete": GET + b"X: a\x7f\r\n\r\n",
    "bell in a name": GET + b"X\x07: a\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "three parts": b"GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
    "very many headers": GET + b"X: a\r\n" * 300 + b"\r\n",
    "coding in HTTP/1.0": b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "lengths that differ": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
    "a list of lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\n",
    "a signed length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\n",
    "a space before the colon": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\n",
    "another coding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "two codings": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
}
"""Heads of requests that two programs may read differently."""


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
