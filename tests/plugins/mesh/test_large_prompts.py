"""Messages that are larger than the bus takes in one."""

import asyncio
from pathlib import Path

import pytest

from sagent.messages import Document, user
from sagent.plugins.mesh import names
from sagent.plugins.mesh.bus import MAX_BODY_BYTES
from sagent.plugins.mesh.errors import TooLarge
from sagent.plugins.mesh.records import InboxMessage, Records
from sagent.plugins.mesh.remote import Mesh
from sagent.testing.server import Turn
from tests.depth import later
from tests.plugins.mesh.places import by_results, place

PDF = b"%PDF-1.4\n" + bytes(7 << 20)


@later
async def test_prompt_above_8_mb_arrives(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("One."), Turn("Two.")])) as here, asyncio.timeout(60):
        await here.node("n1")
        async with Mesh(here.bus).spawn(user("look ä", Document("application/pdf", PDF))) as peer:
            assert (await peer.wait()).content == "One."
            peer.send(user("look", Document("application/pdf", PDF)), "next")
            result = await peer.wait()
        assert (result.content, result.error) == ("Two.", None)
        assert any(file.read_bytes() == PDF for file in tmp_path.rglob("blobs/*"))
        assert [entry async for entry in here.bus.read(f"OBJ_{names.PARCELS}", "$O.sagent-parcels.C.>")] == []


@later
async def test_oversized_prompt_leaves_no_record(tmp_path: Path) -> None:
    async with place(tmp_path, ()) as here:
        mesh, prompt = Mesh(here.bus), "a" * (MAX_BODY_BYTES + 1)
        with pytest.raises(TooLarge, match="33,554,432"):
            await mesh.submit(prompt)
        with pytest.raises(TooLarge):
            async with mesh.spawn(prompt):
                pytest.fail("it was sent")
        assert await mesh.sessions() == []


@later
async def test_missing_prompt_body_answered(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("One."), Turn("Two.")])) as here, asyncio.timeout(60):
        records = Records(here.bus)
        session = await Mesh(here.bus).submit("a" * 1_000_000)
        async with Mesh(here.bus).agent(session) as peer:
            last = await here.bus.last_message(names.INBOX, names.inbox_subject(f"session.{session}"))
            assert last is not None
            await here.bus.store(names.PARCELS).delete(last.headers["Sagent-Parcel"])
            peer.expect(last.sequence)
            await here.node("n1")
            result = await peer.wait()
            assert result.error is not None
            assert "is gone" in result.error.message
            peer.expect(await records.send(peer.record, InboxMessage(user("b"))))
            assert (await peer.wait()).content == "One."
