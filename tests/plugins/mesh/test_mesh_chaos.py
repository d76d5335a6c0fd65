"""Nodes are killed, stopped and cut off at random while sessions work: each one ends, its log verifies, nothing is lost
or done twice unsaid, and what the provider bills stays below the caps."""

import asyncio
import contextlib
import json
import random
import re
import signal
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from sagent.cost.prices import PriceBook
from sagent.events import Result
from sagent.plugins.mesh.logstream import SessionStream
from sagent.plugins.mesh.rebuild import rebuild
from sagent.plugins.mesh.remote import Mesh
from sagent.session.log import read_log
from sagent.testing.server import Call, Received, Step, Turn
from tests.depth import deep, slow
from tests.intact import faults
from tests.plugins.mesh.places import Place, Process, place
from tests.plugins.mesh.test_failover import Wire, port_of

SESSIONS, BLOWS, NODES, STEPS = deep(3, 100), deep(3, 30), 3, 3
CAP = Decimal("0.50")


def steps(directory: Path) -> Callable[[Received], Step]:
    """A model that has each session run commands, each of which leaves a mark, and then ends."""

    def choose(received: Received) -> Step:
        messages = json.loads(received.body)["messages"]
        name = re.search(r"session-(\d+)", str(messages[0]))
        done = sum(message["role"] == "assistant" for message in messages)
        if done == STEPS:
            return Turn("Done.")
        command = f"echo {name[1]}.{done} >>{directory}/marks; sleep 0.5" if name else "true"
        return Turn(f"Step {done}.", calls=(Call("Bash", {"command": command}, id=f"call{done}"),))

    return choose


@slow
async def test_sessions_end_under_node_chaos(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with place(tmp_path, steps(tmp_path), bill="worst") as here, asyncio.timeout(deep(60, 900)):
        mesh, wires = Mesh(here.bus), dict[str, Wire]()
        for number in range(NODES):
            await begin(here, f"n{number}", wires)
        blows = asyncio.create_task(strike(here, chance, wires))
        results = await asyncio.gather(*(work(mesh, number) for number in range(SESSIONS)))
        blows.cancel()
        await asyncio.gather(blows, return_exceptions=True)
        marks = (tmp_path / "marks").read_text().split()
        for number, result in enumerate(results):
            assert (result.content, result.error) == ("Done.", None)
            await check(here, result, number, marks, tmp_path / f"again{number}")
        prices = (PriceBook().price("anthropic", "claude-sonnet-4-6", usage) for usage in here.server.billed)
        assert sum(price or 0 for price in prices) <= CAP * SESSIONS


async def work(mesh: Mesh, number: int) -> Result:
    flags = {"max_budget_usd": str(CAP), "max_response_tokens": "1000"}
    async with mesh.spawn(f"This is session-{number}.", flags=flags) as peer:
        return await peer.wait()


async def strike(here: Place, chance: random.Random, wires: dict[str, Wire]) -> None:
    """Kill, stop or cut off one node after the other; a new one comes for each that was killed."""
    later = asyncio.get_running_loop().call_later
    for blow in range(BLOWS):
        await asyncio.sleep(chance.uniform(0.2, 0.8))
        name = chance.choice(sorted(here.nodes))
        node = here.nodes[name]
        match ("kill", "stop", "cut")[blow % 3]:
            case "stop":
                node.kill(signal.SIGSTOP)
                later(6.0, _wake, node)
            case "cut":
                wires[name].cut()
                later(chance.uniform(1.0, 8.0), wires[name].heal)
            case _:
                node.kill(signal.SIGKILL)
                del here.nodes[name]
                await begin(here, f"m{blow}", wires)


async def begin(here: Place, name: str, wires: dict[str, Wire]) -> None:
    """A node with a way to the bus of its own."""
    wire = wires[name] = await here.stack.enter_async_context(Wire(port_of(here.url)))
    url = here.url.replace(str(port_of(here.url)), str(wire.port))
    await here.node(name, "--slots", str(max(2, SESSIONS // NODES)), bus=url)


def _wake(node: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        node.kill(signal.SIGCONT)


async def check(here: Place, result: Result, number: int, marks: list[str], directory: Path) -> None:
    """A session's log verifies, has the head that its result names, and says of each call what the marks say."""
    await rebuild(SessionStream(here.bus, result.session_id), directory)
    assert faults(directory) == []
    entries = list(read_log(directory / "root.jsonl"))
    assert result.head in {entry.id for entry in entries}
    text = b"".join(entry.line for entry in entries if entry.kind == "result").decode()
    for step in range(STEPS):
        times = marks.count(f"{number}.{step}")
        assert times <= 1
        assert times == 1 or "outcome is unknown" in text
