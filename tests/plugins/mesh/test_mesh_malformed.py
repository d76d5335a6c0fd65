"""What is no JSON, or nested without a bottom, harms nobody who reads it off the bus."""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from sagent.agent import Agent
from sagent.errors import UsageError
from sagent.events import Notice
from sagent.plugins.hosting.requests import Requests
from sagent.plugins.mesh import names
from sagent.plugins.mesh.broadcast import END_LINE, ServerWait, read_lines
from sagent.plugins.mesh.buckets import Store
from sagent.plugins.mesh.control import Asking, read_question
from sagent.plugins.mesh.errors import Failed
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.records import SessionRecord
from sagent.plugins.mesh.remote import RemotePeer
from sagent.plugins.mesh.workspace import fetch_changes
from sagent.tools.ask import Question as Inquiry

DEEP = b"[" * 100_000
MALFORMED = (b"", b"\xff", b"no json", b"NaN", DEEP)


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
async def test_bad_request_answered_with_error(data: bytes) -> None:
    answer = await Requests(cast("Agent", None), "n1", None).answer(data)
    assert list(answer) == ["error"]


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_question_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- as it says
        read_question(data)


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
async def test_malformed_answer_fails(data: bytes) -> None:
    class Bus:
        def bucket(self, name: str) -> None: ...

        def store(self, name: str) -> None: ...

        async def request(self, subject: str, request: bytes) -> bytes:
            return data

    with pytest.raises(Failed, match="cannot be read"):
        await RemotePeer(cast("JetStream", Bus()), SessionRecord("s")).ask(op="status")


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
async def test_files_are_not_fetched(data: bytes, tmp_path: Path) -> None:
    class Kept:
        async def get(self, name: str) -> bytes:
            return data + b"\n"

    with pytest.raises(UsageError, match="cannot be read"):
        await fetch_changes(cast("Store", Kept()), "git.a", tmp_path, "s")


def test_other_lines_still_read() -> None:
    lines = [*MALFORMED, b'{"kind":"Notice","event":{"agent":"root","level":"info","text":"hello"}}', END_LINE]
    lines += [b'{"kind":"Waits","event":{"agent":"root","line":"Reading\\u001b[2J"}}', b'{"kind":"Waits","event":[]}']
    *found, waits, nothing = read_lines(b"\n".join(lines))
    assert found == [Notice("root", "info", "hello"), None]
    assert isinstance(waits, ServerWait) and waits.line.startswith("Reading") and "\x1b" not in waits.line
    assert nothing == ServerWait("", "")


async def test_inquiry_waits_for_valid_answer() -> None:
    answers = [*MALFORMED]

    class Bus:
        async def request(self, subject: str, data: bytes, *, timeout: float) -> bytes:
            assert (subject, timeout > 0) == (names.inquiry_subject("s"), True)
            return answers.pop() if answers else json.dumps({"id": json.loads(data)["id"], "said": "blue"}).encode()

        async def publish(self, subject: str, data: bytes) -> None: ...

    async with asyncio.timeout(60):
        said = await Asking(cast("JetStream", Bus()), "s").answer(Inquiry("root", "Which colour?"))
    assert (said, answers) == ("blue", [])
