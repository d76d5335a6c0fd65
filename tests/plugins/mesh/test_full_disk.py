"""The disk of a bus is full: whoever is concerned learns it in a sentence, nothing is lost, and all goes on when there
is room."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import NoRoom
from sagent.plugins.mesh.room import Room
from sagent.testing.server import Call, Turn
from tests.depth import later, slow
from tests.plugins.mesh.places import Place, Process, by_results, place
from tests.plugins.mesh.test_failover import rebuilt, until


class Disk:
    """A disk that is as full as a test wants it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 50 << 20

        def of(_: Path) -> Room:
            return Room(0, self.free, 100 << 20)

        monkeypatch.setattr(Room, "of", of)


@asynccontextmanager
async def looked_after(here: Place) -> AsyncGenerator[asyncio.Queue[str]]:
    """What the bus reports while it looks after its disk."""
    assert here.broker is not None
    reports = asyncio.Queue[str]()
    keeping = asyncio.create_task(here.broker.keep_room(reports.put_nowait, 0.1))
    try:
        yield reports
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


@later
async def test_full_bus_reports_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    async with place(tmp_path, by_results([Turn("Done.")])) as here, looked_after(here) as reports:
        await here.bus.append(names.log_subject("s"), b"before")
        disk.free = 9 << 20
        assert (await reports.get()).startswith(
            f"9 MB are free on the disk of {tmp_path}/bus/store: the bus stores noth"
        )
        await here.bus.wait_until_up()
        for write in (
            lambda: here.bus.append(names.log_subject("s"), b"lost"),
            lambda: here.bus.bucket(names.LEASES).create("s", b"x"),
            lambda: here.bus.store(names.BLOBS).put("x", b"x"),
        ):
            with pytest.raises(NoRoom, match="disk is full, and nothing is stored"):
                await write()
        code, out, err = await here.ask("hello")
        assert (code, out, "The bus's disk is full" in err) == (1, "", True)
        disk.free = 11 << 20  # more than where it stops, and not yet enough
        await asyncio.sleep(0.3)
        assert reports.empty()
        disk.free = 20 << 20
        assert (await reports.get()).endswith("the bus continues")
        await here.node("n1")
        assert (await here.ask("hello"))[:2] == (0, "Done.\n")
        found = [message.data async for message in here.bus.read(names.LOG, f"sagent.log.{names.token('s')}.>")]
        assert found == [b"before"]


@slow
async def test_session_waits_for_bus_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    async with at_work(tmp_path) as (here, asked), looked_after(here) as reports:
        disk.free = 1 << 20
        await reports.get()
        await stands_still(here, asked)
        disk.free = 50 << 20
        await goes_on(here, asked)


@slow
@pytest.mark.needs("tmpfs")
async def test_bus_survives_disk_filled_by_others(tmp_path: Path) -> None:
    store = tmp_path / "bus" / "store"
    store.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(store)], check=True)
    try:
        async with at_work(tmp_path) as (here, asked), looked_after(here) as reports:
            ballast = store / "ballast"
            with suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(os.urandom(1 << 12))
            assert not shutil.disk_usage(store).free
            await reports.get()
            await stands_still(here, asked)
            ballast.unlink()
            assert (await reports.get()).endswith("the bus continues")
            await goes_on(here, asked)
    finally:
        subprocess.run(["umount", "--lazy", str(store)], check=True)


@asynccontextmanager
async def at_work(directory: Path) -> AsyncGenerator[tuple[Place, Process]]:
    """A session whose command leaves a mark each tenth of a second, and who has asked for it."""
    ticks = directory / "ticks"
    command = f"while true; do echo >>{ticks}; sleep 0.1; done"
    turns = [Turn("One.", calls=(Call("Bash", {"command": command}),)), Turn("Done.")]
    async with place(directory, by_results(turns)) as here, asyncio.timeout(90):
        await here.node("n1")
        pipe = asyncio.subprocess.PIPE
        asked = await here.start("--bus", here.url, "--json", "work", name="me", stdout=pipe, stderr=pipe)
        await until(here, ticks)
        yield here, asked


async def stands_still(here: Place, asked: Process) -> None:
    """Who has asked learns why, and nothing happens any more."""
    assert asked.process.stderr is not None
    while b"is stopped. The bus's disk is full" not in await asked.process.stderr.readline():
        assert asked.process.returncode is None
    ticks = here.directory / "ticks"
    size = ticks.stat().st_size
    await asyncio.sleep(1)
    assert ticks.stat().st_size == size


async def goes_on(here: Place, asked: Process) -> None:
    """The answer arrives, and the log has everything."""
    out, err = await asked.process.communicate()
    result = json.loads(out)
    assert (asked.process.returncode, result["result"]) == (0, "Done."), err
    assert "outcome is unknown" in here.server.requests[-1].body.decode()
    assert await rebuilt(here, result["session_id"], here.directory / "again")
