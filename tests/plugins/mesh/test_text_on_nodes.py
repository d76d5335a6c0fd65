"""Models that write their calls as text, on a node: whoever starts a session may say so."""

import json
from pathlib import Path

from sagent.plugins.mesh.remote import Mesh
from sagent.testing.server import Received, Step, Turn
from tests.depth import later
from tests.plugins.mesh.places import place


def write_then_end(received: Received) -> Step:
    assert "tools" not in received.json
    messages = json.loads(received.body)["messages"]
    return Turn("Done.") if len(messages) > 1 else Turn("I write.\n\nb.txt\n```\ny\n```\n")


@later
async def test_text_session_runs_on_node(tmp_path: Path) -> None:
    async with place(tmp_path, write_then_end) as here:
        await here.node("n1")
        async with Mesh(here.bus).spawn("Write b.txt", flags={"tool_calls": "text"}) as peer:
            result = await peer.wait()
    assert (result.content, result.turns) == ("Done.", 2), result.error
