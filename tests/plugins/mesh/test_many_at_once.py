"""Many sessions that are asked for at once, and what a node does with its slots."""

import asyncio
import contextlib
from os import urandom
from pathlib import Path

import pytest

from sagent.plugins.mesh import names, remote
from sagent.plugins.mesh.commands.node import opener
from sagent.plugins.mesh.lease import Lease
from sagent.plugins.mesh.node import Node
from sagent.plugins.mesh.remote import Mesh
from sagent.plugins.mesh.session_worker import NodeOptions
from tests.depth import deep
from tests.plugins.mesh.places import place

MANY = deep(200, 500)


async def test_many_sessions_begin_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No time-out runs for those that wait for their turn, and each has an id of its own."""
    monkeypatch.setattr(remote, "new_session_id", lambda: f"20260101-000000-{urandom(3).hex()}")  # all in one second
    async with place(tmp_path, ()) as here, contextlib.AsyncExitStack() as stack:
        mesh = Mesh(here.bus)
        most = 0

        async def begin(number: int) -> str:
            nonlocal most
            peer = await stack.enter_async_context(mesh.spawn(f"What is {number}?"))
            most = max(most, mesh.waiting)
            return peer.path

        begun = await asyncio.gather(*(begin(number) for number in range(MANY)))
        begun += await asyncio.gather(*(mesh.submit("And this?") for _ in range(MANY)))
        assert MANY - remote.MAX_BEGINNING <= most < MANY
        assert mesh.waiting == 0
        assert sorted(record.id for record in await mesh.sessions()) == sorted(begun)
        assert len({*begun}) == 2 * MANY


async def test_waiting_session_can_be_cancelled(tmp_path: Path) -> None:
    async with place(tmp_path, ()) as here:
        mesh = Mesh(here.bus)
        asked = [asyncio.create_task(mesh.submit("Work.")) for _ in range(2 * remote.MAX_BEGINNING)]
        await asyncio.sleep(0)
        for task in asked[remote.MAX_BEGINNING :]:
            task.cancel()
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found[remote.MAX_BEGINNING :]] == [asyncio.CancelledError] * remote.MAX_BEGINNING
        assert len(await mesh.sessions()) == remote.MAX_BEGINNING


async def test_idle_labels_leave_slots_free(tmp_path: Path) -> None:
    """A label for which there is nothing to do takes no slot from the others."""
    async with place(tmp_path, ()) as here:
        node = Node(here.bus, NodeOptions("n1", 1, ("a", "b"), tmp_path / "node"), opener({}), pytest.fail)
        begun = asyncio.Event()
        working = asyncio.create_task(node.run(begun.set))
        await begun.wait()
        for _ in range(20):
            await asyncio.sleep(0.05)
            assert not node._slots.locked()
        node.drain()
        await working


async def test_lost_answer_leaves_no_lease_behind(tmp_path: Path) -> None:
    """A lease whose holder never learned that it has it is its holder's at the next try, and nobody else's."""
    async with place(tmp_path, ()) as here:
        await here.bus.bucket(names.LEASES).create("s", b"one")
        assert await Lease.take(here.bus, "s", "two") is None
        lease = await Lease.take(here.bus, "s", "one")
        assert lease is not None
        assert lease.holds
        assert await Lease.take(here.bus, "s", "two") is None
