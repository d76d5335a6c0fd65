"""What a node tells whoever runs it: its log, its figures, and that it waits for its bus."""

import asyncio
import json
import re
import signal
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from sagent.plugins.mesh.server import ServerOptions, serving
from sagent.testing.server import Call, Turn
from tests.plugins.mesh.places import MODEL, Place, by_results, place

PIPE = asyncio.subprocess.PIPE


async def lines_until(stream: asyncio.StreamReader, wanted: str) -> list[str]:
    found = list[str]()
    async with asyncio.timeout(60):
        while not found or wanted not in found[-1]:
            line = (await stream.readline()).decode()
            assert line, found
            found.append(line.rstrip())
    return found


async def started(here: Place, *argv: str, url: str = "") -> tuple[asyncio.subprocess.Process, asyncio.StreamReader]:
    node = await here.start(
        "node", "--bus", url or here.url, "--name", "n1", "--model", MODEL, *argv, name="n1", stderr=PIPE
    )
    assert node.process.stderr is not None
    return node.process, node.process.stderr


async def test_node_logs_as_json_and_shows_figures(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Done.")])) as here:
        process, said = await started(here, "--log-format", "json", "--log-level", "info", "--metrics", "0")
        (address,) = re.findall(r"http://\S+", " ".join(await lines_until(said, "figures for Prometheus")))
        await lines_until(said, "takes work")
        assert (await here.ask("hello"))[0] == 0
        notes = [json.loads(line) for line in await lines_until(said, "finished")]
        assert [(note["act"], note["level"], note["node"], note["held"]) for note in notes] == [
            ("taken", "info", "n1", 1),
            ("finished", "info", "n1", 0),
        ]
        assert len({note["session"] for note in notes}) == 1
        text = (await asyncio.to_thread(lambda: urlopen(address).read())).decode()
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert figures["sagent_node_sessions"] == "0"
        assert figures["sagent_node_slots"] == "8"
        assert figures["sagent_bus_up"] == "1"
        assert figures["sagent_node_model_calls_total"] == "1"
        assert float(figures["sagent_node_usd_total"]) > 0
        assert figures['sagent_node_acts_total{act="finished"}'] == "1"
        assert all(f"# TYPE {name.partition('{')[0]} " in text for name in figures)
        with pytest.raises(HTTPError, match="404"):
            await asyncio.to_thread(urlopen, address.replace("metrics", "other"))
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_node_says_what_it_gives_back(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"touch {begun}; sleep 1"}),)), Turn("Done.")]
    async with place(tmp_path, by_results(turns)) as here:
        process, said = await started(here, "--log-level", "info", "--permission-mode", "full", "--sandbox", "off")
        await lines_until(said, "takes work")
        asking = asyncio.create_task(here.ask("hello"))
        await lines_until(said, "is taken")
        while not begun.exists():
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert "is released for other nodes" in (await lines_until(said, "is released"))[-1]
        await here.node("n2")
        assert (await asking)[0] == 0


async def test_node_waits_for_its_bus(tmp_path: Path) -> None:
    async with serving(ServerOptions(tmp_path / "gone", port=0)) as server:
        url, port = server.url, server.port
    async with place(tmp_path, by_results([Turn("Done.")])) as here:
        _, said = await started(here, url=url)
        assert "There is no bus at" in (await lines_until(said, "tries again in 2 s"))[0]
        async with serving(ServerOptions(tmp_path / "gone", port=port)):
            await lines_until(said, "takes work")
            assert (await here.ask_plain("--bus", url, "hello"))[:2] == (0, "Done.\n")
