"""Who holds a session, and for how long that is sure."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from sagent.plugins.mesh import lease as leases
from sagent.plugins.mesh import names
from sagent.plugins.mesh.jetstream import JetStream, connected
from sagent.plugins.mesh.lease import Lease, Pace
from sagent.plugins.mesh.server import ServerOptions, serving
from tests.plugins.mesh.slow_machine import SlowBus, on_slow_machine
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
        assert not second.holds
        assert third.holds


async def test_late_holder_goes_on_if_none_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ServerOptions(tmp_path / "bus", port=0)) as server, connected(server.url) as bus:
        await bus.ensure()
        paused = Pace()
        paused.add(20.0)  # and so its lease lasts
        lease = await Lease.take(bus, "s", "one", paused)
        assert lease is not None
        now, shift = leases.clock, 100.0
        monkeypatch.setattr(leases, "clock", lambda: now() + shift)
        assert not lease.holds
        keeping = asyncio.create_task(lease.keep())
        async with asyncio.timeout(SECONDS):
            while not lease.holds:
                await asyncio.sleep(0.05)
        assert await Lease.take(bus, "s", "two") is None
        shift = 200.0
        await bus.bucket(names.LEASES).put("s", b"two")
        await keeping
        assert not lease.holds
        assert "did not run" in lease.why


async def test_lease_lasts_as_long_as_pauses_do(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(leases, "clock", lambda: now)
    pace = Pace()
    assert pace.ttl == names.LEASE_TTL
    pace.add(5.0)
    pace.add(0.1)
    assert (pace.longest, pace.ttl) == (5.0, 12.0)
    now += 30
    pace.add(600.0)
    assert pace.ttl == names.MAX_LEASE_TTL
    pace.add(2.0)
    now += 50  # all of that but the last is forgotten after a minute
    pace.add(1.0)
    now += 20
    assert pace.longest == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_slow_machine_gets_its_work_done(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of a machine with far too much to do: each step of work takes longer than the usual lease, and every
    session gets done, without a step made under two holders."""
    done, steps = set[int](), dict[int, list[int]]()

    async def session(bus: SlowBus, pace: Pace, number: int, node: str) -> None:
        if (lease := await Lease.take(cast("JetStream", bus), f"s{number}", node, pace)) is None:
            await asyncio.sleep(2.0)
            return
        keeping, made = asyncio.create_task(lease.keep()), 0
        while made < 4 and not keeping.done():
            bus.machine.block()  # opens an agent, encodes a request
            await asyncio.sleep(0.1)
            while not lease.holds and not keeping.done():
                await asyncio.sleep(0.05)
            if lease.holds:
                made += 1
                steps.setdefault(number, []).append(lease.revision)
        if made == 4 and lease.holds:
            done.add(number)
        keeping.cancel()
        await lease.release()

    async def node(bus: SlowBus, name: str) -> None:
        pace, slot = Pace(), asyncio.Semaphore(1)
        measuring = asyncio.create_task(pace.measure())

        async def take(number: int) -> None:
            while number not in done:
                async with slot:
                    await session(bus, pace, number, name)

        await asyncio.gather(*(take(number) for number in range(6)))
        measuring.cancel()

    async def fleet(bus: SlowBus) -> None:
        await asyncio.gather(*(node(bus, f"n{number}") for number in range(3)))

    seconds = on_slow_machine(fleet, seed, monkeypatch)
    assert len(done) == 6, (seconds, steps)
    assert all(made == sorted(made) for made in steps.values())  # whoever lost it never goes on


async def test_bus_of_earlier_version_updated(tmp_path: Path) -> None:
    """Its leases ended after four seconds at most."""
    async with serving(ServerOptions(tmp_path / "bus", port=0)) as server, connected(server.url) as bus:
        await bus.ensure()
        context, name = bus.context, f"KV_{names.LEASES}"
        config = (await context.stream_info(name)).config
        await context.update_stream(replace(config, max_age=4.0, duplicate_window=4.0))
        await bus.ensure()
        assert (await context.stream_info(name)).config.max_age == names.MAX_LEASE_TTL
