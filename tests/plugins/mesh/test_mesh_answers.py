"""Whoever sends a message to a session gets the answer to that message."""

import asyncio
import json
import re
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from sagent.events import Failure, Received, ReplyFinished, Result
from sagent.messages import Message, Text, ToolCall, user
from sagent.plugins.mesh.records import SessionRecord, decode, encode
from sagent.plugins.mesh.remote import Mesh
from sagent.plugins.mesh.replies import Replies
from sagent.testing.server import Received as Asked
from sagent.testing.server import Step, Turn
from sagent.usage import Usage
from tests.depth import later
from tests.plugins.mesh.places import place


def by_last_words(received: Asked) -> Step:
    """Says which messages it answers: those after its last words."""
    messages = json.loads(received.body)["messages"]
    after = max((place for place, each in enumerate(messages) if each["role"] == "assistant"), default=-1)
    return Turn(" ".join(re.findall(r"msg \d", json.dumps(messages[after + 1 :]))), delay=0.5)


@later
async def test_each_sender_gets_own_answer(tmp_path: Path) -> None:
    async with place(tmp_path, by_last_words) as here, asyncio.timeout(60), AsyncExitStack() as stack:
        await here.node("n1")
        async with Mesh(here.bus).spawn("msg 0") as first:
            peers = [await stack.enter_async_context(Mesh(here.bus).agent(first.path)) for _ in range(4)]
            for number, peer in enumerate(peers, 1):
                peer.send(f"msg {number}", "next")
                await asyncio.sleep(0.2)  # some while the model answers others
            for number, peer in enumerate([first, *peers]):
                result = await peer.wait()
                assert f"msg {number}" in result.content
                assert result.session_id == first.path


def test_later_messages_have_own_answer() -> None:
    replies, words = Replies(), [user(text) for text in "abc"]
    for number, message in enumerate(words, 1):
        replies.expect(message, number)
    replies.on_event(Received("root", words[0]))
    replies.on_event(said("I look.", ToolCall("c", "Bash")))
    replies.on_event(Received("root", words[1]))  # between two calls: both have the answer that follows
    replies.on_event(said("To a and b."))
    replies.on_event(Received("root/other", words[2]))
    replies.on_event(Received("root", user("an advisor says", sender="sagent")))
    replies.on_event(said("Better, to a and b."))
    replies.on_event(Received("root", words[2]))
    last = Result("To c.", (), "end")
    replies.settle(last)
    record = replace(SessionRecord("s"), **replies.changes(SessionRecord("s"), {1, 2, 3}, last))
    assert record.result == last
    assert {number: found.content for number, found in record.answers.items()} == dict.fromkeys(
        (1, 2), "Better, to a and b."
    )
    later = Replies().changes(record, {1, 2, 3, 4}, Result("", (), "error", Failure("crashed", "x")))
    answers = decode(SessionRecord, encode(replace(record, **later))).answers
    assert [answers[number].content for number in (1, 2, 3)] == [*["Better, to a and b."] * 2, "To c."]


def test_record_stays_small() -> None:
    record = SessionRecord("s")
    for number in range(1, 200):
        record = replace(record, **Replies().changes(record, set(range(1, number)), Result("x" * 1_000_000, (), "end")))
    assert len(record.answered) == 50
    assert len(encode(record)) < 2_000_000
    assert {found.error.kind for found in record.answers.values() if found.error} == {"too_large"}


def said(text: str, *calls: ToolCall) -> ReplyFinished:
    return ReplyFinished("root", Message("assistant", (Text(text), *calls), "", "m", "end"), Usage(), None)
