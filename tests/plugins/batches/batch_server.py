"""The batch APIs of Anthropic, OpenAI and Google on loopback, in their documented formats."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, TypeAlias

from sagent.testing.families import FAMILIES, Answer
from sagent.testing.script import Received, Turn

Step: TypeAlias = Turn | Literal["errored", "expired", "canceled", "lost"]
USAGE = {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
AT = "2026-11-26T00:00:00Z"


@dataclass
class Batch:
    """One that was sent: its requests by their names, and how often it was asked after."""

    family: str
    requests: dict[str, dict[str, Any]]
    model: str = ""
    endpoint: str = ""
    polls: int = 0


@dataclass
class BatchServer:
    """`script` says what a request comes to; a batch ends when `ended` says so. `trouble` are statuses of the next
    answers, whatever is asked."""

    script: Callable[[dict[str, Any]], Step] = lambda _: Turn("ok")
    ended: Callable[[Batch], bool] = lambda _: True
    batches: dict[str, Batch] = field(default_factory=dict)
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    trouble: list[int] = field(default_factory=list)
    state: str = ""  # of batches that end, where it is another than success
    url: str = ""
    answers: threading.Event = field(default_factory=threading.Event)  # cleared, it takes requests and is silent
    headers: list[dict[str, str]] = field(default_factory=list)

    @contextmanager
    def running(self):
        """Serve in a thread."""
        outer = self
        self.answers.set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._serve(b"")

            def do_POST(self) -> None:
                self._serve(self.rfile.read(int(self.headers["content-length"])))

            def _serve(self, body: bytes) -> None:
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, data = outer.answer(self.command, self.path, body, self.headers.get("content-type", ""))
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, method: str, path: str, body: bytes, kind: str) -> tuple[int, bytes]:
        path = path.partition("?")[0]
        self.seen.append((method, path, body))
        self.answers.wait(60)
        if self.trouble:
            status = self.trouble.pop(0)
            return status, json.dumps({"error": {"type": "api_error", "message": "trouble"}}).encode()
        match method, path.strip("/").split("/"):
            case "POST", ["v1", "messages", "batches"]:
                rows = json.loads(body)["requests"]
                return 200, self._anthropic(
                    self._new("msgbatch_", "anthropic", {row["custom_id"]: row["params"] for row in rows})
                )
            case "GET", ["v1", "messages", "batches", name] if name in self.batches:
                return 200, self._anthropic(name)
            case "GET", ["v1", "messages", "batches", name, "results"] if name in self.batches:
                return 200, self._lines(self.batches[name], self._anthropic_line)
            case "POST", ["v1", "files"]:
                message = message_from_bytes(b"content-type: " + kind.encode() + b"\r\n\r\n" + body)
                payload: Any = message.get_payload()
                parts = {part.get_param("name", header="content-disposition"): part for part in payload}
                assert parts["purpose"].get_payload() == "batch"
                name = f"file-{len(self.files)}"
                self.files[name] = parts["file"].get_payload(decode=True)
                about = {"object": "file", "bytes": 1, "created_at": 1, "filename": "x", "purpose": "batch"}
                return 200, json.dumps({"id": name, "status": "processed", **about}).encode()
            case "POST", ["v1", "batches"]:
                order = json.loads(body)
                rows = [json.loads(line) for line in self.files[order["input_file_id"]].splitlines()]
                assert {row["url"] for row in rows} == {order["endpoint"]}
                assert len({row["body"]["model"] for row in rows}) == 1, "a batch is for one model"
                name = self._new("batch_", "openai", {row["custom_id"]: row["body"] for row in rows})
                self.batches[name].endpoint = order["endpoint"]
                return 200, self._openai(name)
            case "GET", ["v1", "batches", name] if name in self.batches:
                return 200, self._openai(name)
            case "GET", ["v1", "files", name, "content"]:
                what, _, batch = name.partition("-")
                return 200, self._lines(self.batches[batch], self._openai_line, "error" if what == "err" else "output")
            case "POST", ["v1beta", "models", model] if model.endswith(":batchGenerateContent"):
                rows = json.loads(body)["batch"]["inputConfig"]["requests"]["requests"]
                name = self._new("b", "google", {row["metadata"]["key"]: row["request"] for row in rows})
                self.batches[name].model = model.partition(":")[0]
                return 200, self._google(name)
            case "GET", ["v1beta", "batches", name] if name in self.batches:
                return 200, self._google(name)
            case _:
                return 404, json.dumps({"error": {"type": "not_found_error", "message": f"no {path}"}}).encode()

    def _new(self, prefix: str, family: str, requests: dict[str, dict[str, Any]]) -> str:
        assert len(requests) > 0
        name = f"{prefix}{len(self.batches)}"
        self.batches[name] = Batch(family, requests)
        return name

    def _is_over(self, name: str) -> bool:
        batch = self.batches[name]
        batch.polls += 1
        return batch.polls > 1 and self.ended(batch)  # not yet when it is sent

    def _anthropic(self, name: str) -> bytes:
        over = self._is_over(name)
        return json.dumps({
            "id": name, "type": "message_batch", "processing_status": "ended" if over else "in_progress",
            "request_counts": USAGE, "ended_at": AT if over else None, "created_at": AT, "expires_at": AT,
            "archived_at": None, "cancel_initiated_at": None,
            "results_url": f"{self.url}/v1/messages/batches/{name}/results" if over else None,
        }).encode()  # fmt: skip

    def _openai(self, name: str) -> bytes:
        over = self._is_over(name)
        state = (self.state or "completed") if over else "in_progress"
        found: dict[str, object] = {
            "id": name, "object": "batch", "endpoint": "/v1/responses", "input_file_id": "file-0",
            "completion_window": "24h", "status": state, "created_at": 1, "errors": None,
            "output_file_id": f"out-{name}" if over and state != "failed" else None,
            "error_file_id": f"err-{name}" if over and state != "failed" else None,
        }  # fmt: skip
        if state == "failed":
            found["errors"] = {"object": "list", "data": [{"code": "x", "message": "Line 1 is wrong.", "line": 1}]}
        return json.dumps(found).encode()

    def _google(self, name: str) -> bytes:
        over, batch = self._is_over(name), self.batches[name]
        state = f"BATCH_STATE_{self.state or 'SUCCEEDED' if over else 'RUNNING'}"
        found: dict[str, Any] = {
            "name": f"batches/{name}",
            "metadata": {"state": state, "model": f"models/{batch.model}"},
        }
        if over and not self.state:
            rows = [self._google_row(batch, key, given) for key, given in batch.requests.items()]
            found["metadata"]["output"] = {"inlinedResponses": {"inlinedResponses": [row for row in rows if row]}}
            found["done"] = True
        return json.dumps(found).encode()

    def _lines(self, batch: Batch, line: Callable[..., dict[str, Any] | None], *more: str) -> bytes:
        rows = [line(batch, name, given, *more) for name, given in reversed(batch.requests.items())]  # in any order
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows if row)

    def _anthropic_line(self, batch: Batch, name: str, given: dict[str, Any]) -> dict[str, Any] | None:
        step = self._step("anthropic", "/v1/messages", given)
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": str(step)}, "request_id": "r"}
        match step:
            case Turn():
                result: dict[str, Any] = {
                    "type": "succeeded",
                    "message": self._whole("anthropic", "/v1/messages", given, step),
                }
            case "lost":
                return None
            case "expired" | "canceled":
                result = {"type": step}
            case _:
                result = {"type": "errored", "error": error}
        return {"custom_id": name, "result": result}

    def _openai_line(self, batch: Batch, name: str, given: dict[str, Any], file: str) -> dict[str, Any] | None:
        family = "responses" if batch.endpoint == "/v1/responses" else "chat"
        step = self._step(family, batch.endpoint, given)
        row: dict[str, Any] = {"id": f"batch_req_{name}", "custom_id": name, "response": None, "error": None}
        if (file == "output") != isinstance(step, Turn) or step == "lost":
            return None
        match step:
            case Turn():
                row["response"] = {
                    "status_code": 200,
                    "request_id": "r",
                    "body": self._whole(family, batch.endpoint, given, step),
                }
            case "expired" | "canceled":
                row["error"] = {"code": "batch_expired" if step == "expired" else "batch_cancelled", "message": step}
            case _:
                body = {"error": {"type": "invalid_request_error", "message": str(step), "code": None, "param": None}}
                row["response"] = {"status_code": 400, "request_id": "r", "body": body}
        return row

    def _google_row(self, batch: Batch, name: str, given: dict[str, Any]) -> dict[str, Any] | None:
        path = f"/v1beta/models/{batch.model}:generateContent"
        step = self._step("google", path, given)
        if step == "lost":
            return None
        if isinstance(step, Turn):
            return {"metadata": {"key": name}, "response": self._whole("google", path, given, step)}
        code = {"expired": 4, "canceled": 1}.get(step, 3)
        return {"metadata": {"key": name}, "error": {"code": code, "message": str(step)}}

    def _received(self, family: str, path: str, given: dict[str, Any]) -> Received:
        headers = {"anthropic-version": "2023-06-01"}
        return Received("POST", path, "", headers, json.dumps(given).encode(), given, time.monotonic(), 1, family)

    def _step(self, family: str, path: str, given: dict[str, Any]) -> "Step | str":
        received = self._received(family, path, given)
        assert "stream" not in given
        return next(iter(FAMILIES[family].complaints(received)), None) or self.script(given)

    def _whole(self, family: str, path: str, given: dict[str, Any], turn: Turn) -> dict[str, Any]:
        answer = Answer.of(turn, self._received(family, path, given), serial=1, bill="script")
        rendered = FAMILIES[family].render(answer)
        assert isinstance(rendered, bytes)
        return json.loads(rendered)
