"""The direct transport against servers that say exactly these bytes, and against TLS and proxies."""

import asyncio
import gzip
import ssl
import sys
import time
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sagent.errors import ModelError, UsageError
from sagent.lib.inflate import encodings
from sagent.providers import OpenAI
from sagent.providers.families.endpoint import GivenTransport
from sagent.providers.wire.faults import ExchangeFailed
from sagent.providers.wire.transport import DirectTransport, Transport, proxy_for
from tests.certificates import write_certificate
from tests.deleted import TRANSPORTS

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def fetch(transport: Transport, url: str, body: bytes = b"{}") -> tuple[int, bytes]:
    answer = await transport.post(f"{url}/v1/x?a=b", {"x-test": "1"}, [body[:3], body[3:]])
    try:
        return answer.status, b"".join([chunk async for chunk in answer.chunks])
    finally:
        await answer.aclose()


@pytest.fixture
async def transport() -> AsyncGenerator[DirectTransport]:
    direct = DirectTransport(connect=5)
    yield direct
    await direct.aclose()


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([OK], b"ok"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], b""),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"], b"ok"),
        (
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n",
                b"3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\nx: y\r\n\r\n",
            ],
            b"abcd",
        ),
        (
            [
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1",
                b"0\r\n0123456789",
                b"abcdef\r",
                b"\n0\r",
                b"\n\r\n",
            ],
            b"0123456789abcdef",
        ),
        ([b"HTTP/1.0 200 OK\r\n\r\nuntil the end", None], b"until the end"),
        ([b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok"], b"ok"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
    ],
)
async def test_every_framing(raw_server, transport, pieces, body) -> None:
    async with raw_server(pieces) as server:
        status, got = await fetch(transport, server.url)
        assert (got, status in (200, 204)) == (body, True)
        assert server.requests[0].startswith(b"POST /v1/x?a=b HTTP/1.1\r\n")
        assert b"x-test: 1" in server.requests[0]
        assert server.requests[0].endswith(b"\r\n\r\n{}")


@pytest.mark.parametrize("name", [b"gzip", b"deflate", b"br", b"gzip, identity"])
async def test_compressed_body_is_inflated(raw_server, transport, name) -> None:
    encode = {b"gzip": gzip.compress, b"deflate": zlib.compress}.get(name.partition(b",")[0])
    data = (encode or pytest.importorskip("brotli").compress)(b"hello " * 100)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n" % (name, len(data))
    async with raw_server([head, data[:10], data[10:]]) as server:
        assert await fetch(transport, server.url) == (200, b"hello " * 100)
        assert b"\r\naccept-encoding: identity\r\n" in server.requests[0]


async def test_missing_brotli_is_named(raw_server, transport, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    encodings.cache_clear()
    try:
        async with raw_server([b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nok"]) as server:
            with pytest.raises(ExchangeFailed, match=r"encoded as 'br'.*\[brotli\]") as caught:
                await fetch(transport, server.url)
        assert caught.value.final
    finally:
        encodings.cache_clear()


@pytest.mark.parametrize(("body", "kind"), [(b"\x1b", "cut"), (b"\xff\xff\xff", "protocol")])
async def test_broken_brotli_is_named(raw_server, transport, body, kind) -> None:
    pytest.importorskip("brotli")
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with raw_server([head, body]) as server:
        with pytest.raises(ExchangeFailed) as caught:
            await fetch(transport, server.url)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", None], "cut"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf", None], "cut"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", None], "cut"),
        ([b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00"], "cut"),
        ([b"HTTP/1.1 200 OK\r\ncontent-encoding: zstd\r\ncontent-length: 2\r\n\r\nok"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n"], "protocol"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n", None], "protocol"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n", None], "protocol"),
        ([None], "network"),
    ],
)
async def test_broken_answer_is_named(raw_server, transport, pieces, kind) -> None:
    async with raw_server(pieces) as server:
        with pytest.raises(ExchangeFailed) as caught:
            await fetch(transport, server.url)
        assert caught.value.kind == kind
        assert caught.value.reason


async def test_connection_reused_unless_broken(raw_server, transport) -> None:
    cut = [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", None]
    closing = [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"]
    async with raw_server([OK], [OK], cut, [OK], closing, [OK]) as server:
        for _ in range(2):
            assert await fetch(transport, server.url) == (200, b"ok")
        assert server.connections == 1
        with pytest.raises(ExchangeFailed):
            await fetch(transport, server.url)
        for expected in (2, 2, 3):
            assert await fetch(transport, server.url) == (200, b"ok")
            assert server.connections == expected


async def test_surplus_answer_is_not_read_as_next(raw_server, transport) -> None:
    """Two answers at once: the second would be read, and billed, as that of another request."""
    stale = OK.replace(b"ok", b"no")
    async with raw_server([OK], [OK + stale], [OK], [OK + b"junk"], [OK]) as server:
        for expected in (1, 1, 2, 2, 3):
            assert await fetch(transport, server.url) == (200, b"ok")
            assert server.connections == expected


@pytest.mark.parametrize("kept", [False, True])
async def test_body_is_sent_once_on_failure(raw_server, transport, kept) -> None:
    """The server has had it, and may bill it: another try is for whoever reserves money for it."""
    answers = ([OK], [None]) if kept else ([None],)
    async with raw_server(*answers, [OK]) as server:
        if kept:
            await fetch(transport, server.url)
        with pytest.raises(ExchangeFailed) as caught:
            await fetch(transport, server.url)
        assert (caught.value.kind, caught.value.sent) == ("network", True)
        assert len(server.requests) == len(answers)


async def test_closed_kept_connection_is_replaced(raw_server, transport) -> None:
    async with raw_server([OK, None], [OK]) as server:
        await fetch(transport, server.url)
        time.sleep(0.05)  # the end is at the socket, and the loop has not looked at it
        assert await fetch(transport, server.url) == (200, b"ok")
        assert (server.connections, len(server.requests)) == (2, 2)


async def test_connection_kept_as_server_says(raw_server, transport) -> None:
    def saying(keep_alive: bytes) -> list[bytes]:
        return [b"HTTP/1.1 200 OK\r\nkeep-alive: %s\r\ncontent-length: 2\r\n\r\nok" % keep_alive]

    async with raw_server(saying(b"timeout=1, max=9"), saying(b"max=9, timeout=60"), [OK]) as server:
        for connections in (1, 2, 2):  # one second, less one, is over
            await fetch(transport, server.url)
            assert server.connections == connections
    async with raw_server(saying(b"timeout=" + b"9" * 5_000), [OK]) as server:  # more digits than Python reads
        assert await fetch(transport, server.url) == (200, b"ok")


async def test_failed_connection_counts_as_unsent(transport, unused_tcp_port) -> None:
    with pytest.raises(ExchangeFailed) as caught:
        await fetch(transport, f"http://127.0.0.1:{unused_tcp_port}")
    assert not caught.value.sent
    with pytest.raises(ExchangeFailed) as caught:
        await transport.post(f"http://127.0.0.1:{unused_tcp_port}/ \n", {}, ())
    assert not caught.value.sent


async def test_left_answer_frees_its_connection(raw_server, transport) -> None:
    slow = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n", 60.0]
    async with raw_server(slow, [OK]) as server:
        answer = await transport.post(server.url, {}, ())
        assert await anext(aiter(answer.chunks)) == b"a"
        await answer.aclose()
        assert await fetch(transport, server.url) == (200, b"ok")
        assert server.connections == 2


async def test_large_body_may_be_answered_early(raw_server, transport) -> None:
    async with raw_server([OK]) as server:
        body = bytes(range(256)) * 20_000
        assert await fetch(transport, server.url, body) == (200, b"ok")
        assert server.requests[0].endswith(body)


async def test_refused_connection(transport, unused_tcp_port) -> None:
    with pytest.raises(ExchangeFailed, match=str(unused_tcp_port)) as caught:
        await fetch(transport, f"http://127.0.0.1:{unused_tcp_port}")
    assert caught.value.kind == "network"


async def test_silent_local_server_is_not_running(transport, unused_tcp_port) -> None:
    with pytest.raises(ExchangeFailed, match=r"refused\. Start the server there") as caught:
        await fetch(transport, f"http://localhost:{unused_tcp_port}")
    assert caught.value.final


async def test_answered_local_server_may_return(raw_server, transport) -> None:
    async with raw_server([OK]) as server:
        await fetch(transport, server.url)
    with pytest.raises(ExchangeFailed) as caught:
        await fetch(transport, server.url)
    assert caught.value.kind == "network"
    assert not caught.value.final


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://exa mple", "http://host:99999", "http://ü\u200d.x..y"])
async def test_invalid_url(transport, url) -> None:
    with pytest.raises(ExchangeFailed) as caught:
        await transport.post(url, {}, ())
    assert caught.value.kind == "network"


def test_transport_serves_successive_loops(listening) -> None:
    transport = DirectTransport()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.read()

    async def once() -> bytes:
        async with listening(answer) as address:
            got = await fetch(transport, f"http://{address}", b"")
            await transport.aclose()
            return got[1]

    assert asyncio.run(once()) == b"ok"
    assert asyncio.run(once()) == b"ok"


# ---------------------------------------------------------------------------------------------------------------------
# TLS and proxies


def certificate_for(folder: Path, host: str = "127.0.0.1", days: int = 1) -> Path:
    return write_certificate(folder / "server.pem", host, "localhost", days=days)


@pytest.fixture
def tls_server(listening):
    """An https server with a certificate."""

    @asynccontextmanager
    async def opened(certificate: Path, drops: Sequence[bytes] = ()) -> AsyncGenerator[str]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while head := await reader.readuntil(b"\r\n\r\n"):
                for piece in drops if b"/drops" in head else [OK]:
                    writer.write(piece)
                    await asyncio.sleep(0.001 if b"/drops" in head else 0)

        async with listening(answer, context) as address:
            yield f"https://{address}"

    return opened


async def test_small_pieces_read_together_in_tls(tmp_path, monkeypatch, tls_server) -> None:
    certificate = certificate_for(tmp_path)
    size = 300
    pieces = [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size, *[b"x"] * size]
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with tls_server(certificate, pieces) as url:
        transport = DirectTransport()
        for _ in range(2):
            started = asyncio.get_running_loop().time()
            answer = await transport.post(f"{url}/drops", {}, [])
            chunks = [chunk async for chunk in answer.chunks]
            seconds = asyncio.get_running_loop().time() - started
            await answer.aclose()
            assert b"".join(chunks) == b"x" * size
            assert len(chunks) <= 45 + seconds / 0.025  # after forty one by one, those of each 25 ms together
        assert await fetch(transport, url, b"") == (200, b"ok")
        await transport.aclose()


@pytest.mark.parametrize("way", TRANSPORTS)
async def test_untrusted_certificate_says_cure(tmp_path, tls_server, way: str) -> None:
    async with tls_server(certificate_for(tmp_path)) as url:
        provider = OpenAI.from_key("key-for-tests", base_url=f"{url}/v1", transport=way)  # pyright: ignore[reportArgumentType]
        with pytest.raises(ModelError, match="SSL_CERT_FILE") as caught:
            await provider.models()
        await provider.aclose()
    assert (caught.value.kind, caught.value.retryable) == ("network", False)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_unreadable_roots_are_named(tmp_path, monkeypatch, tls_server, name: str) -> None:
    monkeypatch.setenv(name, str(tmp_path / "missing"))
    async with tls_server(certificate_for(tmp_path)) as url:
        transport = DirectTransport()
        with pytest.raises(ExchangeFailed, match=f"{name} names .*missing") as caught:
            await fetch(transport, url, b"")
        await transport.aclose()
    assert caught.value.final


@pytest.fixture
def proxy(listening):
    """A proxy that leads on by CONNECT, and answers plain requests itself."""

    @asynccontextmanager
    async def opened(seen: list[str], status: int = 200) -> AsyncGenerator[str]:
        async def lead(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            seen.append(head)
            verb, target, _ = head.split(" ", 2)
            if verb != "CONNECT" or status != 200:
                writer.write(OK if verb != "CONNECT" else b"HTTP/1.1 %d No\r\ncontent-length: 0\r\n\r\n" % status)
                await reader.read()
                return
            host, _, port = target.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            try:
                await asyncio.gather(lead(reader, far_writer), lead(far_reader, writer))
            finally:
                far_writer.close()

        async with listening(connected) as address:
            yield address

    return opened


async def test_tls_trusts_only_named_authority(tmp_path, monkeypatch, tls_server) -> None:
    certificate = certificate_for(tmp_path)
    async with tls_server(certificate) as url:
        stranger = DirectTransport()
        with pytest.raises(ExchangeFailed, match="SSL_CERT_FILE") as caught:
            await fetch(stranger, url, b"")
        assert caught.value.kind == "network"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        transport = DirectTransport()
        assert await fetch(transport, url, b"") == (200, b"ok")
        assert await fetch(transport, url, b"") == (200, b"ok")
        await transport.aclose()
        await stranger.aclose()


async def test_proxy_connects_to_https(tmp_path, monkeypatch, tls_server, proxy) -> None:
    certificate = certificate_for(tmp_path)
    seen: list[str] = []
    async with tls_server(certificate) as url, proxy(seen) as address:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setenv("HTTPS_PROXY", f"http://us%40er:pa%3Ass@{address}")
        monkeypatch.setenv("NO_PROXY", "")
        transport = DirectTransport()
        assert await fetch(transport, url, b"") == (200, b"ok")
        assert seen[0].startswith(f"CONNECT {url.removeprefix('https://')} HTTP/1.1")
        assert "proxy-authorization: Basic dXNAZXI6cGE6c3M=" in seen[0]
        await transport.aclose()


async def test_proxy_passes_plain_requests_on(monkeypatch, raw_server, proxy) -> None:
    seen: list[str] = []
    async with proxy(seen) as address, raw_server([OK]) as server:
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        transport = DirectTransport()
        assert await fetch(transport, server.url) == (200, b"ok")
        assert seen[0].startswith(f"POST {server.url}/v1/x?a=b HTTP/1.1")
        assert not server.requests
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert await fetch(transport, server.url) == (200, b"ok")
        assert len(server.requests) == 1
        await transport.aclose()


@pytest.mark.parametrize("way", TRANSPORTS)
@pytest.mark.parametrize(("status", "again"), [(407, False), (403, False), (502, True)])
async def test_proxy_password_error_is_final(monkeypatch, proxy, way, status, again) -> None:
    async with proxy([], status) as address:
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("HTTPS_PROXY", address)
        provider = OpenAI.from_key("key-for-tests", base_url="https://example.invalid/v1", transport=way)
        with pytest.raises(ModelError, match=str(status)) as caught:
            await provider.models()
        await provider.aclose()
    assert (caught.value.kind, caught.value.retryable) == ("network", again)
    assert ("NO_PROXY" in str(caught.value)) is not again


async def test_refusing_and_unusable_proxy(monkeypatch, proxy) -> None:
    seen: list[str] = []
    async with proxy(seen, 407) as address:
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("HTTPS_PROXY", address)
        transport = DirectTransport()
        with pytest.raises(ExchangeFailed, match="407"):
            await fetch(transport, "https://example.invalid", b"")
        monkeypatch.setenv("HTTPS_PROXY", "socks5://user:secret@127.0.0.1:1")
        with pytest.raises(ExchangeFailed, match="socks5") as caught:
            await fetch(transport, "https://example.invalid", b"")
        assert "secret" not in caught.value.reason
        await transport.aclose()


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    "value",
    ["http://[::1", "http://proxy:70000", "proxy:port", "http:/proxy:8080", "htp://proxy:1", "http://us:p#s@h:1"],
)
@pytest.mark.parametrize("way", TRANSPORTS)
def test_non_proxy_variable_is_named(monkeypatch, name: str, value: str, way: GivenTransport) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=rf"^{name} is not a proxy address") as caught:
        OpenAI.from_key("key-for-tests", transport=way)
    assert value not in str(caught.value)
    monkeypatch.setenv("NO_PROXY", "api.openai.com")
    OpenAI.from_key("key-for-tests", transport=way)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("way", TRANSPORTS)
def test_socks_proxy_is_refused(monkeypatch, way: GivenTransport) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://us:secret@127.0.0.1:1")
    with pytest.raises(UsageError, match=r"ALL_PROXY names a socks5 proxy.*--transport sdk.*NO_PROXY") as caught:
        OpenAI.from_key("key-for-tests", transport=way)
    assert "secret" not in str(caught.value)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("url", ["http://example.invalid", "https://example.invalid"])
@pytest.mark.parametrize("how", ["dead", "dumb", "closing"])
async def test_broken_proxy_is_named(monkeypatch, raw_server, how: str, url: str) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    answers = {"dead": [OK], "dumb": [b"SSH-2.0-x\r\n\r\n", None], "closing": [None]}[how]
    async with raw_server(answers) as server:
        if how != "dead":
            monkeypatch.setenv("ALL_PROXY", server.url)
        transport = DirectTransport()
        with pytest.raises(ExchangeFailed, match=r"the proxy 127\.0\.0\.1:[0-9]+ that ALL_PROXY names") as caught:
            await fetch(transport, url, b"")
        await transport.aclose()
    assert caught.value.kind in ("network", "protocol")


@pytest.mark.plugin("clouds")
@pytest.mark.usefixtures("no_proxies")
async def test_sdk_names_the_dead_proxy_too(monkeypatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://us:secret@127.0.0.1:1")
    provider = OpenAI.from_key("key-for-tests", base_url="https://example.invalid/v1", transport="sdk")
    with pytest.raises(ModelError, match=r"the proxy 127\.0\.0\.1:1 that HTTPS_PROXY names") as caught:
        await provider.models()
    await provider.aclose()
    assert "secret" not in str(caught.value)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize(
    ("host", "excepted", "left_out"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8, 192.168.0.0/16", False),
        ("192.168.7.7:9000", "10.0.0.0/8 192.168.0.0/16", True),
        ("[fd00::5]", "fd00::/8", True),
        ("[fd00::5]", "fd00::5", True),
        ("[fd00::5]:81", "[fd00::5]:80", False),
        ("10.example.com", "10.0.0.0/8", False),
        ("api.example.com", "example.com", True),
        ("api.example.com", ".example.com", True),
        ("api.example.com", "*.example.com", True),
        ("anexample.com", "example.com", False),
        ("example.com.evil.org", "example.com", False),
        ("api.example.com", "example.com:443", True),
        ("api.example.com:81", "example.com:443", False),
        ("api.example.com", "*", True),
        ("api.example.com", "10.0.0.0/99,nonsense/x", False),
        ("API.Example.com", "EXAMPLE.com", True),
        ("api.example.com", "", False),
    ],
)
def test_no_proxy_exceptions(monkeypatch, host: str, excepted: str, left_out: bool) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.invalid:3128")
    monkeypatch.setenv("NO_PROXY", excepted)
    found = proxy_for(urlsplit(f"https://{host}/v1"))
    assert found == (("", "") if left_out else ("http://proxy.invalid:3128", "HTTPS_PROXY"))


@pytest.mark.parametrize(
    ("made", "trusted", "words"),
    [
        ({"host": "127.0.0.9"}, True, "It is for another name"),
        ({"days": -1}, True, "must renew it, unless the clock here is wrong"),
        ({}, False, "name its certificate in SSL_CERT_FILE"),
    ],
)
async def test_certificate_fault_says_what_to_do(tmp_path, monkeypatch, tls_server, made, trusted, words) -> None:
    certificate = certificate_for(tmp_path, **made)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with tls_server(certificate) as url:
        transport = DirectTransport()
        with pytest.raises(ExchangeFailed, match=words) as caught:
            await fetch(transport, url, b"")
        await transport.aclose()
    assert caught.value.final and ("SSL_CERT_FILE" in caught.value.reason) is not trusted


@pytest.mark.parametrize("bits", [zlib.MAX_WBITS, -zlib.MAX_WBITS])
@pytest.mark.parametrize("step", [1, 1000])
async def test_deflate_with_and_without_header(raw_server, bits: int, step: int) -> None:
    packer = zlib.compressobj(wbits=bits)
    body = packer.compress(b"hello " * 50) + packer.flush()
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with raw_server([head, *pieces]) as server:
        transport = DirectTransport()
        assert await fetch(transport, server.url) == (200, b"hello " * 50)
        await transport.aclose()


async def test_unrequested_encoding_is_refused(raw_server) -> None:
    async with raw_server([b"HTTP/1.1 200 OK\r\ncontent-encoding: zstd\r\ncontent-length: 3\r\n\r\nabc"]) as server:
        transport = DirectTransport()
        with pytest.raises(ExchangeFailed, match="'zstd', which was not requested") as caught:
            await fetch(transport, server.url)
        assert caught.value.final, "to ask again would not help"
        await transport.aclose()
