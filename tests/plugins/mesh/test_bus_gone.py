"""A bus that cannot be reached any more: whoever is asked to stop does so."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from sagent.plugins.mesh.errors import Unavailable
from sagent.plugins.mesh.jetstream import connected
from sagent.plugins.mesh.remote import Mesh
from sagent.testing.server import Call, Turn
from tests.depth import later, slow
from tests.listening import listen
from tests.plugins.mesh.places import Place, Process, by_results, place
from tests.waiting import SECONDS, stop, until

AT_WORK = [Turn("I work.", calls=(Call("Bash", {"command": "touch begun; sleep 60"}),)), Turn("Done.")]


async def gone(here: Place, how: signal.Signals) -> None:
    assert here.broker is not None
    pid = here.broker.process.pid
    if how == signal.SIGSTOP:
        here.stack.callback(os.kill, pid, signal.SIGCONT)
        stop(pid)
    else:
        os.kill(pid, how)
        await here.broker.process.ended()


async def ended(process: Process) -> int:
    async with asyncio.timeout(SECONDS):
        return await process.process.wait()


@later
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=slow)])
async def test_first_signal_ends_client_and_node(tmp_path: Path, how: signal.Signals) -> None:
    pipe = asyncio.subprocess.PIPE
    async with place(tmp_path, by_results(AT_WORK)) as here:
        node, idle = await here.node("n1"), await here.node("n2", "--label", "x", "--slots", "1")
        asked = await here.start("--bus", here.url, "--json", "work", name="me", stdout=pipe, stderr=pipe)
        async with asyncio.timeout(60):
            while not list(tmp_path.rglob("begun")):
                await asyncio.sleep(0.05)
        session = (await Mesh(here.bus).sessions())[0].id
        await gone(here, how)
        for process in (asked, node, idle):
            process.kill(signal.SIGINT if process is asked else signal.SIGTERM)
        assert [await ended(process) for process in (node, idle, asked)] == [0, 0, 130]
        assert asked.process.stdout is not None
        shown = json.loads(await asked.process.stdout.read())
        assert shown["error"]["kind"] == "interrupted"
        assert f"sagent attach {session}" in shown["error"]["message"]


@later
async def test_node_survives_bus_data_loss(tmp_path: Path) -> None:
    async with place(tmp_path, [AT_WORK[0], Turn("Fine.")]) as here:
        await here.node("n1")
        asking = asyncio.create_task(here.ask("--json", "work"))
        async with asyncio.timeout(60):
            while not list(tmp_path.rglob("begun")):
                await asyncio.sleep(0.05)
        await here.restart_bus(lost=True)
        code, out, err = await asking
        assert (code, "data was lost" in out + err) == (1, True), (out, err)
        assert (await here.ask("again"))[:2] == (0, "Fine.\n")


@later
async def test_message_in_flight_blocks_nobody(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Fine.")])) as here:
        await here.node("n1")
        async with asyncio.timeout(4 * SECONDS), Mesh(here.bus).spawn("hello") as peer:
            assert (await peer.wait()).content == "Fine."
            await gone(here, signal.SIGSTOP)
            peer.send("more")
            peer.interrupt()
            async with asyncio.timeout(SECONDS):
                with pytest.raises(Unavailable, match="was not interrupted"):
                    await peer.wait()


async def test_failed_reconnect_leaves_no_socket() -> None:
    """A stopped server still accepts connections, one for each attempt."""
    left: list[asyncio.Event] = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left.append(asyncio.Event())
        if len(left) == 1:
            writer.write(b'INFO {"max_payload": 1048576, "version": "2.11.0"}\r\nPONG\r\n')
            await reader.readuntil(b"PING\r\n")  # and then it is gone
            return
        writer.write(b"not yet\r\n")
        number = len(left) - 1
        await reader.read()
        left[number].set()

    async with asyncio.timeout(SECONDS), listen(hang) as address, connected(f"nats://{address}"):
        await until(lambda: len(left) > 1, "the first attempt")
        await left[1].wait()
