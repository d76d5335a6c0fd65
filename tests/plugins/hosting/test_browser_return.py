"""The return of a browser from a login: what counts as one, among requests of other pages and clients."""

import asyncio
import socket

import pytest

from sagent.plugins.hosting.browser_return import BrowserReturn, browser_return, refusal_in
from tests.strict_http import UNCLEAR, exchange


def port_of(back: BrowserReturn) -> int:
    return int(back.address.split(":")[2].split("/")[0])


async def get(back: BrowserReturn, target: str, method: str = "GET") -> bytes:
    return await exchange(port_of(back), f"{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())


async def test_unclear_requests_are_refused() -> None:
    async with browser_return("/callback") as back:
        for name in ("both", "folded coding", "bare LF within", "NUL"):
            answer = await exchange(port_of(back), UNCLEAR[name])
            assert answer.startswith(b"HTTP/1.1 400 "), name
            assert b"Content-Security-Policy: default-src 'none'" in answer
        assert (await get(back, "/x")).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "target",
    [
        "/callback?code=c",
        "/callback?code=c&state=",
        "/callback?code=c&state=wrong",
        "/callback?code=c&state=s1&state=s1%00",
        "/callback/?code=c&state=right",
        "/other?code=c&state=right",
        "/callback?state=right",
        "//callback?code=c&state=right",
    ],
)
async def test_foreign_returns_do_not_count(target: str) -> None:
    async with browser_return("/callback") as back:
        assert (await get(back, target)).startswith(b"HTTP/1.1 404 ")  # before a login has begun
        back.expect("https://a.example/authorize?state=right&client_id=x")
        assert (await get(back, target)).startswith(b"HTTP/1.1 404 ")
        assert (await get(back, "/callback?code=c&state=right", "POST")).startswith(b"HTTP/1.1 404 ")
        assert (await get(back, "/callback?code=mine&state=right")).startswith(b"HTTP/1.1 200 ")
        assert (await get(back, "/callback?code=later&state=right")).startswith(b"HTTP/1.1 200 ")
        assert (await back.wait())["code"] == "mine"


async def test_unguessable_path_needs_no_state() -> None:
    async with browser_return(host="localhost") as back, browser_return() as other:
        assert back.address.startswith("http://localhost:")
        path = "/" + back.address.split("/", 3)[3]
        assert path not in other.address
        assert (await get(back, "/callback?code=stolen")).startswith(b"HTTP/1.1 404 ")
        assert b"refused" in await get(back, f"{path}?error=access_denied&error_description=no%1b%5b2J+thanks")
        given = await back.wait()
        assert "thanks" in refusal_in(given) and "\x1b" not in refusal_in(given)


async def test_held_connections_end_with_it() -> None:
    async with browser_return() as back:
        loop = asyncio.get_running_loop()
        with socket.socket() as held:
            held.setblocking(False)
            await loop.sock_connect(held, ("127.0.0.1", port_of(back)))
            path = "/" + back.address.split("/", 3)[3]
            assert b"logged in" in await get(back, f"{path}?code=c")
            async with browser_return() as second:
                assert second.address != back.address
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port_of(back))


async def test_leaving_in_the_middle_frees_the_port() -> None:
    started = asyncio.Event()
    ports: list[int] = []

    async def wait() -> None:
        async with browser_return() as back:
            ports.append(port_of(back))
            started.set()
            await back.wait()

    task = asyncio.create_task(wait())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with browser_return(port=ports[0]) as again:
        assert port_of(again) == ports[0]
