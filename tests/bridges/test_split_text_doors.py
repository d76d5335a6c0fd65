"""Characters that a provider splits, and calls that it cuts, through the doors by which others listen."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from a2a_served import a2a_served, said, state, text_of
from acp_peer import agent_for
from google.protobuf.json_format import MessageToDict
from served import served

from sagent.testing.families import FAMILIES
from sagent.testing.families.answer import Answer
from sagent.testing.script import Call, Raw, Received, Step, Turn
from sagent.usage import Usage

HALVES = "a\ud83d\ude00 e\u0301 \ud83d\udc69\u200d\ud83d\udc69 b\ud83d"
"""An emoji, a combining accent, two people joined, and half of a pair without the other."""
WHOLE = "a😀 e\u0301 👩\u200d👩 b\ufffd"
SPLIT = [
    Turn(HALVES, thinking=HALVES, calls=(Call("List", json.dumps({"path": HALVES[:3]})),), pieces=1),
    Turn(HALVES, pieces=1),
]
CUT = [Turn("I see.", calls=(Call("Bash", '{"command": "touch ran', cut=True),), stop="max_tokens"), Turn("ok")]


def texts(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield from texts(key)
                yield from texts(each)
        case list() | tuple():
            for each in value:
                yield from texts(each)
        case _:
            pass


def check(value: object) -> None:
    for text in texts(value):
        text.encode()  # raises where it is not valid


async def test_acp_updates_are_valid_text(work: Path) -> None:
    async with agent_for(SPLIT, permission_mode="full", sandbox="off") as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        check(peer.updates)
        assert peer.text() == WHOLE * 2
        assert peer.text("agent_thought_chunk") == WHOLE


async def test_served_events_are_valid_text(place: Path, provider: list[Step]) -> None:
    provider += SPLIT
    async with served(place) as client:
        name = await client.begin("go")
        found = await client.until(name, "result")
        check([event.data for event in found])
        for kind, times in (("text_delta", 2), ("thinking_delta", 1)):
            assert "".join(event.data["text"] for event in found if event.type == kind) == WHOLE * times
        assert found[-1].data["result"] == WHOLE
        check((await client.get(f"/{name}/transcript")).json())


@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_a2a_updates_are_valid_text(place: Path, provider: list[Step], transport: str) -> None:
    provider += SPLIT
    async with a2a_served(place) as [peer]:
        updates = [MessageToDict(update) for update in await peer.stream(said("go"), transport)]
        check(updates)
        task = await peer.get(updates[-1]["statusUpdate"]["taskId"])
        assert (state(task), text_of(task)) == ("completed", WHOLE)


def broken(received: Received) -> Raw:
    """A reply with bytes that are no UTF-8: half of a character, and a byte that begins none."""
    rendered = FAMILIES["anthropic"].render(Answer(Turn("a HERE b"), received, Usage(9, output=9), "1" * 16))
    body = rendered if isinstance(rendered, bytes) else b"".join(rendered)
    assert b"HERE" in body
    return Raw(body=body.replace(b"HERE", b"\xf0\x9f\xff"), headers=(("content-type", "text/event-stream"),))


async def test_bytes_that_are_no_text_reach_an_editor_as_text(work: Path) -> None:
    async with agent_for(broken) as peer:
        assert await peer.prompt(await peer.new(work), "go") == "end_turn"
        check(peer.updates)
        assert peer.text().startswith("a \ufffd")
        assert peer.text().endswith("\ufffd b")


async def test_acp_shows_cut_call_as_failed(work: Path) -> None:
    async with agent_for(CUT, permission_mode="full", sandbox="off") as peer:
        assert await peer.prompt(await peer.new(work), "go") == "end_turn"
        assert peer.unfinished == {}
        ended = [each for each in peer.kinds("tool_call", "tool_call_update") if each.get("status") == "failed"]
        assert len(ended) == 1
        assert any("not run" in text for text in texts(ended))
        assert not peer.asked
    assert not (work / "ran").exists()


async def test_served_cut_call_is_an_error_that_nobody_is_asked_about(place: Path, provider: list[Step]) -> None:
    provider += CUT
    async with served(place) as client:
        name = await client.begin("go")
        found = await client.until(name, "result")
        (ended,) = [event.data for event in found if event.type == "tool_finished"]
        assert any("not run" in text for text in texts(ended))
        assert not any(event.data["questions"] for event in found if event.name == "status")
        assert found[-1].data["result"] == "ok"
    assert not (place / "ran").exists()


async def test_a2a_task_goes_on_after_cut_call(place: Path, provider: list[Step]) -> None:
    provider += CUT
    async with a2a_served(place) as [peer]:
        task = await peer.send(said("go"))
        assert (state(task), text_of(task)) == ("completed", "ok")
    assert not (place / "ran").exists()
