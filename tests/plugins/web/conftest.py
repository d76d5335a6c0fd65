"""A site on loopback that answers with the bytes it is given, and an internet in which names lead where a test says."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from sagent.plugins.gateway.gateway import Bounds, Gateway
from sagent.plugins.web.access import WebAccess
from tests.certificates import write_certificate
from tests.listening import listen

PUBLIC = "93.184.216.34"
Answer = bytes | Sequence[bytes | float]  # what is written, and pauses in seconds


def http(
    body: bytes | str = b"", kind: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str
) -> bytes:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else body
    fields = {"content-type": kind, "content-length": str(len(data))} if kind else {"content-length": str(len(data))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data


class Site:
    """Answers by the target of a request; what it was asked is kept whole."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer | Callable[[bytes], Answer]] = {}
        self.asked: list[bytes] = []
        self.port = 0

    @property
    def targets(self) -> list[str]:
        return [request.split(b" ", 2)[1].decode() for request in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            head = await reader.readuntil(b"\r\n\r\n")
            sizes = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            request = head + await reader.readexactly(sizes[0] if sizes else 0)
            self.asked.append(request)
            target = head.split(b" ", 2)[1].decode()
            found = self.pages.get(
                target, self.pages.get(target.partition("?")[0], http("no such page", status="404 Not Found"))
            )
            found = found(request) if callable(found) else found
            pieces: Sequence[bytes | float] = [found] if isinstance(found, bytes) else found
            for piece in pieces:
                if isinstance(piece, bytes):
                    writer.write(piece)
                    await writer.drain()
                    continue
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), piece)
                    break  # who asked has gone


@contextlib.asynccontextmanager
async def opened(site: Site, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """The site, listening; in the end nothing of it is left."""
    async with listen(site.serve, tls) as address:
        site.port = int(address.rpartition(":")[2])
        yield site


class Internet:
    """What names lead to, call by call (the last list repeats), and what was dialled; all of it is on loopback."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {}
        self.ports: dict[int, int] = {}  # ports as they are dialled -> ports on loopback
        self.looked_up: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self.trusted: Path | None = None

    def gateway(self, bounds: Bounds | None = None) -> Gateway:
        return Gateway(self._resolve, self._dial, self._tls, bounds)

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        if host not in self.names:
            raise OSError(-2, "Name or service not known")
        lists = self.names[host]
        return lists.pop(0) if len(lists) > 1 else lists[0]

    async def _dial(self, address, port: int, tls: ssl.SSLContext | None, name: str):
        self.dialled.append((str(address), port))
        near = self.ports.get(port, port)
        return await asyncio.open_connection("127.0.0.1", near, ssl=tls, server_hostname=name if tls else None)

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.trusted)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with opened(Site()) as site:
        yield site


@pytest.fixture
async def secure_site(tmp_path, internet) -> AsyncIterator[Site]:
    """The same behind a certificate for example.org, at port 443 of the internet."""
    certificate = write_certificate(tmp_path / "server.pem", "example.org")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with opened(Site(), context) as site:
        internet.ports[443], internet.trusted = site.port, certificate
        yield site


@pytest.fixture
def internet(site: Site) -> Internet:
    """Port 80 of every address is the site; example.org is public."""
    internet = Internet()
    internet.ports[80] = site.port
    internet.names["example.org"] = [[PUBLIC]]
    return internet


@pytest.fixture
def access(internet: Internet, tmp_path: Path) -> WebAccess:
    return WebAccess(directory=tmp_path / "web", interval=0.0, gateway=internet.gateway())
