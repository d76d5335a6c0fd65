"""The listener of a login at an MCP server, with requests that no client of ours would send."""

import asyncio

from sagent.plugins.mcp import login
from tests.lib.test_http1 import UNCLEAR
from tests.strict_http import exchange


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
