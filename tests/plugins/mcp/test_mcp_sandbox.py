"""MCP servers that are programs: real ones, within a real sandbox, and how their processes and pipes end."""

import asyncio
import logging
import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.agent import Agent
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, ToolCall
from sagent.plugins.mcp import McpTool, confining, open_servers
from sagent.plugins.mcp.server import McpServer
from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Need, Profile
from sagent.testing import ScriptedModel
from tests.depth import later
from tests.plugins.mcp.odd import PATIENCE
from tests.waiting import until

SERVER = """
import json, os, subprocess, sys
start = os.environ.get("START")
if start:
    exec(start)
def answer(request, result):
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if method == "initialize":
        info = {"name": "runs", "version": "1"}
        answer(request, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        answer(request, {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        names = {}
        try:
            exec(request["params"]["arguments"]["code"], names)
            said, failed = str(names.get("said", "done")), False
        except Exception as error:
            said, failed = f"{type(error).__name__}: {error}", True
        answer(request, {"content": [{"type": "text", "text": said}], "isError": failed})
    elif "id" in request:
        error = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
"""
"""It runs the code that it is sent, and tells what is then in `said`."""


class Place:
    """A workspace, with things beside it that no command may touch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work, self.outside = root / "work", root / "outside"
        self.work.mkdir()
        self.outside.mkdir()
        self.key = root / "key"
        self.key.write_text("secret")
        self.script = root / "server.py"
        self.script.write_text(SERVER)
        self.sandbox = Sandbox()
        # Of the host's /tmp only the newest can be read in a box, and others come and go: where all this lies is shown.
        self.profile = Profile(writable=(str(self.work),), hidden=(str(self.key),), exposed=(str(root),))
        self.notices: tuple[str, ...] = ()

    def server(self, *needs: Need, **env: str) -> McpServer:
        return McpServer(sys.executable, (str(self.script),), env, needs=needs, start_timeout=PATIENCE)

    @asynccontextmanager
    async def opened(self, server: McpServer, *more: McpServer) -> AsyncGenerator[Sequence[McpTool]]:
        servers = {f"server{number}": each for number, each in enumerate((server, *more))}
        confine = confining(self.sandbox, lambda: self.profile, self.work)
        async with open_servers(servers, confine=confine) as tools:
            self.notices = tools.notices
            yield tools

    async def run(self, tool: McpTool, code: str) -> str:
        wanted = ToolCall("1", tool.name, json_freeze_object({"code": code}))
        agent = Agent(ScriptedModel(Message("assistant", (wanted,)), "done"), tools=[tool])
        await agent.run("go")
        await agent.aclose()
        return "".join(getattr(part, "text", "") for part in agent.messages[2].results[0].content)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path.resolve())
    try:
        yield place
    finally:
        await place.sandbox.aclose()


@pytest.fixture
def boxed(place: Place) -> Place:
    if not place.sandbox.stands:
        pytest.skip(place.sandbox.means.why)
    return place


WRITE = "open({!r}, 'w').write('x')"
READ = "said = open({!r}).read()"


def fetch(port: int) -> str:
    return f"import urllib.request; said = urllib.request.urlopen('http://localhost:{port}/', timeout=9).read()"


@pytest.fixture
async def web() -> AsyncIterator[int]:
    """The port of a server on this machine."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(99)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_server_confined_like_commands(boxed: Place) -> None:
    async with boxed.opened(boxed.server()) as (tool,):
        assert await boxed.run(tool, WRITE.format(str(boxed.work / "made"))) == "done"
        refused = await boxed.run(tool, WRITE.format(str(boxed.outside / "made")))
        assert "sandbox: there is no network" in refused
        assert "[mcp.server0] needs = [...]" in refused
        assert "secret" not in await boxed.run(tool, READ.format(str(boxed.key)))
        assert await boxed.run(tool, "import os; said = os.getcwd()") == str(boxed.work)
    assert (boxed.work / "made").exists()
    assert not list(boxed.outside.iterdir())
    assert boxed.notices == ()


async def test_needs_grant_only_named_paths(boxed: Place) -> None:
    (boxed.root / "link").symlink_to(boxed.outside)
    server = boxed.server(Need("write", str(boxed.root / "link")), Need("read", str(boxed.key)))
    async with boxed.opened(server) as (tool,):
        assert await boxed.run(tool, WRITE.format(str(boxed.outside / "made"))) == "done"
        assert await boxed.run(tool, READ.format(str(boxed.key))) == "secret"
        assert "Error" in await boxed.run(tool, WRITE.format(str(boxed.root / "made")))


@later
@pytest.mark.plugin("network")
async def test_needs_grant_named_network(boxed: Place, web: int) -> None:
    server = boxed.server()
    async with boxed.opened(server, replace(server, needs=(Need("network", f"localhost:{web}"),))) as (shut, open_to):
        refused = await boxed.run(shut, fetch(web))
        assert "Error" in refused
        assert await boxed.run(open_to, fetch(web)) == "b'fine'"


async def test_all_is_no_sandbox(boxed: Place, web: int) -> None:
    async with boxed.opened(boxed.server(Need("all"))) as (tool,):
        assert await boxed.run(tool, fetch(web)) == "b'fine'"
        assert await boxed.run(tool, WRITE.format(str(boxed.outside / "made"))) == "done"
        assert await boxed.run(tool, "import os; said = os.readlink('/proc/self/ns/net')") == os.readlink(
            "/proc/self/ns/net"
        )


@later
async def test_sandbox_off_leaves_server_free(place: Place) -> None:
    place.sandbox = Sandbox("off")
    async with place.opened(place.server()) as (tool,):
        assert await place.run(tool, WRITE.format(str(place.outside / "made"))) == "done"
        refused = await place.run(tool, "raise PermissionError('Permission denied')")
    assert "sandbox" not in refused


async def test_sandboxed_server_has_only_its_keys(boxed: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    monkeypatch.setenv("TICKETS_TOKEN", "ours")
    async with boxed.opened(boxed.server(OWN_TOKEN="own")) as (tool,):
        names = await boxed.run(tool, "import os; said = ' '.join(os.environ)")
        assert "OWN_TOKEN" in names
        assert "OPENAI_API_KEY" not in names
        assert "TICKETS_TOKEN" not in names
        place = await boxed.run(tool, "import os; said = os.environ['TMPDIR']; open(said + '/made', 'w')")
        assert place == "/tmp" or (boxed.sandbox.means.name == "landlock" and "/sagent-tmp-" in place)
    assert not Path("/tmp/made").exists()


@later
async def test_restart_after_plan_mode_can_write(boxed: Place) -> None:
    free, boxed.profile = boxed.profile, replace(boxed.profile, writable=())
    async with boxed.opened(boxed.server()) as (tool,):
        boxed.profile = free
        assert "Error" in await boxed.run(tool, WRITE.format(str(boxed.work / "made")))
        await boxed.run(tool, "import os; os._exit(1)")
        assert await boxed.run(tool, WRITE.format(str(boxed.work / "made"))) == "done"


@later
async def test_failed_start_names_missing_need(boxed: Place) -> None:
    start = WRITE.format(str(boxed.outside / "made"))
    async with boxed.opened(
        boxed.server(START=start), McpServer(str(boxed.root / "none"), start_timeout=PATIENCE)
    ) as tools:
        assert tools == ()
    first, second = sorted(boxed.notices)
    assert "server0 is not available:" in first and "exit code 1: " in first
    assert re.search(r"(OSError: \[Errno 30\] Read-only file system|PermissionError: \[Errno 13\])", first)
    assert "in a sandbox: there is no network" in first
    assert "`[mcp.server0] needs = [...]`" in first
    assert "No such file or directory" in second
    assert not list(boxed.outside.iterdir())


@later
async def test_servers_share_sandbox(boxed: Place) -> None:
    code, found = "import os; said = os.readlink('/proc/self/ns/mnt')", set[str]()
    for _ in range(10):  # another program that began to listen meanwhile is hidden in a new box
        async with boxed.opened(*[boxed.server()] * 5) as tools:
            found = {await boxed.run(tool, code) for tool in tools}
        if len(found) == 1:
            break
    (shared,) = found
    is_namespace = boxed.sandbox.means.name == "bubblewrap"
    assert (shared != os.readlink("/proc/self/ns/mnt")) is is_namespace


@pytest.fixture
def nap() -> str:
    """How long to sleep: what others run on this machine is not counted."""
    return f"987.{random.randrange(10**9)}"


@later
async def test_child_processes_end_with_server(place: Place, nap: str) -> None:
    sleep = "import subprocess; subprocess.Popen(['sleep', '" + nap + "'], start_new_session=True)"
    async with place.opened(place.server(Need("all")), place.server()) as tools:
        for tool in tools:
            assert await place.run(tool, sleep) == "done"
        await until(lambda: len(running(f"sleep {nap}")) == 2, "what both servers started")
    await place.sandbox.aclose()
    await until(lambda: not running(f"sleep {nap}"), "the end of what the servers started")


HOST = """
import asyncio, sys
from pathlib import Path
from sagent.plugins.mcp import confining, open_servers
from sagent.plugins.mcp.server import McpServer
from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Need, Profile

async def main():
    script, work, start = sys.argv[1:]
    servers = {
        name: McpServer(sys.executable, (script,), {"START": start}, needs=needs, start_timeout=60)
        for name, needs in (("boxed", ()), ("free", (Need("all"),)))
    }
    profile = Profile(writable=(work,), exposed=(str(Path(script).parent),))
    confine = confining(Sandbox(), lambda: profile, Path(work))
    async with open_servers(servers, confine=confine) as tools:
        print(len(tools), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@later
async def test_killed_session_kills_servers(place: Place, nap: str) -> None:
    start = (
        "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 15)]; subprocess.Popen(['sleep', '" + nap + "'])"
    )
    argv = [sys.executable, "-c", HOST, str(place.script), str(place.work), start]
    host = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
    assert host.stdout is not None
    assert await host.stdout.readline() == b"2\n"
    assert len(running(f"sleep {nap}")) == 2
    host.kill()
    await host.wait()
    await until(lambda: not running(f"sleep {nap}") and not running(str(place.script)), "the end of the servers")


@later
async def test_endless_line_ends_connection(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.mcp.pipes.MAX_LINE_BYTES", 2 << 20)
    async with place.opened(place.server(Need("all"))) as (tool,):
        flood = "import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))"
        assert "it wrote a line of more than 2 MiB" in await place.run(tool, flood)
        assert await place.run(tool, "said = 'again'") == "again"


@later
async def test_start_timeout_is_per_server(place: Place) -> None:
    slow = place.server(Need("all"), START="import time; time.sleep(2)")
    async with place.opened(slow, replace(slow, start_timeout=0.5)) as tools:
        assert [tool.server for tool in tools] == ["server0"]
    (notice,) = place.notices
    assert "server1 has not" in notice and "0.5 s (its start_timeout)" in notice


@later
async def test_sdk_logging_left_alone(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async with place.opened(place.server(Need("all"))):
        logging.getLogger("mcp.client.streamable_http").warning("something of another connection")
    assert "something of another connection" in caplog.text
    assert not logging.getLogger("mcp").handlers


def running(text: str) -> list[str]:
    return subprocess.run(["pgrep", "-f", text], capture_output=True, check=False, text=True).stdout.split()


@later
async def test_unsandboxed_cwd_is_session_directory(place: Place) -> None:
    place.sandbox = Sandbox("off")
    async with place.opened(place.server()) as (tool,):
        assert await place.run(tool, "import os; said = os.getcwd()") == str(place.work)
