"""Characters that a provider splits, and a call that it cuts, heard over the bus."""

import asyncio
from pathlib import Path

from sagent.events import Event, TextDelta, ThinkingDelta, ToolFinished
from sagent.plugins.mesh.remote import Mesh
from sagent.testing.server import Call, Turn
from tests.depth import later
from tests.plugins.mesh.places import by_results, place

HALVES, WHOLE = "a\ud83d\ude00 e\u0301 \ud83d\udc69\u200d\ud83d\udc69 b\ud83d", "a😀 e\u0301 👩\u200d👩 b\ufffd"


@later
async def test_remote_deltas_are_valid_text(tmp_path: Path) -> None:
    cut = Call("Bash", f'{{"command": "touch {tmp_path}/ran', cut=True)
    turns = [Turn("", calls=(cut,), stop="max_tokens"), Turn(HALVES, thinking=HALVES, pieces=1)]
    heard = list[Event]()
    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(60):
        await here.node("n1", "--permission-mode", "full", "--sandbox", "off")
        async with Mesh(here.bus).spawn("work") as peer:
            peer.listen(heard.append)
            assert (await peer.wait()).content == WHOLE
    deltas = [event for event in heard if isinstance(event, TextDelta | ThinkingDelta)]
    for kind in (TextDelta, ThinkingDelta):
        said = [event.text for event in deltas if isinstance(event, kind)]
        assert all(text.encode() for text in said)
        assert "".join(said) == WHOLE
    (ended,) = [event for event in heard if isinstance(event, ToolFinished)]
    assert ended.result.is_error
    assert "not run" in ended.result.text
    assert not ended.call.whole
    assert not (tmp_path / "ran").exists()
