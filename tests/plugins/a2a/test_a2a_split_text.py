"""Characters that a provider splits, and calls that it cuts, as A2A clients see them."""

from pathlib import Path

import pytest
from a2a_served import a2a_served, said, state, text_of
from google.protobuf.json_format import MessageToDict

from sagent.testing.script import Step
from tests.split_text import CUT, SPLIT, WHOLE, check


@pytest.mark.costly
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_a2a_updates_are_valid_text(place: Path, provider: list[Step], transport: str) -> None:
    provider += SPLIT
    async with a2a_served(place) as [peer]:
        updates = [MessageToDict(update) for update in await peer.stream(said("go"), transport)]
        check(updates)
        task = await peer.get(updates[-1]["statusUpdate"]["taskId"])
        assert (state(task), text_of(task)) == ("completed", WHOLE)


async def test_a2a_task_goes_on_after_cut_call(place: Path, provider: list[Step]) -> None:
    provider += CUT
    async with a2a_served(place) as [peer]:
        task = await peer.send(said("go"))
        assert (state(task), text_of(task)) == ("completed", "ok")
    assert not (place / "ran").exists()
