"""A name is one node's at a time."""

import asyncio
import signal
from pathlib import Path

import pytest

from sagent.plugins.mesh import names
from sagent.plugins.mesh.commands.node import opener
from sagent.plugins.mesh.errors import Refused
from sagent.plugins.mesh.lease import Lease
from sagent.plugins.mesh.node import Node
from sagent.plugins.mesh.session_worker import NodeOptions
from sagent.testing.server import Turn
from tests.depth import later
from tests.plugins.mesh.places import by_results, place


@later
async def test_duplicate_node_name_refused(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Fine.")])) as here:
        first = await here.node("n1")
        code, out, err = await here.ask_plain("node", "--bus", here.url, "--name", "n1", "--model", "anthropic/x")
        assert (code, out) == (1, "")
        assert "A node n1 is on this bus" in err and f"process {first.process.pid} on" in err
        assert "Give this one another --name." in err
        first.kill(signal.SIGKILL)
        await first.process.wait()
        async with asyncio.timeout(60):
            await here.node("n1")  # when the lease has expired
        assert (await here.ask("hello"))[:2] == (0, "Fine.\n")


async def test_node_whose_name_was_taken_leaves(tmp_path: Path) -> None:
    async with place(tmp_path, ()) as here, asyncio.timeout(60):
        node = Node(here.bus, NodeOptions("n1", 1, (), tmp_path / "node"), opener({}), print)
        begun = asyncio.Event()
        working = asyncio.create_task(node.run(begun.set))
        await begun.wait()
        await here.bus.bucket(names.LEASES).delete("node=2En1")
        other = await Lease.take(here.bus, "node.n1", "process 1 on elsewhere")
        assert other is not None
        keeping = asyncio.create_task(other.keep())
        with pytest.raises(Refused, match="A node n1 is on this bus already: process 1 on elsewhere"):
            await working
        assert other.holds
        keeping.cancel()
