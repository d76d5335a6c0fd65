"""Characters that a provider splits, and calls that it cuts, as clients of `sagent serve` see them."""

from pathlib import Path

from served import served

from sagent.testing.script import Step
from tests.split_text import CUT, SPLIT, WHOLE, check, texts


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


async def test_cut_call_is_unasked_error(place: Path, provider: list[Step]) -> None:
    provider += CUT
    async with served(place) as client:
        name = await client.begin("go")
        found = await client.until(name, "result")
        (ended,) = [event.data for event in found if event.type == "tool_finished"]
        assert any("not run" in text for text in texts(ended))
        assert not any(event.data["questions"] for event in found if event.name == "status")
        assert found[-1].data["result"] == "ok"
    assert not (place / "ran").exists()
