"""Characters that a provider splits, and calls that it cuts, as an editor sees them."""

from pathlib import Path

from acp_peer import agent_for

from sagent.testing.families import FAMILIES
from sagent.testing.families.answer import Answer
from sagent.testing.script import Raw, Received, Turn
from sagent.usage import Usage
from tests.split_text import CUT, SPLIT, WHOLE, check, texts


async def test_acp_updates_are_valid_text(work: Path) -> None:
    async with agent_for(SPLIT, permission_mode="full", sandbox="off") as peer:
        session = await peer.new(work)
        assert await peer.prompt(session, "go") == "end_turn"
        check(peer.updates)
        assert peer.text() == WHOLE * 2
        assert peer.text("agent_thought_chunk") == WHOLE


def broken(received: Received) -> Raw:
    """A reply with bytes that are no UTF-8: half of a character, and a byte that begins none."""
    rendered = FAMILIES["anthropic"].render(Answer(Turn("a HERE b"), received, Usage(9, output=9), "1" * 16))
    body = rendered if isinstance(rendered, bytes) else b"".join(rendered)
    assert b"HERE" in body
    return Raw(body=body.replace(b"HERE", b"\xf0\x9f\xff"), headers=(("content-type", "text/event-stream"),))


async def test_undecodable_bytes_become_text(work: Path) -> None:
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
