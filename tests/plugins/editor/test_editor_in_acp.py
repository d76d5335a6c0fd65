"""The link of an editor in a session that a client of the Agent Client Protocol has set up."""

import pytest

from sagent.testing.script import Call, Received, Turn
from tests.plugins.editor.extension import Extension

pytest.importorskip("sagent.plugins.acp")

from tests.plugins.acp.acp_peer import agent_for


async def test_selection_and_errors_sent(extension: Extension, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(extension.home))
    work, requests = extension.folder, list[str]()

    def reply(request: Received) -> Turn:
        requests.append(request.body.decode())
        wanted = ("x = BUG\n", "y = BUG\nx = BUG\n")
        if len(requests) <= len(wanted):
            return Turn("", calls=(Call("Write", {"file_path": "a.py", "content": wanted[len(requests) - 1]}),))
        return Turn("done")

    async with extension.listening(), agent_for(reply, diagnostics="off") as peer:
        session = await peer.new(work)
        await extension.select(work / "b.py", "selected words")
        assert await peer.prompt(session, "go") == "end_turn"
        assert "selected words" in requests[0] and "lines 3-4" in requests[0]
        first, second = (
            each["content"] for each in peer.kinds("tool_call_update") if each.get("status") == "completed"
        )
        assert first and second
        assert "bad: x = BUG" in requests[1] and "a.py:1" in requests[1]
        assert "bad: y = BUG" in requests[2] and requests[2].count("bad: x = BUG") == 1
        assert await peer.prompt(session, "again") == "end_turn"
        assert requests[-1].count("selected words") == 1
        await extension.sockets[-1].close()
        assert await peer.prompt(session, "and again") == "end_turn"


async def test_editor_link_can_be_off(extension: Extension, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(extension.home))
    async with extension.listening(), agent_for([Turn("x")], editor_link="false") as peer:
        await peer.new(extension.folder)
        assert not extension.sockets
