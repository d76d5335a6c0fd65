"""Three servers that are one bus: it goes on though one of them is killed, or cannot be reached by the others."""

import asyncio
import json
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from sagent.plugins.mesh import names
from sagent.plugins.mesh.jetstream import connected
from sagent.plugins.mesh.security import Users
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.certificates import write_certificate
from tests.depth import slow
from tests.plugins.mesh.network import BUS, WORLD, Network, forwarded, network
from tests.plugins.mesh.places import PROGRAM, Place, Process, by_results
from tests.plugins.mesh.test_failover import rebuilt, until
from tests.plugins.mesh.test_partitions import port_of, shown_again

pytestmark = [slow, pytest.mark.needs("veth")]
SERVERS = ("b1", "b2", "b3")
PORT, ROUTE = 4222, 6222


class Cluster:
    """The servers, each on a machine of its own, and where a session is at work."""

    def __init__(self, here: Place, net: Network, within: Mapping[str, Sequence[str]]) -> None:
        self.here, self.net, self._within = here, net, within
        self.running: dict[str, Process] = {}

    def url(self, *servers: str) -> str:
        folder = self.here.directory
        places = ",".join(f"{self.net.address(BUS, name)}:{PORT}" for name in servers or SERVERS)
        files = "&".join(f"{name}={folder}/bus.pem" for name in ("ca", "cert", "cert_key"))
        return f"tls://{places}?key={folder}/users/acme.n.nk&{files}"

    async def start(self, name: str) -> None:
        folder, own = self.here.directory, self.net.address(BUS, name)
        argv = ["bus", "--host", own, "--dir", str(folder / name), "--users", str(folder / "users" / "users.conf")]
        argv += [f"--tls-{part}={folder / 'bus.pem'}" for part in ("cert", "key", "ca")]
        argv += ["--cluster", f"{own}:{ROUTE}", "--cluster-key", "secret"]
        argv += [f"--peer={self.net.address(BUS, other)}:{ROUTE}" for other in SERVERS if other != name]
        server = await self.here.start(*argv, name=name, within=self._within[name], stdout=asyncio.subprocess.PIPE)
        assert server.process.stdout is not None
        assert (await server.process.stdout.readline()).startswith(b"tls://")
        self.running[name] = server

    async def leader(self, stream: str) -> str:
        """The server that leads a stream."""
        info = await self.here.bus.context.stream_info(stream)
        assert info.config.num_replicas == 3
        assert info.cluster is not None
        for name in SERVERS:
            if (self.here.directory / name / "name").read_text().strip() == info.cluster.leader:
                return name
        raise AssertionError(f"no leader: {info.cluster}")


@asynccontextmanager
async def cluster(directory: Path, *turns: Turn) -> AsyncGenerator[Cluster]:
    async with network() as net, asyncio.timeout(180), AsyncExitStack() as stack:
        within = {name: net.machine(name) for name in SERVERS}
        write_certificate(directory / "bus.pem", *(net.address(BUS, name) for name in SERVERS))
        users = Users(directory / "users")
        users.change("acme", [("node", "n", ())], [])
        server = await stack.enter_async_context(FakeProviderServer(by_results(turns)))
        port = await stack.enter_async_context(forwarded(net.address(WORLD), port_of(server.url)))
        here = Place(directory, "", None, server, stack, provider=f"http://{net.address(WORLD)}:{port}")  # pyright: ignore[reportArgumentType] -- not yet
        found = Cluster(here, net, within)
        await asyncio.gather(*(found.start(name) for name in SERVERS))
        here.url = found.url()
        here.bus = await stack.enter_async_context(connected(here.url))
        await here.bus.ensure()
        yield found


async def test_sessions_survive_leader_kill(tmp_path: Path) -> None:
    turn = Turn("One.", calls=(Call("Bash", {"command": f"echo >>{tmp_path}/ticks; sleep 2"}),))
    async with cluster(tmp_path, turn, Turn("Done.")) as all_of_it:
        here, net = all_of_it.here, all_of_it.net
        await here.node("n1", within=net.machine("m1"))
        await here.node("n2", within=net.machine("m2"))
        for stream in (names.LOG, f"KV_{names.LEASES}", names.WORK):
            (tmp_path / "ticks").unlink(missing_ok=True)
            asking = asyncio.create_task(here.ask("--json", "work"))
            await until(here, tmp_path / "ticks")
            leader = await all_of_it.leader(stream)
            server = all_of_it.running[leader]
            server.kill(signal.SIGKILL)
            killed = time.monotonic()
            await server.process.wait()
            code, out, err = await asking
            assert (code, json.loads(out)["result"]) == (0, "Done."), err
            print(f"{stream}: the answer came {time.monotonic() - killed:.1f} s after its leader was killed")
            assert (tmp_path / "ticks").read_text() == "\n"
            assert await rebuilt(here, json.loads(out)["session_id"], tmp_path / stream)
            await all_of_it.start(leader)


async def test_emptied_server_gets_all_data(tmp_path: Path) -> None:
    async with cluster(tmp_path) as all_of_it:
        server, store = all_of_it.running["b1"], tmp_path / "b1" / "store"
        server.kill(signal.SIGTERM)
        await server.process.wait()
        shutil.rmtree(tmp_path / "b1")
        await all_of_it.start("b1")
        await until(all_of_it.here, store / "jetstream" / "acme" / "streams" / names.LOG)


async def test_minority_side_stops(tmp_path: Path) -> None:
    command = f"while true; do echo >>{tmp_path}/ticks; sleep 0.1; done"
    turns = [Turn("One.", calls=(Call("Bash", {"command": command}),)), Turn("Done.")]
    async with cluster(tmp_path, *turns) as all_of_it:
        here, net = all_of_it.here, all_of_it.net
        lone = await all_of_it.leader(names.LOG)
        await here.node("n1", bus=all_of_it.url(lone), within=net.machine("m1"))
        asking = asyncio.create_task(here.ask("--json", "work"))
        await until(here, tmp_path / "ticks")
        others = [name for name in SERVERS if name != lone]
        await here.node("n2", bus=all_of_it.url(*others), within=net.machine("m2"))
        net.part(lone, "m1")
        parted = time.monotonic()
        code, out, err = await asking
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        began = here.server.requests[-1].at
        print(f"another node was at work {began - parted:.1f} s after the cluster fell apart")
        assert (tmp_path / "ticks").stat().st_mtime < time.time() - (time.monotonic() - began)
        session = json.loads(out)["session_id"]
        before = await rebuilt(here, session, tmp_path / "before")
        net.heal(lone, "m1")
        await shown_again(here, "n1")
        assert await rebuilt(here, session, tmp_path / "after") == before


def test_cluster_requirements_explained() -> None:
    for argv, said in (
        (["--peer", "a:1"], "need --cluster HOST:PORT"),
        (["--cluster", "a:1"], "A cluster has 3 or 5 servers"),
        (["--cluster", "a:1", "--peer", "b:1", "--cluster-key", "k"], "A cluster has 3 or 5 servers"),
        (["--cluster", "a:1", "--peer", "b:1", "--peer", "c", "--cluster-key", "k"], "'c': give the address"),
        (["--cluster", "a:1", "--peer", "b:1", "--peer", "c:1", "--cluster-key", "k"], "the same --users FILE"),
    ):
        done = subprocess.run([*PROGRAM, "bus", *argv], capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
