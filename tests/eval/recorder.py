"""A proxy between an agent and a server: it holds every harness to the same limits and keeps what was said."""

import contextlib
import http.client
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GENERATING = ("/completions", "/responses", "/messages")
OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict")
REFUSAL = (
    b'{"error":{"code":400,"message":"The limit of requests for this task is reached.","type":"invalid_request_error"}}'
)
MAX_REPLY_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one task, the same for every harness."""

    requests: int = 12
    reply_tokens: int = 300
    seconds: float = 400.0


@dataclass(slots=True)
class Exchange:
    """A request as it was sent on, and the reply: its text, its calls, and the tokens that the server counted."""

    path: str
    request: dict[str, Any]
    status: int = 0
    text: str = ""
    thinking: str = ""
    calls: list[dict[str, str]] = field(default_factory=list)
    finish: str = ""
    prompt: int = 0
    cached: int = 0
    written: int = 0
    seconds: float = 0.0
    error: str = ""

    def read(self, data: dict[str, Any]) -> None:
        """Take in a whole reply, or a piece of a streamed one."""
        if timings := data.get("timings"):  # llama-server's own count; `usage` leaves out what its cache held
            self.cached = timings.get("cache_n", 0)
            self.prompt = timings.get("prompt_n", 0) + self.cached
            self.written = timings.get("predicted_n", 0)
        elif (usage := data.get("usage")) and not self.prompt:
            self.prompt = usage.get("prompt_tokens", 0)
            self.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            self.written = usage.get("completion_tokens", 0)
        for choice in data.get("choices") or ():
            said = choice.get("delta") or choice.get("message") or {}
            self.text += said.get("content") or choice.get("text") or ""
            self.thinking += said.get("reasoning_content") or ""
            for at, call in enumerate(said.get("tool_calls") or ()):
                self._read_call(call, call.get("index", at))
            self.finish = choice.get("finish_reason") or self.finish

    def _read_call(self, call: dict[str, Any], index: int) -> None:
        while len(self.calls) <= index:
            self.calls.append({"name": "", "arguments": ""})
        function = call.get("function") or {}
        for part in ("name", "arguments"):
            self.calls[index][part] += function.get(part) or ""


@dataclass(slots=True)
class Recorder:
    """The exchanges of one task. `exhausted` is set once a request more than the limit was made."""

    upstream: urllib.parse.SplitResult
    limits: Limits
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    exhausted: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    _open: set[http.client.HTTPConnection] = field(default_factory=set[http.client.HTTPConnection])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, path: str, body: bytes) -> tuple[bytes, Exchange] | None:
        """Return a request as it is to be sent on; None if the limit of requests is reached."""
        request: dict[str, Any] = json.loads(body)
        wanted = [request[name] for name in OUTPUT_LIMITS if isinstance(request.get(name), int) and request[name] > 0]
        bound = min([self.limits.reply_tokens, *wanted])
        request |= {"temperature": 0, "max_tokens": bound, **{name: bound for name in OUTPUT_LIMITS if name in request}}
        exchange = Exchange(path, request)
        with self._lock:
            if len(self.exchanges) >= self.limits.requests:
                self.exhausted.set()
                return None
            self.exchanges.append(exchange)
        return json.dumps(request).encode(), exchange

    @contextmanager
    def connected(self) -> Iterator[http.client.HTTPConnection]:
        """Yield a connection to the server that `hang_up` ends."""
        assert self.upstream.hostname
        connection = http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=MAX_REPLY_SECONDS)
        self._open.add(connection)
        try:
            yield connection
        finally:
            self._open.discard(connection)
            connection.close()

    def hang_up(self) -> None:
        """Drop every connection, so that the server stops generating for an agent that was ended."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                if connection.sock:
                    connection.sock.shutdown(2)


@contextmanager
def recording(upstream: str, limits: Limits) -> Iterator[Recorder]:
    """Yield a recorder that listens at `url`, without a version's path, and passes on to a server."""
    recorder = Recorder(urllib.parse.urlsplit(upstream), limits)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Say nothing of connections that an ended agent dropped."""

    class Relay(_Relay):
        def __init__(self, *arguments: Any) -> None:
            self.recorder = recorder
            super().__init__(*arguments)

    with Server(("127.0.0.1", 0), Relay) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        recorder.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield recorder
        finally:
            recorder.hang_up()
            server.shutdown()
            thread.join()


class _Relay(BaseHTTPRequestHandler):
    """The connection of an agent."""

    protocol_version = "HTTP/1.1"
    recorder: Recorder

    def log_message(self, *_: Any) -> None:
        """Keep standard error for the harness."""

    def do_GET(self) -> None:
        """Pass on a question about the server."""
        self._pass_on(None, None)

    def do_POST(self) -> None:
        """Pass on a request for a reply, within the limits, or any other as it is."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.partition("?")[0].endswith(GENERATING):
            self._pass_on(body, None)
        elif begun := self.recorder.begin(self.path, body):
            self._pass_on(*begun)
        else:
            self._answer(400, "application/json", REFUSAL)

    def _pass_on(self, body: bytes | None, exchange: Exchange | None) -> None:
        exchange = exchange or Exchange(self.path, {})
        started = time.monotonic()
        try:
            with self.recorder.connected() as connection:
                connection.request(self.command, self.path, body, {"Content-Type": "application/json"} if body else {})
                self._relay_reply(connection.getresponse(), exchange)
        except (OSError, http.client.HTTPException) as error:
            exchange.error = exchange.error or repr(error)
            self.close_connection = True
        finally:
            exchange.seconds = round(time.monotonic() - started, 3)

    def _relay_reply(self, reply: http.client.HTTPResponse, exchange: Exchange) -> None:
        kind = reply.getheader("Content-Type", "application/json")
        exchange.status = reply.status
        if "event-stream" not in kind:
            whole = reply.read()
            _read(whole, exchange)
            if reply.status >= 400:
                exchange.error = whole.decode(errors="replace")
            self._answer(reply.status, kind, whole)
            return
        self.send_response(reply.status)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in reply:
            if line.startswith(b"data: {"):
                _read(line[6:], exchange)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _read(data: bytes, exchange: Exchange) -> None:
    with contextlib.suppress(ValueError):
        value = json.loads(data)
        if isinstance(value, dict):
            exchange.read(value)
