"""The proxy and the relay: who may reach what, and that bytes come through whole."""

import asyncio
import contextlib
import gc
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

import sagent
from sagent.plugins.network import exchange, proxy, relay
from sagent.plugins.network.proxy import Proxy
from tests.depth import later

BIG = bytes(range(256)) * 40_960  # 10 MB
RELAY = [sys.executable, "-I", "-S", str(relay.__file__)]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def no_names(host: str, port: int) -> Awaitable[Sequence[str]]:
    raise AssertionError(f"{host}:{port} was looked up")


def resolver(answers: dict[str, Sequence[str]]) -> "tuple[list[str], Callable[[str, int], Awaitable[Sequence[str]]]]":
    asked: list[str] = []

    async def resolve(host: str, _: int) -> Sequence[str]:
        asked.append(host)
        if host not in answers:
            raise socket.gaierror(-2, "No such name")
        return answers[host]

    return asked, resolve


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[int]:
    """An origin server; its port."""

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(closing, "127.0.0.1", limit=1 << 20)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answering(answer: bytes, heads: list[bytes]) -> Handler:
    """A server that reads a head and gives one answer."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()

    return handle


async def digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read to the end, while 10 MB are sent; then send a digest of what was read."""

    async def say() -> None:
        writer.write(BIG)
        await writer.drain()

    async def hear() -> None:
        while data := await reader.read(65_536):
            heard.update(data)

    heard = hashlib.sha256()
    await asyncio.gather(say(), hear())
    writer.write(heard.digest())
    await writer.drain()


@contextmanager
def relayed(path: Path) -> Iterator[int]:
    """The relay in a process of its own; its port."""
    with subprocess.Popen([*RELAY, str(path), "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
            assert process.poll() is None, "the relay has ended"
        finally:
            process.kill()


@asynccontextmanager
async def standing(
    directory: Path, resolve: "Callable[[str, int], Awaitable[Sequence[str]]]" = no_names
) -> AsyncIterator[tuple[Proxy, int]]:
    """A proxy behind a relay, and the relay's port."""
    async with Proxy(resolve) as out:
        with relayed(await out.listen(directory / "way-out")) as port:
            yield out, port


def credentials(token: str) -> bytes:
    import base64

    return b"Proxy-Authorization: Basic " + base64.b64encode(f"{token}:x".encode()) + b"\r\n"


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end; where that is a reset, nothing."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def ask(port: int, request: bytes, token: str = "", *, body: bytes = b"") -> bytes:
    """Send a request line or head without its end, and read what comes until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request + b"\r\n" + (credentials(token) if token else b"") + b"\r\n" + body)
    try:
        return await rest(reader)
    finally:
        writer.close()


async def connect(port: int, place: str, token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n".encode() + credentials(token) + b"\r\n")
    try:
        return reader, writer, await reader.readuntil(b"\r\n\r\n")
    except EOFError:
        writer.close()
        raise


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_proxied_request_is_unchanged(tmp_path: Path) -> None:
    heads: list[bytes] = []
    answer = b"HTTP/1.1 200 Fine\r\nX-Hop: 1\r\nConnection: x-hop\r\nX-Kept: 2\r\nContent-Length: 2\r\n\r\nok"
    async with serving(answering(answer, heads)) as origin, standing(tmp_path) as (out, port):
        token = out.admit([f"127.0.0.1:{origin}"])
        head = (
            f"GET HTTP://127.0.0.1:{origin}/a?b=http://c HTTP/1.1\r\nHost: other.example\r\nX-Own: 1\r\nX-Drop: 1\r\n"
        )
        head += "Connection: keep-alive, X-Drop\r\nProxy-Connection: keep-alive\r\nTE: trailers"
        got = await ask(port, head.encode(), token)
    first, *sent = heads[0].decode().lower().strip().split("\r\n")
    assert first == "get /a?b=http://c http/1.1"
    assert sorted(sent) == ["connection: close", f"host: 127.0.0.1:{origin}", "x-own: 1"]
    assert got.startswith(b"HTTP/1.1 200 Fine\r\n")
    assert got.endswith(b"\r\n\r\nok")
    assert b"x-hop" not in got.lower()
    assert b"x-kept: 2" in got.lower()
    assert b"connection: close" in got.lower()


@later
@pytest.mark.costly
@pytest.mark.parametrize("chunked", [True, False])
async def test_ten_megabytes_go_both_ways(tmp_path: Path, chunked: bool) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (b"transfer-encoding: chunked" in head.lower()) is chunked
        left = len(BIG)
        while left:
            size = int(await reader.readline(), 16) if chunked else min(left, 65_536)
            data = await reader.readexactly(size)
            assert not chunked or await reader.readline() == b"\r\n"
            writer.write(b"%x\r\n%b\r\n" % (size, data))
            await writer.drain()
            left -= size
        writer.write(b"0\r\n\r\n")

    async with serving(echo) as origin, standing(tmp_path) as (out, port):
        token = out.admit([f"localhost:{origin}"])
        code = (
            "import sys, urllib.request as r; b = sys.stdin.buffer.read(); f = lambda: iter([b[:777], b[777:]])\n"
            "q = r.Request(sys.argv[1], data=f() if sys.argv[2] == 'True' else b, headers={'X': '1'})\n"
            "sys.exit(r.urlopen(q).read() != b)"
        )
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, f"http://localhost:{origin}/", str(chunked)),
            env={**os.environ, **out.environment(token, port)},
            stdin=subprocess.PIPE,
        )
        await child.communicate(BIG)
        assert child.returncode == 0


async def test_tunnel_carries_both_ways_half_closed(tmp_path: Path) -> None:
    async with serving(digest) as origin, standing(tmp_path) as (out, port):
        reader, writer, head = await connect(port, f"localhost:{origin}", out.admit([f"localhost:{origin}"]))
        assert status(head) == 200

        async def say() -> None:
            writer.write(BIG)
            await writer.drain()
            writer.write_eof()

        saying = asyncio.create_task(say())
        heard = await reader.read()
        await saying
        writer.close()
    assert heard == BIG + hashlib.sha256(BIG).digest()


async def test_unlisted_host_is_refused_unresolved(tmp_path: Path) -> None:
    async with standing(tmp_path) as (out, port):
        token = out.admit(["example.org", "*.example.net:8443"])
        for place in ("evil.example:443", "example.org:22", "10.0.0.1:443", "[::1]:8080", "evil.example:80"):
            got = await ask(port, f"CONNECT {place} HTTP/1.1\r\nHost: x".encode(), token)
            assert status(got) == 403
            assert b"\r\nX-Sagent-Sandbox: blocked\r\n" in got
        assert got.endswith(b"does not let this command reach evil.example:80: it lacks network:evil.example.\n")
        assert status(await ask(port, b"GET http://metadata/ HTTP/1.0", token)) == 403
        needs = ("evil.example", "example.org:22", "10.0.0.1", "[::1]:8080", "metadata")
        assert out.refused(token) == needs
        assert out.refused(out.admit(needs)) == out.refused("unknown") == ()


async def test_pass_is_valid_until_dismissed(tmp_path: Path) -> None:
    heads: list[bytes] = []
    async with serving(answering(b"HTTP/1.0 200 OK\r\n\r\nfine", heads)) as origin, standing(tmp_path) as (out, port):
        request = f"GET http://127.0.0.1:{origin}/ HTTP/1.1\r\nHost: x".encode()
        token, other = out.admit([f"127.0.0.1:{origin}"]), out.admit([])
        assert [status(await ask(port, request, each)) for each in (token, other, "", "x")] == [200, 403, 407, 407]
        out.dismiss(token)
        out.dismiss(token)
        got = await ask(port, request, token)
    assert status(got) == 407
    assert b"Proxy-Authenticate: Basic" in got
    assert len(heads) == 1


async def test_dismissed_pass_loses_connections(tmp_path: Path) -> None:
    async with serving(digest) as origin, standing(tmp_path) as (out, port):
        token, other = out.admit([f"127.0.0.1:{origin}"]), out.admit([f"127.0.0.1:{origin}"])
        mine = await connect(port, f"127.0.0.1:{origin}", token)
        theirs = await connect(port, f"127.0.0.1:{origin}", other)
        out.dismiss(token)
        assert await rest(mine[0]) != BIG + hashlib.sha256().digest()
        theirs[1].write_eof()
        assert await theirs[0].read() == BIG + hashlib.sha256().digest()
        mine[1].close()
        theirs[1].close()


async def test_no_more_connections_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "MAX_CONNECTIONS", 2)
    async with serving(digest) as origin, standing(tmp_path) as (out, port):
        place = f"127.0.0.1:{origin}"
        token, other = out.admit([place]), out.admit([place])
        first, second, third = [await connect(port, place, token) for _ in range(3)]
        assert [status(each[2]) for each in (first, second, third)] == [200, 200, 503]
        free = await connect(port, place, other)
        assert status(free[2]) == 200
        first[1].write_eof()
        await first[0].read()
        first[1].close()
        again = third
        while status(again[2]) == 503:  # a connection counts until both of its ends are closed
            again[1].close()
            again = await connect(port, place, token)
        for each in (second, free, again):
            each[1].close()


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (b"GET / HTTP/1.1", 400),
        (b"GET https://example.org/ HTTP/1.1", 400),
        (b"GET ftp://example.org/ HTTP/1.1", 400),
        (b"GET http://example.org/#f HTTP/1.1", 400),
        (b"CONNECT example.org HTTP/1.1", 403),
        (b"CONNECT http://example.org:443 HTTP/1.1", 403),
        (b"GET http://user@example.org/ HTTP/1.1", 403),
        (b"GET http://example.org\\@evil.example/ HTTP/1.1", 403),
        (b"GET http:/// HTTP/1.1", 403),
        (b"GET http://2130706433/ HTTP/1.1", 403),
        (b"CONNECT 0x7f.1:443 HTTP/1.1", 403),
        (b"CONNECT localhost:99999 HTTP/1.1", 403),
        (b"nonsense", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nHost: b", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nContent-Length: x", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nX: " + b"x" * 40_000, 431),
    ],
)
async def test_odd_request_gets_plain_answer(tmp_path: Path, request_line: bytes, expected: int) -> None:
    async with standing(tmp_path) as (out, port):
        token = out.admit(["example.org", "*.example.org", "localhost:80", "127.0.0.1"])
        got = await ask(port, request_line + b"\r\nHost: a", token)
    assert status(got) == expected
    assert (b"X-Sagent-Sandbox: blocked" in got) is (expected == 403)


@pytest.mark.parametrize(
    ("addresses", "entry", "needs"),
    [
        (["127.0.0.1"], "a.example:80", ()),
        (["::1", "::ffff:127.0.0.1", "0.0.0.0"], "*.example:80", ()),
        (["169.254.169.254"], "a.example:80", ()),
        (["::ffff:169.254.169.254", "100.100.100.200", "fd00:ec2::254"], "a.example:80", ()),
        (["64:ff9b::a9fe:a9fe", "2002:7f00:1::"], "a.example:80", ()),
        (["10.0.0.1", "127.0.0.1"], "a.example", ("a.example:80",)),
        (["fd12::1"], "*.example", ("a.example:80",)),
        ([], "a.example:80", ()),
    ],
)
async def test_listed_name_with_forbidden_address(
    tmp_path: Path, addresses: Sequence[str], entry: str, needs: tuple[str, ...]
) -> None:
    asked, resolve = resolver({"a.example": addresses})
    async with standing(tmp_path, resolve) as (out, port):
        token = out.admit([entry])
        got = await ask(port, b"GET http://a.example/ HTTP/1.1\r\nHost: a", token)
        assert out.refused(token) == needs
    assert status(got) == 403
    assert asked == ["a.example"]


async def test_unknown_name_and_down_server_told(tmp_path: Path) -> None:
    _, resolve = resolver({})
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        free = silent.getsockname()[1]
        async with standing(tmp_path, resolve) as (out, port):
            token = out.admit(["a.example", f"127.0.0.1:{free}"])
            unknown = await ask(port, b"CONNECT a.example:443 HTTP/1.0", token)
            down = await ask(port, f"CONNECT 127.0.0.1:{free} HTTP/1.0".encode(), token)
            assert out.refused(token) == ()
    assert status(unknown) == status(down) == 502
    assert unknown.endswith(b"\r\n\r\na.example was not found: No such name.\n")
    assert down.endswith(b"connecting failed: Connection refused.\n")


@pytest.mark.parametrize("listed", [True, False])
async def test_early_answer_reaches_sender(tmp_path: Path, listed: bool) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too much\r\nContent-Length: 3\r\n\r\nno\n")
        writer.write_eof()
        # To close with something unread is a reset, which would overtake the answer.
        while await reader.read(65_536):
            pass

    async with serving(refuse) as origin, standing(tmp_path) as (out, port):
        token = out.admit([f"127.0.0.1:{origin}"] if listed else [])
        head = f"POST http://127.0.0.1:{origin}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 300000"
        got = await ask(port, head.encode(), token, body=BIG[:300_000])
    assert status(got) == (413 if listed else 403)


@pytest.mark.parametrize(
    ("request_line", "answer", "expected"),
    [
        ("HEAD {} HTTP/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"content-length: 9"),
        ("GET {} HTTP/1.1", b"HTTP/1.1 204 None\r\n\r\n", b" 204 None"),
        ("GET {} HTTP/1.1", b"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", b" 304 Same"),
        (
            "GET {} HTTP/1.0",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            b"\r\n\r\nab",
        ),
        ("GET {} HTTP/1.1", b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\nab", b"HTTP/1.1 103"),
        ("GET {} HTTP/1.1", b"nonsense\r\n\r\n", b"HTTP/1.1 502 Bad Gateway"),
        ("GET {} HTTP/1.1", b"", b"HTTP/1.1 502 Bad Gateway"),
        ("GET {} HTTP/1.1\r\nUpgrade: x\r\nConnection: upgrade", b"HTTP/1.1 101 Go\r\n\r\n", b"HTTP/1.1 502 "),
    ],
)
async def test_every_form_of_answer(tmp_path: Path, request_line: str, answer: bytes, expected: bytes) -> None:
    async with serving(answering(answer, [])) as origin, standing(tmp_path) as (out, port):
        head = request_line.format(f"http://127.0.0.1:{origin}") + "\r\nHost: a"
        got = await ask(port, head.encode(), out.admit([f"127.0.0.1:{origin}"]))
    assert expected in got


async def test_broken_answer_is_not_completed(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
    async with serving(answering(answer, [])) as origin, standing(tmp_path) as (out, port):
        head = f"GET http://127.0.0.1:{origin}/ HTTP/1.1\r\nHost: a".encode()
        got = await ask(port, head, out.admit([f"127.0.0.1:{origin}"]))
    assert got.endswith(b"\r\nab\r\n")


async def test_silent_connection_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    monkeypatch.setattr(exchange, "IDLE_TIMEOUT_SECONDS", 0.05)
    async with serving(silent) as origin, standing(tmp_path) as (out, port):
        reader, writer, head = await connect(port, f"127.0.0.1:{origin}", out.admit([f"127.0.0.1:{origin}"]))
        assert status(head) == 200
        assert await reader.read() == b""
        monkeypatch.setattr(proxy, "REQUEST_TIMEOUT_SECONDS", 0.05)
        late, other = await asyncio.open_connection("127.0.0.1", port)
        assert await late.read() == b""
        writer.close()
        other.close()


async def test_slow_head_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "REQUEST_TIMEOUT_SECONDS", 0.3)
    async with standing(tmp_path) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(1000):
            with contextlib.suppress(ConnectionError):
                writer.write(b"x")
                await writer.drain()
            if reader.at_eof() or reader.exception():
                break
            await asyncio.sleep(0.02)
        assert await rest(reader) == b""
        writer.close()


async def test_silent_connections_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "MAX_ALL_CONNECTIONS", 40)
    monkeypatch.setattr(proxy, "MAX_WAITING", 10)
    async with serving(digest) as origin, standing(tmp_path) as (out, port):
        place = f"127.0.0.1:{origin}"
        token = out.admit([place])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        try:
            for _, each in silent[::2]:
                each.write(b"GET")
            reader, writer, head = await connect(port, place, token)
            assert status(head) == 200
            writer.write_eof()
            assert len(await reader.read()) == len(BIG) + 32
            writer.close()
        finally:
            for _, each in silent:
                each.close()


async def test_ending_connections_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "MAX_ALL_CONNECTIONS", 40)
    monkeypatch.setattr(proxy, "MAX_WAITING", 10)
    async with Proxy(no_names) as out:
        path = await out.listen(tmp_path / "way-out")
        with contextlib.ExitStack() as silent:
            for _ in range(60):  # the proxy accepts all of them in one turn of its loop
                each = silent.enter_context(socket.socket(socket.AF_UNIX))
                each.connect(os.fspath(path))
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n" + credentials("none") + b"\r\n")
            assert status(await rest(reader)) == 407
            writer.close()


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nContent-Length: 0",
        b"Content-Length: 0\r\nContent-Length: 44",
        b"Content-Length: 0, 44",
        b"Content-Length: +0",
        b"Content-Length: 0x0",
        b"Content-Length : 0",
        b"Content-Length: 0\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 44",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: xchunked\r\nContent-Length: 0",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding:\x0bchunked",
        b"Transfer-Encoding : chunked",
        b" Transfer-Encoding: chunked",
        b"X: y\rTransfer-Encoding: chunked",
        b"X: y\nContent-Length: 44",
        b"Connection: content-length\r\nContent-Length: 0",
        b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked",
        b"Connection: host\r\nHost: evil.example",
        b"Host: evil.example",
        b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        b"Expect: 100-continue\r\nContent-Length: 0",
    ],
)
@pytest.mark.parametrize("body", [SMUGGLED, b"0\r\n\r\n" + SMUGGLED, b"0 ; x\r\n\r\n" + SMUGGLED])
async def test_no_request_is_read_in_two_ways(tmp_path: Path, head: bytes, body: bytes) -> None:
    """What the origin gets is one request, for the host that was judged, framed in one way."""
    got: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        got.append(await reader.read())

    async with serving(hear) as origin, standing(tmp_path) as (out, port):
        place = f"127.0.0.1:{origin}"
        line = f"POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\n".encode()
        answer = await ask(port, line + head, out.admit([place]), body=body)
    assert not answer or status(answer) in (200, 400, 501)
    if not got:
        return
    names = [each.partition(b":")[0].lower() for each in got[0].split(b"\r\n")[1:] if each]
    assert names.count(b"host") == 1
    assert f"\r\nHost: {place}\r\n".lower().encode() in got[0].lower()
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    assert b"upgrade" not in names
    assert all(name.strip() == name and name for name in names)
    length = next((int(each[15:]) for each in got[0].split(b"\r\n") if each.lower().startswith(b"content-length:")), 0)
    sent = b"".join(got[1:])
    if b"transfer-encoding" in names:
        assert sent in (b"", b"0\r\n\r\n")
    else:
        assert len(sent) <= length


async def test_closing_ends_everything(tmp_path: Path) -> None:
    out = Proxy(no_names)
    path = await out.listen(tmp_path / "way-out")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with relayed(path) as port:
        async with serving(digest) as origin:
            token = out.admit([f"127.0.0.1:{origin}"])
            tunnel = await connect(port, f"127.0.0.1:{origin}", token)
            early = await asyncio.open_connection("127.0.0.1", port)
            await out.aclose()
            assert await rest(tunnel[0]) != BIG + hashlib.sha256().digest()
            assert await rest(early[0]) == b""
            assert not path.exists()
            assert await ask(port, b"GET http://a/ HTTP/1.1", token) == b""
            assert len(asyncio.all_tasks()) <= 2  # this one, and the origin's
            tunnel[1].close()
            early[1].close()


@pytest.mark.parametrize("steps", range(5))
async def test_connection_made_in_closing_ends(tmp_path: Path, steps: int) -> None:
    gc.disable()  # which would end, some time, what nobody closes
    try:
        out = Proxy(no_names)
        path = await out.listen(tmp_path / "way-out")
        (reader, writer), (other, second) = [await asyncio.open_unix_connection(path) for _ in range(2)]
        for _ in range(steps):
            await asyncio.sleep(0)
        await out.aclose()
        async with asyncio.timeout(60):
            assert [await rest(reader), await rest(other)] == [b"", b""]
        writer.close()
        second.close()
    finally:
        gc.enable()


async def test_unreadable_entry_admits_nobody() -> None:
    async with Proxy() as out:
        with pytest.raises(ValueError, match=r"'0x7f\.1' is not a host"):
            out.admit(["example.org", "0x7f.1"])


async def test_proxy_listens_and_resolves_names() -> None:
    async with Proxy() as out:
        port = await out.listen_on_loopback()
        got = await ask(port, b"CONNECT name.invalid:443 HTTP/1.0", out.admit(["name.invalid"]))
    assert status(got) == 502
    assert b"name.invalid was not found: " in got


async def test_own_servers_are_reached_directly() -> None:
    async with Proxy() as out:
        known = out.environment(out.admit(["example.org"]), 3128)
        assert known["no_proxy"] == known["NO_PROXY"] == "127.0.0.1,localhost,::1"
        assert known["https_proxy"].startswith("http://")
        assert known["https_proxy"].endswith(":x@127.0.0.1:3128")
        listed = out.environment(out.admit(["localhost:5432", "[::1]:80"]), 3128)
        assert listed["NO_PROXY"] == "127.0.0.1"


async def test_relay_outlives_hang_ups_and_queues(tmp_path: Path) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_unix_server(greet, tmp_path / "s")
    with relayed(tmp_path / "s") as port:
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x" * 1000)
            writer.transport.abort()
        waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(relay.MAX_CONNECTIONS + 50)]
        for _, writer in waiting:
            writer.write(b"x")
        for reader, writer in waiting:
            assert await reader.read() == b"hello"
            writer.close()
        server.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()


@pytest.mark.needs("curl")
@pytest.mark.parametrize("options", [(), ("--proxytunnel",), ("--proxytunnel", "--proxy-anyauth")])
async def test_curl_gets_through(tmp_path: Path, options: Sequence[str]) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine"
    async with serving(answering(answer, [])) as origin, standing(tmp_path) as (out, port):
        known = out.environment(out.admit([f"localhost:{origin}"]), port)
        child = await asyncio.create_subprocess_exec(
            *("curl", "-sS", *options, f"http://localhost:{origin}/"),
            env={**os.environ, **known},
            stdout=subprocess.PIPE,
        )
        said, _ = await child.communicate()
    assert said == b"fine"


@pytest.mark.needs("bwrap")
async def test_namespace_has_only_this_way_out(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
    code = (
        "import os, subprocess, sys, urllib.error, urllib.request\n"
        "first = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "assert first.stdout.readline() == b'3128\\n'\n"
        "for way in (None, urllib.request.ProxyHandler({})):\n"
        "    try: print(urllib.request.build_opener(*[way] if way else []).open(sys.argv[1]).read())\n"
        "    except urllib.error.HTTPError as error: print(error.code, error.headers['X-Sagent-Sandbox'])\n"
        "    except urllib.error.URLError as error: print(type(error.reason).__name__)\n"
        "first.kill()\n"
    )
    async with serving(answering(answer, [])) as origin, Proxy(no_names) as out:
        path = await out.listen(tmp_path / "way-out")

        async def run(token: str) -> list[str]:
            box = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-net", "--die-with-parent", "--"]
            inner = [sys.executable, "-c", code, f"http://localhost:{origin}/", *RELAY, str(path), "3128"]
            child = await asyncio.create_subprocess_exec(
                *box, *inner, env={**os.environ, **out.environment(token, 3128)}, stdout=subprocess.PIPE
            )
            return (await child.communicate())[0].decode().splitlines()

        assert await run(out.admit([f"localhost:{origin}"])) == ["b'fine'", "ConnectionRefusedError"]
        token = out.admit(["localhost:1"])
        assert await run(token) == ["403 blocked", "ConnectionRefusedError"]
        assert out.refused(token) == (f"localhost:{origin}",)


ELSEWHERE = """
import asyncio, json, sys
from sagent.plugins.network.proxy import Proxy

async def main():
    said, asked = {}, []
    async def greet(reader, writer):
        if not (await reader.read(99)):
            return writer.close()
        place = writer.get_extra_info("sockname")[0].encode()
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(place) + place)
        writer.close()
    answers = {"good.example": ["127.0.0.1", "93.184.216.34", "169.254.169.254"], "intra.example": ["10.1.2.3"],
               "own.example": ["203.0.114.5"], "down.example": ["93.184.216.35", "93.184.216.34"]}
    async def resolve(host, port):
        asked.append(host)
        if host == "rebind.example":
            return ["93.184.216.34"] if asked.count(host) == 1 else ["127.0.0.1"]
        return answers[host]
    server = await asyncio.start_server(greet, ["127.0.0.1", "93.184.216.34", "10.1.2.3", "203.0.114.5"], 8080)
    async with Proxy(resolve) as out:
        port = await out.listen_on_loopback()
        token = out.admit(["*.example:8080", "203.0.114.5:8080"])
        from base64 import b64encode
        for host in [*answers, "rebind.example", "rebind.example", "203.0.114.5"]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET http://{host}:8080/ HTTP/1.1\\r\\nHost: x\\r\\nProxy-Authorization: Basic ".encode())
            writer.write(b64encode(f"{token}:x".encode()) + b"\\r\\n\\r\\n")
            head, _, body = (await reader.read()).decode().partition("\\r\\n\\r\\n")
            writer.close()
            said.setdefault(host, []).append(body if " 200 " in head else int(head.split()[1]))
    server.close()
    print(json.dumps([said, asked]))

asyncio.run(main())
"""


@pytest.mark.needs("netns")
@pytest.mark.needs("ip")
def test_connection_goes_to_judged_address() -> None:
    # In a network namespace addresses of the world are those of a server here.
    routes = "".join(f"ip route add local {each} dev lo src 127.0.0.1;" for each in ("93.184.216.0/24", "10.1.2.3"))
    lines = f'ip link set lo up; {routes} ip addr add 203.0.114.5/32 dev lo; exec "$@"'
    ran = subprocess.run(
        ["unshare", "-rn", "sh", "-c", lines, "sh", sys.executable, "-W", "error", "-c", ELSEWHERE],
        cwd=Path(sagent.__file__).parents[1],
        capture_output=True,
        check=False,
    )
    assert ran.stderr == b""
    said, asked = json.loads(ran.stdout)
    assert said == {
        "good.example": ["93.184.216.34"],
        "intra.example": ["10.1.2.3"],
        "own.example": [403],
        "down.example": ["93.184.216.34"],
        "rebind.example": ["93.184.216.34", 403],
        "203.0.114.5": ["203.0.114.5"],
    }
    assert asked == ["good.example", "intra.example", "own.example", "down.example", "rebind.example", "rebind.example"]
