"""Requests that other pages, other ports and other programs make to the servers `sagent serve` and `sagent a2a serve`:
none may do anything, or learn anything.

Each attempt starts a server of its own and sends it requests of one kind, byte by byte as they are written here.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sagent.testing.server import FakeProviderServer, Turn
from tests.attack.plans import Attempt
from tests.forks import Forks
from tests.strict_http import UNCLEAR

TOKEN = "token-of-the-person-0123456789"
_EVIL = (
    "<script>fetch('/v1/sessions')</script><img src=x onerror=alert(1)><iframe srcdoc='<script>1</script>'></iframe>"
)
_PATIENCE = 40.0  # seconds for an answer
_MAX_GROWTH = 300 << 20  # bytes that a server may take more after bodies that it refuses
_ROUTES = {
    "serve": (
        ("GET", "/v1/sessions"), ("POST", "/v1/sessions"), ("GET", "/v1/sessions/x"), ("DELETE", "/v1/sessions/x"),
        ("GET", "/v1/sessions/x/events"), ("POST", "/v1/sessions/x/messages"), ("POST", "/v1/sessions/x/interrupt"),
        ("POST", "/v1/sessions/x/actions"), ("POST", "/v1/sessions/x/rewind"), ("GET", "/v1/sessions/x/transcript"),
        ("GET", "/v1/sessions/x/cost"), ("GET", "/v1/sessions/x/diff?path=a.txt"),
        ("POST", "/v1/sessions/x/questions/y"), ("GET", "/v1/sessions/x/transcript?format=html"),
    ),
    "a2a": (
        ("POST", "/jsonrpc"), ("POST", "/rest/message:send"), ("POST", "/rest/v1/message:send"), ("GET", "/rest/tasks"),
        ("POST", "/rest/message:stream"), ("GET", "/rest/tasks/x"), ("POST", "/rest/tasks/x:cancel"),
        ("GET", "/rest/extendedAgentCard"), ("POST", "/"), ("GET", "/rest/v1/card"),
    ),
}  # fmt: skip
_WORK = {
    "serve": json.dumps({"text": "go"}),
    "a2a": json.dumps({
        "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}},
    }),
}  # fmt: skip
_BEGIN = {"serve": ("POST", "/v1/sessions"), "a2a": ("POST", "/jsonrpc")}


@dataclass
class Door:
    """A server that listens, and the provider of its model."""

    kind: str
    port: int
    process: "subprocess.Popen[bytes]"
    provider: FakeProviderServer

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def send(self, *pieces: bytes, patience: float = _PATIENCE) -> bytes:
        """Send bytes on a connection, and return what comes back until it ends, or until there is a whole answer."""
        got = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=patience) as link:
            with suppress(BrokenPipeError, ConnectionResetError):  # it did not want all of it
                for piece in pieces:
                    link.sendall(piece)
            with suppress(TimeoutError, ConnectionResetError):
                while data := link.recv(65536):
                    got += data
        return got

    def ask(
        self, method: str, path: str, *headers: str, body: str = "", login: str = TOKEN, host: str | None = None
    ) -> bytes:
        """Send one request, with the token if none other is given."""
        lines = [
            f"{method} {path} HTTP/1.1",
            *([f"Host: {self.host if host is None else host}"] if host != "-" else []),
        ]
        lines += [f"Authorization: Bearer {login}"] if login else []
        lines += [
            "Connection: close",
            f"Content-Length: {len(body.encode())}",
            "Content-Type: application/json",
            *headers,
        ]
        return self.send("\r\n".join([*lines, "", body]).encode("latin-1", "replace"))

    def begin(self, *headers: str, login: str = TOKEN, host: str | None = None) -> bytes:
        """Ask for work."""
        return self.ask(*_BEGIN[self.kind], *headers, body=_WORK[self.kind], login=login, host=host)

    @property
    def memory(self) -> int:
        """The bytes that the server has in memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


def status(answer: bytes) -> int:
    """Return the status of an answer; 0 for none."""
    found = re.match(rb"HTTP/1\.1 (\d{3})", answer)
    return int(found[1]) if found else 0


def _is_open(answer: bytes) -> bool:
    found = map(int, re.findall(rb"HTTP/1\.1 (\d{3}) ", answer))
    return any(each < 400 or each == 500 for each in found)


Kind: TypeAlias = Callable[[Door], Iterator[str]]  # yields what had an effect


@contextmanager
def opened(kind: str, base: Path) -> Generator[Door]:
    """Start a server; in the end it must still answer."""
    home, tree = base / "home", base / "tree"
    for directory in (home, tree):
        directory.mkdir()
    (tree / "a.txt").write_text("one\n")
    with FakeProviderServer([Turn(text=f"Done. {_EVIL}")], repeat_last=True).in_thread() as provider:
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2]),
            "ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": "k", f"SAGENT_{kind.upper()}_TOKEN": TOKEN,
        }  # fmt: skip
        words = {"serve": ["serve"], "a2a": ["a2a", "serve"]}[kind]
        argv = [
            sys.executable,
            "-m",
            "sagent",
            *words,
            "--output-format",
            "json",
            "--model",
            "anthropic/claude-sonnet-4-6",
        ]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(argv, cwd=tree, env=environment, stdin=null, stdout=pipe, stderr=null)
        assert process.stdout
        try:
            said = json.loads(process.stdout.readline())
            yield Door(kind, int(said["url"].rpartition(":")[2]), process, provider)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()


def _without_secret(door: Door) -> Iterator[str]:
    for method, path in _ROUTES[door.kind]:
        for body in ("{}", _WORK[door.kind]):
            if _is_open(door.ask(method, path, body=body, login="")):
                yield f"{method} {path} without a secret"


def _by_other_ways(door: Door) -> Iterator[str]:
    """The secret where browsers put it by themselves, and what is nearly the secret."""
    login = door.ask("POST", "/login", body=json.dumps({"token": TOKEN})) if door.kind == "serve" else b""
    keys = [json.loads(login.partition(b"\r\n\r\n")[2])["key"]] if login else []
    for secret in (TOKEN, *keys):
        ways = (
            f"Cookie: sagent={secret}",
            f"Cookie: token={secret}; key={secret}; sagent-{door.port}={secret}",
            f"X-Api-Key: {secret}",
            f"Authorization: Basic {secret}",
            f"Authorization: {secret}",
            f"Proxy-Authorization: Bearer {secret}",
            f"Authorization: Bearer {secret[:-1]}",
            f"Authorization: Bearer {secret}x",
            f"Authorization: Bearer {secret.swapcase()}",
            f"Authorization: Bearer{secret}",
            "Authorization: Bearer",
            "Authorization: Bearer ",
            "Authorization: Bearer null",
            f"Authorization: Bearer x\r\nAuthorization: Bearer {secret[:-1]}",
            f"Referer: http://{door.host}/#token={secret}",
            f"Sec-WebSocket-Protocol: {secret}",
            f"X-Forwarded-Authorization: Bearer {secret}",
        )
        yield from (f"by {way}" for way in ways if _is_open(door.begin(way, login="")))
        method, path = _BEGIN[door.kind]
        for query in (f"token={secret}", f"key={secret}", f"access_token={secret}", f"authorization=Bearer%20{secret}"):
            if _is_open(door.ask(method, f"{path}?{query}", body=_WORK[door.kind], login="")):
                yield f"by the query {query}"
        form = json.dumps({**json.loads(_WORK[door.kind]), "token": secret, "key": secret})
        if _is_open(door.ask(method, path, body=form, login="")):
            yield "by a member of the body"


def _from_elsewhere(door: Door) -> Iterator[str]:
    """Pages of other origins, even with the secret."""
    origins = (
        f"http://127.0.0.1:{door.port + 1}",
        f"http://127.0.0.1:{door.port}0",
        "http://127.0.0.1",
        f"http://localhost:{door.port}",
        "http://localhost:1",
        "null",
        "file://",
        "https://evil.example",
        f"http://127.0.0.1:{door.port}.evil.example",
        "",
        f"http://evil.example:{door.port}",
        f"http://{door.host}@evil.example",
        f"http://evil.example/{door.host}",
        f"ws://{door.host}",
        f"http://{door.host}/",
        f"http://{door.host}, http://evil.example",
        "chrome-extension://x",
        f"http://[::1]:{door.port}",
        f" http://evil.example http://{door.host}",
    )
    for origin in origins:
        answers = [door.begin(f"Origin: {origin}"), door.begin(f"Origin: {origin}", "Content-Type: text/plain")]
        answers += [door.ask("GET", path, f"Origin: {origin}") for path in ("/", "/assets/app.js")]
        if any(map(_is_open, answers)):
            yield f"from {origin!r}"
        asked = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
        shares = door.ask("OPTIONS", _BEGIN[door.kind][1], f"Origin: {origin}", *asked, login="")
        if b"access-control-allow" in b"".join((*answers, shares)).lower():
            yield f"shared with {origin!r}"


def _by_other_names(door: Door) -> Iterator[str]:
    """Names of somebody else's that lead here (DNS rebinding)."""
    names = (
        "evil.example",
        f"evil.example:{door.port}",
        f"127.0.0.1.evil.example:{door.port}",
        f"localhost.evil.example:{door.port}",
        "",
        "-",
        f"{door.host}.",
        f"127.0.0.1:{door.port}@evil.example",
        f"evil.example, {door.host}",
        f"{door.host} evil.example",
        "127.0.0.1:",
        "[::1",
        "0x7f.1.evil.example",
        f"localhost:{door.port}:x",
        "localhost.",
        "xn--localhost",
        f"{door.host}\r\nHost: evil.example",
        f"evil.example\r\nHost: {door.host}",
        "evil.example\r\nX-Forwarded-Host: 127.0.0.1",
        "evil.example\r\nForwarded: host=127.0.0.1",
    )
    harmless = ("127.0.0.1:",)  # an address is no name of somebody else's
    yield from (f"by the name {name!r}" for name in names if name not in harmless and _is_open(door.begin(host=name)))
    yield from (
        f"by the target {target}"
        for target in (
            "http://evil.example/v1/sessions",
            "http://evil.example/jsonrpc",
            "//evil.example/v1/sessions",
            "evil.example:80",
        )
        if _is_open(door.ask("POST", target, body=_WORK[door.kind], host="evil.example"))
    )


def _framing(door: Door) -> Iterator[str]:
    """Requests whose end two programs would see in different places."""
    method, path = _BEGIN[door.kind]
    work = _WORK[door.kind]
    hidden = (
        f"0\r\n\r\n{method} {path} HTTP/1.1\r\nHost: {door.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(work)}\r\n\r\n{work}"
    ).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: {door.host}\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    more = {
        "an empty length": head + b"Content-Length:\r\n\r\n",
        "a length in hexadecimal": head + b"Content-Length: 0x4\r\n\r\n",
        "a length with an underscore": head + b"Content-Length: 1_0\r\n\r\n",
        "a negative length": head + b"Content-Length: -1\r\n\r\n",
        "a length of other digits": head + "Content-Length: \u0664\r\n\r\n".encode(),
        "a huge length": head + b"Content-Length: " + b"9" * 4_000 + b"\r\n\r\n",
        "identity": head + b"Transfer-Encoding: identity\r\n\r\n",
        "chunked, identity": head + b"Transfer-Encoding: chunked, identity\r\n\r\n",
        "chunked by a tabulator": head + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
        "quoted chunked": head + b'Transfer-Encoding: "chunked"\r\n\r\n',
        "gzip": head + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        "a chunk of no number": head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "a negative chunk": head + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        "a chunk in 0x": head + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\n",
        "a chunk that ends elsewhere": head + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxxxx",
        "a huge chunk": head + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n",
        "both, the length hidden": head + b"Transfer-Encoding: chunked\r\nContent-Length : 4\r\n\r\n",
        "no colon": head + b"Content-Length 4\r\n\r\n",
        "no name": head + b": x\r\n\r\n",
        "HTTP/0.9": b"POST /v1/sessions\r\n\r\n",
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "HTTP/1.2 in words": b"GET / HTTP/1.x\r\nHost: a\r\n\r\n",
        "a name with a comma": head + b"Transfer-Encoding,: chunked\r\n\r\n",
    }
    unclear = {
        name: data.replace(b"Host: a", head.partition(b"\r\n")[2].rstrip()).replace(
            b"POST / ", head[: len(method) + len(path) + 2]
        )
        for name, data in UNCLEAR.items()
    }
    for name, data in {**unclear, **more}.items():
        answer = door.send(data + hidden, patience=5)
        if _is_open(answer):
            yield f"{name}: {answer[:60]!r}"


def _bodies(door: Door) -> Iterator[str]:
    """Bodies without an end, with a wrong one, or that unfold."""
    method, path = _BEGIN[door.kind]
    head = f"{method} {path} HTTP/1.1\r\nHost: {door.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += "Content-Type: application/json\r\n"
    before, mebibyte = door.memory, b" " * (1 << 20)
    chunk = b"100000\r\n" + mebibyte + b"\r\n"
    deep, wide = b"[" * 200_000, b"[" + b"{}," * 3_000_000 + b"{}]"
    tries = {
        "a length of 1 TB": (f"{head}Content-Length: 1000000000000\r\n\r\n".encode(), *[mebibyte] * 8),
        "60 MiB by length": (f"{head}Content-Length: {60 << 20}\r\n\r\n".encode(), *[mebibyte] * 60),
        "100 MiB in chunks": (f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), *[chunk] * 100),
        "deep": (f"{head}Content-Length: {len(deep)}\r\nConnection: close\r\n\r\n".encode(), deep),
        "wide": (f"{head}Content-Length: {len(wide)}\r\nConnection: close\r\n\r\n".encode(), wide),
        "a long extension of a chunk": (f"{head}Transfer-Encoding: chunked\r\n\r\n1;".encode(), *[mebibyte] * 8),
        "endless trailers": (f"{head}Transfer-Encoding: chunked\r\n\r\n0\r\n".encode(), *[b"X: y\r\n" * 100_000] * 8),
        "endless headers": (head.encode(), *[b"X: y\r\n" * 100_000] * 8),
        "an endless line": (b"GET /", *[b"x" * (1 << 20)] * 8),
        "compressed": (
            f"{head}Content-Encoding: gzip\r\nContent-Length: 2\r\nConnection: close\r\n\r\n\x1f\x08".encode(),
        ),
        "a huge number": (
            f"{head}Content-Length: 100002\r\nConnection: close\r\n\r\n".encode(),
            b"[" + b"9" * 100_000 + b"]",
        ),
    }
    for name, pieces in tries.items():
        answer = door.send(*pieces, patience=15)
        if 200 <= status(answer) < 400 and b'"error"' not in answer:
            yield f"{name}: {answer[:60]!r}"
        if (grown := door.memory - before) > _MAX_GROWTH:
            yield f"{name}: {grown >> 20} MiB more"


def _policies(door: Door) -> Iterator[str]:
    """What may run in pages of the server, whatever a model has said."""
    made = door.begin()
    paths = ["/", "/none", "/openapi.json", "/.well-known/agent-card.json", "/assets/app.js"]
    if door.kind == "serve":
        session = json.loads(made.partition(b"\r\n\r\n")[2])["id"]
        while b'"idle"' not in door.ask("GET", f"/v1/sessions/{session}"):
            pass
        paths += [f"/v1/sessions/{session}/transcript?format={form}" for form in ("html", "md", "json")]
        page = door.ask("GET", paths[-3])
        text = page.partition(b"\r\n\r\n")[2]
        if b"Done." not in text or b"<script>fetch" in text or b"<img src=x" in text or b"<iframe" in text:
            yield "the transcript has markup of a model"
        policy = re.search(rb"content-security-policy: (.*)\r", page)
        said = policy[1] if policy else b""
        for part in (b"default-src 'none'", b"frame-ancestors 'none'", b"sandbox"):
            if part not in said:
                yield f"the policy of the transcript lacks {part.decode()}"
        if b"allow-same-origin" in said or b"'unsafe-inline'" in said.partition(b"script-src")[2].partition(b";")[0]:
            yield f"the policy of the transcript allows too much: {said.decode()}"
    for path in paths:
        for login in (TOKEN, ""):
            answer = door.ask("GET", path, login=login).partition(b"\r\n\r\n")[0].lower()
            for part in (b"content-security-policy: ", b"x-content-type-options: nosniff", b"frame-ancestors 'none'"):
                if part not in answer:
                    yield f"{path} lacks {part.decode()}"


def _paths(door: Door) -> Iterator[str]:
    """Paths that lead elsewhere."""
    up = ("..", "%2e%2e", "..%2f..", "%2e%2e%5c", "....//", ".%00.", "..;")
    names = ("app.py", "etc/passwd", "command.py", "a.txt")
    for place in ("/assets/", "/v1/sessions/", "/rest/tasks/", "/"):
        for part in up:
            for name in names:
                answer = door.ask("GET", f"{place}{part}/{part}/{name}")
                if (200 <= status(answer) < 300 and place != "/") or any(
                    text in answer for text in (b"import ", b"root:", b"one\n")
                ):
                    yield f"GET {place}{part}/{part}/{name}"
    for session in ("..", "%2e%2e%2f%2e%2e", "/etc", "x/../../..", "%00", "*", "latest"):
        for rest in ("", "/transcript", "/events", "/diff?path=../../home/.netrc", "/diff?path=/etc/passwd"):
            if 200 <= status(door.ask("GET", f"/v1/sessions/{session}{rest}")) < 300:
                yield f"GET /v1/sessions/{session}{rest}"


def _methods(door: Door) -> Iterator[str]:
    """Other methods, and other protocols on the connection."""
    path = _BEGIN[door.kind][1]
    for method in ("TRACE", "CONNECT", "PUT", "PATCH", "PROPFIND", "get", "POST\tx", "X" * 3000):
        if _is_open(door.ask(method, path, body=_WORK[door.kind])):
            yield method
    for upgrade in ("websocket", "h2c", "TLS/1.0"):
        more = (
            "Connection: Upgrade",
            f"Upgrade: {upgrade}",
            "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
            "Sec-WebSocket-Version: 13",
        )
        if status(door.ask("GET", path, *more, login="")) in (101, 200):
            yield f"an upgrade to {upgrade}"
    if _is_open(door.begin("X-HTTP-Method-Override: GET", login="")):
        yield "another method by a header"


_KINDS: Sequence[tuple[str, Kind]] = (
    ("without a secret", _without_secret),
    ("the secret by other ways", _by_other_ways),
    ("from other origins", _from_elsewhere),
    ("by other names", _by_other_names),
    ("unclear framing", _framing),
    ("bodies", _bodies),
    ("policies", _policies),
    ("paths", _paths),
    ("methods", _methods),
)


def _attempt(server: str, words: str, kind: Kind) -> Attempt:
    def effects(base: Path, _: Forks) -> Sequence[str]:
        with opened(server, base) as door:
            found = [*kind(door)]
            if words != "policies" and door.provider.requests:
                found.append("a model was asked")
            if status(door.begin()) not in (200, 201):
                found.append("the server works no more")
        return found

    return Attempt(f"requests to {server}: {words}", effects)


ATTEMPTS = tuple(_attempt(server, words, kind) for server in _ROUTES for words, kind in _KINDS)
CONTROLS = ()
