"""GitHub's REST API on loopback, as far as a review uses it: comments are kept, and its rules are held to."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Protocol, TypeVar

MOST_BODY = 65_536


@dataclass
class Repository:
    """What is there. `shown` are the lines that the diff of the pull request shows, by path; `fail` are statuses that
    the next calls are answered with."""

    url: str = ""
    comments: list[dict] = field(default_factory=list)
    lines: list[dict] = field(default_factory=list)
    shown: dict[str, set[int]] = field(default_factory=dict)
    pull: dict = field(default_factory=dict)
    fail: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, body: dict) -> tuple[int, object]:
        place, _, query = path.partition("?")
        page = int(found[1]) if (found := re.search(r"\bpage=(\d+)", query)) else 1
        if len(str(body.get("body", ""))) > MOST_BODY:
            return 422, {"message": "Body is too long"}
        match (method, *place.split("/")[4:]):
            case ("GET", "issues", _, "comments"):
                return 200, self.comments[100 * (page - 1) : 100 * page]
            case ("POST", "issues", _, "comments"):
                self.comments.append(self._made(body))
                return 201, self.comments[-1]
            case ("PATCH", kind, "comments", number):
                of = self.comments if kind == "issues" else self.lines
                (old,) = [each for each in of if each["id"] == int(number)]
                old["body"] = body["body"]
                return 200, old
            case ("GET", "pulls", _, "comments"):
                return 200, self.lines[100 * (page - 1) : 100 * page]
            case ("POST", "pulls", _, "reviews"):
                if any(each["line"] not in self.shown.get(each["path"], ()) for each in body["comments"]):
                    return 422, {"message": "Unprocessable Entity", "errors": ["Line could not be resolved"]}
                self.lines += [self._made(each) for each in body["comments"]]
                return 200, {}
            case ("GET", "pulls", _):
                return 200, self.pull
            case _:
                return 404, {"message": f"no {method} {place}"}

    def _made(self, body: dict) -> dict:
        number = len(self.comments) + len(self.lines) + 1
        return {**body, "id": number, "user": {"login": "github-actions[bot]", "type": "Bot"}}


class Answers(Protocol):
    """What a server is made of: calls, and what they are answered with."""

    url: str
    fail: list[tuple[int, dict[str, str]]]
    calls: list[str]
    tokens: set[str]

    def answer(self, method: str, path: str, body: dict) -> tuple[int, object]: ...


@contextmanager
def github() -> Generator[Repository]:
    with served(Repository()) as repository:
        yield repository


A = TypeVar("A", bound=Answers)


@contextmanager
def served(repository: A) -> Generator[A]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def serve(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else {}
            repository.calls.append(f"{self.command} {self.path}")
            repository.tokens.add(self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN", ""))
            status, more = repository.fail.pop(0) if repository.fail else (0, {})
            answer: object = {"message": "failed on purpose"}
            if not status:
                status, answer = repository.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = serve  # noqa: N815 -- as the base class calls them

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    repository.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield repository
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
