"""What is no JSON, or nested without a bottom, harms nobody who reads it off the bus."""

import asyncio
import json
from typing import cast

import pytest

from sagent.agent import Agent
from sagent.events import Notice
from sagent.mesh import names
from sagent.mesh.broadcast import END_LINE, read_lines
from sagent.mesh.control import Asking, read_question
from sagent.mesh.jetstream import JetStream
from sagent.mesh.requests import Requests
from sagent.tools.ask import Question as Inquiry

DEEP = b"[" * 100_000
MALFORMED = (b"", b"\xff", b"no json", b"NaN", DEEP)


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
async def test_a_request_is_answered_with_what_is_wrong_with_it(data: bytes) -> None:
    answer = await Requests(cast("Agent", None), "n1", None).answer(data)
    assert list(answer) == ["error"]


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
def test_a_question_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- as it says
        read_question(data)


def test_the_other_lines_of_a_message_are_read() -> None:
    lines = [*MALFORMED, b'{"kind":"Notice","event":{"agent":"root","level":"info","text":"hello"}}', END_LINE]
    assert list(read_lines(b"\n".join(lines))) == [Notice("root", "info", "hello"), None]


async def test_the_answer_of_somebody_who_knows_better_is_waited_for() -> None:
    answers = [*MALFORMED]

    class Bus:
        async def request(self, subject: str, data: bytes, *, timeout: float) -> bytes:
            assert (subject, timeout > 0) == (names.inquiry_subject("s"), True)
            return answers.pop() if answers else json.dumps({"id": json.loads(data)["id"], "said": "blue"}).encode()

        async def publish(self, subject: str, data: bytes) -> None: ...

    async with asyncio.timeout(5):
        said = await Asking(cast("JetStream", Bus()), "s").answer(Inquiry("root", "Which colour?"))
    assert (said, answers) == ("blue", [])
