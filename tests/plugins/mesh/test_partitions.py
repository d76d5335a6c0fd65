"""Machines that are cut off from the bus, in both directions and without anybody being told."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.cost.prices import PriceBook
from sagent.lib.money import ZERO
from sagent.plugins.mesh import names
from sagent.testing.server import Call, Received, Step, Turn
from tests.depth import slow
from tests.plugins.mesh.network import BUS, WORLD, Network, forwarded, network
from tests.plugins.mesh.places import Place, Process, by_results, place
from tests.plugins.mesh.test_failover import rebuilt, until

pytestmark = [slow, pytest.mark.needs("veth")]
PATIENT = "from sagent.plugins.mesh import names; names.LEASE_TTL = 200.0; from sagent.bin.cli import start; start()"
"""A node that goes on for as long without the bus."""


@asynccontextmanager
async def machines(directory: Path, *turns: Step) -> AsyncGenerator[tuple[Place, Network]]:
    """A bus at this machine's end of a network, and the model at the other one."""
    async with network() as net, asyncio.timeout(120):
        choose = by_results(turns)

        def script(received: Received) -> Step:
            return Turn("Hello.") if b"hello" in received.body else choose(received)

        async with place(directory, script, host=net.address(BUS), bill="worst") as here:
            port = await here.stack.enter_async_context(forwarded(net.address(WORLD), port_of(here.server.url)))
            here.provider = f"http://{net.address(WORLD)}:{port}"
            yield here, net


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def ticking(directory: Path) -> Turn:
    """A command that leaves a mark each tenth of a second, and does not end."""
    return Turn("One.", calls=(Call("Bash", {"command": f"while true; do echo >>{directory}/ticks; sleep 0.1; done"}),))


async def shown_again(here: Place, name: str) -> None:
    """Return when a node is among those that take work."""
    while await here.bus.bucket(names.CARDS).get(f"node.{name}") is None:
        await asyncio.sleep(0.2)


def bills(here: Place) -> Decimal:
    """USD that the provider has billed."""
    book = PriceBook()
    return sum((book.price("anthropic", "claude-sonnet-4-6", usage) or ZERO for usage in here.server.billed), ZERO)


async def is_silent(here: Place) -> bool:
    size = (here.directory / "ticks").stat().st_size
    await asyncio.sleep(0.5)
    return (here.directory / "ticks").stat().st_size == size


async def test_cut_off_node_stops_before_next(
    tmp_path: Path,
) -> None:
    async with machines(tmp_path, ticking(tmp_path), Turn("Done.")) as (here, net):
        await here.node("n1", within=net.machine("m1"))
        asking = asyncio.create_task(here.ask("--json", "work"))
        await until(here, tmp_path / "ticks")
        second = await here.node("n2", within=net.machine("m2"))
        net.pull("m1")
        cut = time.monotonic()
        code, out, err = await asking
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        began = here.server.requests[-1].at
        print(f"another node was at work {began - cut:.1f} s after the cut")
        assert (tmp_path / "ticks").stat().st_mtime < time.time() - (time.monotonic() - began)
        assert await is_silent(here)
        session = json.loads(out)["session_id"]
        before = await rebuilt(here, session, tmp_path / "before")
        net.heal("m1")
        await shown_again(here, "n1")
        second.kill(signal.SIGTERM)
        await second.process.wait()
        code, out, err = await here.ask("--json", "hello")  # it takes work again
        assert (code, json.loads(out)["result"]) == (0, "Hello."), err
        assert await rebuilt(here, session, tmp_path / "after") == before


async def test_reply_during_partition_not_logged(tmp_path: Path) -> None:
    async with machines(tmp_path, Turn("Done.", delay=5)) as (here, net):
        await here.node("n1", within=net.machine("m1"))
        asking = asyncio.create_task(here.ask("--json", "--max-budget-usd", "0.5", "work"))
        while not here.server.requests:
            await asyncio.sleep(0.05)
        await here.node("n2", within=net.machine("m2"))
        net.pull("m1")
        code, out, err = await asking
        result = json.loads(out)
        assert (code, result["result"]) == (0, "Done."), err
        net.heal("m1")
        await shown_again(here, "n1")
        log = (await rebuilt(here, result["session_id"], tmp_path / "log"))["root.jsonl"]
        replies = [line for line in log.splitlines() if b'"role":"assistant"' in line]
        assert (len(here.server.requests), len(replies)) == (2, 1)
        assert bills(here) <= Decimal("0.5")


async def test_short_partition_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With leases that outlast the test, for on a busy machine any cut may be longer than the usual ones."""
    monkeypatch.setattr(names, "MAX_LEASE_TTL", 240.0)
    turn = Turn("One.", calls=(Call("Bash", {"command": f"echo >>{tmp_path}/ticks; sleep 4"}),))
    async with machines(tmp_path, turn, Turn("Done.")) as (here, net):
        here.program = (sys.executable, "-c", PATIENT)
        await here.node("n1", within=net.machine("m1"))
        asking = asyncio.create_task(here.ask("--json", "work"))
        await until(here, tmp_path / "ticks")
        await here.node("n2", within=net.machine("m2"))
        net.pull("m1")
        await asyncio.sleep(1.5)
        net.heal("m1")
        code, out, err = await asking
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        assert "unknown" not in here.server.requests[-1].body.decode()
        assert (tmp_path / "ticks").read_text() == "\n"


async def asked_from(here: Place, net: Network) -> Process:
    """A prompt from a machine of its own."""
    pipe = asyncio.subprocess.PIPE
    argv = ("--bus", here.url, "--json", "work")
    return await here.start(*argv, name="me", within=net.machine("m0"), stdout=pipe, stderr=pipe)


async def test_caller_gets_answer_after_partition(tmp_path: Path) -> None:
    turn = Turn("One.", calls=(Call("Bash", {"command": f"echo >>{tmp_path}/ticks; sleep 1"}),))
    async with machines(tmp_path, turn, Turn("Done.")) as (here, net):
        await here.node("n1", within=net.machine("m1"))
        asked = await asked_from(here, net)
        await until(here, tmp_path / "ticks")
        net.pull("m0")
        await asyncio.sleep(20)  # so long that the bus has forgotten the connection
        assert len(here.server.requests) == 2
        net.heal("m0")
        out, err = await asked.process.communicate()
        assert (asked.process.returncode, json.loads(out)["result"]) == (0, "Done."), err


async def test_cut_off_client_can_leave(tmp_path: Path) -> None:
    async with machines(tmp_path, ticking(tmp_path)) as (here, net):
        await here.node("n1", within=net.machine("m1"))
        asked = await asked_from(here, net)
        await until(here, tmp_path / "ticks")
        net.pull("m0")
        asked.kill(signal.SIGINT)
        out, _ = await asked.process.communicate()
        assert asked.process.returncode == 130
        assert "may be at work" in json.loads(out)["error"]["message"]
        assert not await is_silent(here)
