"""Who holds a session, and for how long that is sure."""

import asyncio
from pathlib import Path

import pytest

from sagent.plugins.mesh import lease as leases
from sagent.plugins.mesh.jetstream import connected
from sagent.plugins.mesh.lease import HOLD_SECONDS, Lease
from sagent.plugins.mesh.server import ServerOptions, serving
from tests.waiting import SECONDS


async def test_lease_has_one_holder_at_a_time(tmp_path: Path) -> None:
    async with serving(ServerOptions(tmp_path / "bus", port=0)) as server, connected(server.url) as bus:
        await bus.ensure()
        first = await Lease.take(bus, "s", "one")
        assert first is not None
        assert first.holds
        assert await Lease.take(bus, "s", "two") is None
        await first.release()
        assert not first.holds
        second = await Lease.take(bus, "s", "two")
        assert second is not None
        assert second.revision > first.revision
        async with asyncio.timeout(SECONDS):  # it is not renewed
            while (third := await Lease.take(bus, "s", "three")) is None:
                await asyncio.sleep(0.2)
        assert not second.holds  # before anybody else could have it
        await second.keep()  # returns at once
        assert third.holds


async def test_ended_lease_stays_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ServerOptions(tmp_path / "bus", port=0)) as server, connected(server.url) as bus:
        await bus.ensure()
        lease = await Lease.take(bus, "s", "one")
        assert lease is not None
        now = leases.clock()
        monkeypatch.setattr(leases, "clock", lambda: now + HOLD_SECONDS + 1)
        assert not lease.holds
        monkeypatch.setattr(leases, "clock", lambda: now)
        assert not lease.holds  # whoever waited has given up, although a renewal may have arrived since
        await asyncio.wait_for(lease.keep(), 5)
