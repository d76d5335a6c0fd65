"""A key of OpenRouter, made in a browser: by the callback, by a pasted address, and refused."""

import asyncio
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, TypeVar
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest

from sagent.errors import ModelError, UsageError
from sagent.plugins.logins.openrouter_key import new_key
from sagent.repl.commands.command import CommandContext

if TYPE_CHECKING:
    from sagent.repl.terminal.picker import Lookup, Option, Shown

T = TypeVar("T")


class Person(CommandContext):
    """A person who chooses a way, and whose browser goes where it is sent."""

    def __init__(self, way: str, answer: str = "code=c1", pasted: str | None = None) -> None:
        super().__init__()
        self.has_person, self.shown, self.comes_back = True, "", True
        self._way, self._answer, self._pasted = way, answer, pasted
        self.page = ""
        self._visits = set[asyncio.Task[str]]()

    def _write(self, text: str) -> None:
        self.shown += text
        if address := re.search(r"http\S+/auth\?\S+", text):
            self.page = address[0]
            callback = self.asked["callback_url"]
            if self._way == "in a browser on this machine" and self.comes_back:
                self._visits.add(asyncio.create_task(asyncio.to_thread(visit, f"{callback}?{self._answer}")))

    @property
    def asked(self) -> dict[str, str]:
        """What the page was asked with."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.page).query).items()}

    async def pick(
        self, title: "str | Shown", options: "Sequence[Option[T]]", lookup: "Lookup[T] | None" = None
    ) -> T | None:
        return next((option.value for option in options if option.label == self._way), None)

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        return self._pasted


def visit(url: str) -> str:
    """Open a page; return its text, or the status of a refusal."""
    try:
        with urlopen(url.replace("localhost", "127.0.0.1")) as answer:
            return answer.read().decode()
    except HTTPError as error:
        return str(error.code)


@contextmanager
def exchange(person: Person) -> Iterator[str]:
    """Yield the base URL of a server that gives a key for the code c1 with the verifier of the challenge."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["content-length"])))
            digest = urlsafe_b64encode(sha256(given["code_verifier"].encode()).digest()).rstrip(b"=").decode()
            fits = self.path == "/api/v1/auth/keys" and given["code_challenge_method"] == "S256"
            fits = fits and given["code"] == "c1" and digest == person.asked["code_challenge"]
            body = json.dumps({"key": "sk-or-1"} if fits else {"error": {"message": "Invalid code", "code": 403}})
            self.send_response(200 if fits else 403)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api/v1"
        server.shutdown()


async def made(person: Person) -> str | None:
    with exchange(person) as base_url:
        return await new_key(person, base_url)


async def test_browser_comes_back_with_a_key() -> None:
    person = Person("in a browser on this machine")
    assert await made(person) == "sk-or-1"
    assert person.asked["code_challenge_method"] == "S256"


async def test_address_is_pasted() -> None:
    person = Person("in a browser elsewhere", pasted=" http://localhost:1/callback/x?code=c1 ")
    assert await made(person) == "sk-or-1"
    assert await made(Person("in a browser elsewhere", pasted=None)) is None


async def test_typing_and_leaving_make_no_key() -> None:
    assert await made(Person("type a key")) == ""
    assert await made(Person("none of these")) is None


async def test_refusals_are_told() -> None:
    with pytest.raises(UsageError, match="refused: no thanks"):
        await made(Person("in a browser on this machine", "error=access_denied&error_description=no+thanks"))
    with pytest.raises(ModelError, match="Invalid code"):
        await made(Person("in a browser on this machine", "code=c2"))
    for pasted in ("c1", "http://localhost:1/callback", " "):
        with pytest.raises(UsageError, match="no code"):
            await made(Person("in a browser elsewhere", pasted=pasted))


async def test_strange_paths_bring_no_code() -> None:
    person = Person("in a browser on this machine")
    person.comes_back = False
    login = asyncio.create_task(made(person))
    while not person.page:
        await asyncio.sleep(0)
    callback = person.asked["callback_url"]
    strange = f"http://127.0.0.1:{urlsplit(callback).port}/callback?code=stolen"
    assert await asyncio.to_thread(visit, strange) == "404"
    assert "logged in" in await asyncio.to_thread(visit, f"{callback}?code=c1")
    assert await login == "sk-or-1"
