"""Bodies of requests are bounded before an application gets them."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from sagent.plugins.hosting import door
from sagent.plugins.hosting.door import Bounded


class App:
    """What an application was given."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        self.bodies.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def asked(pieces: list[bytes], *headers: tuple[bytes, bytes], hangs: bool = False) -> tuple[int, list[bytes]]:
    """The status that a bounded application answers with, and what the application was given."""
    app, sent, left = App(), list[int](), [*pieces]

    async def receive() -> Message:
        if not left and hangs:
            await asyncio.Event().wait()
        piece = left.pop(0) if left else b""
        return {"type": "http.request", "body": piece, "more_body": bool(left) or hangs}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}
    await Bounded(app)(scope, receive, send)
    return sent[0], app.bodies


async def test_request_body_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MAX_BODY_BYTES", 10)
    monkeypatch.setattr(door, "MAX_PAUSE_SECONDS", 0.05)
    assert await asked([b"12345", b"67890"]) == (200, [b"1234567890"])
    assert await asked([]) == (200, [b""])
    assert await asked([b"12345", b"678901"]) == (413, [])
    assert await asked([b"x"], (b"content-length", b"11")) == (413, [])
    assert await asked([b"x"], (b"content-length", b"9" * 4_000)) == (413, [])
    assert await asked([b"x"], (b"content-length", b"-1")) == (413, [])
    assert await asked([b"123"], hangs=True) == (408, [])
    monkeypatch.setattr(door, "MAX_PAUSE_SECONDS", 30.0)
    monkeypatch.setattr(door, "MAX_BODY_SECONDS", 0.05)
    assert await asked([b"1"] * 3, hangs=True) == (408, [])
    monkeypatch.setattr(door, "MAX_BODY_SECONDS", 600.0)
    monkeypatch.setattr(door, "MAX_DROPPED_BYTES", 30)
    assert await asked([b"x" * 10] * 1_000_000) == (413, [])
