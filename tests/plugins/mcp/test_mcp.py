"""Tools of real MCP servers, over stdio and HTTP, started by the test."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.agent import Agent
from sagent.lib.json import json_dump
from sagent.messages import Image
from sagent.plugins.mcp import open_servers
from sagent.plugins.mcp.server import McpServer
from sagent.testing import ScriptedModel
from tests.depth import later
from tests.plugins.mcp.calls import call
from tests.plugins.mcp.odd import PATIENCE, Odd, do, tool
from tests.repl.samples import PNG
from tests.waiting import wait_until

SERVER = """
import os, sys
from mcp.server import MCPServer
from mcp.server.mcpserver import Image
server = MCPServer("things")

@server.tool(description="Adds two numbers.")
def add(a: int, b: int) -> int:
    return a + b

@server.tool()
def picture() -> Image:
    return Image(data=bytes.fromhex(PIXEL), format="png")

@server.tool()
def fails() -> str:
    raise ValueError("not today")

@server.tool()
def who() -> str:
    return os.environ.get("WHO", "nobody")

if sys.argv[1:]:
    server.run(transport="streamable-http", port=int(sys.argv[1]))
else:
    server.run()
""".replace("PIXEL", repr(PNG.hex()))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return path


def over_stdio(script: Path, **env: str) -> McpServer:
    return McpServer(sys.executable, (str(script),), env, start_timeout=PATIENCE)


async def test_stdio_tools_listed_and_called(script: Path) -> None:
    async with open_servers({"things": over_stdio(script, WHO="me")}) as tools:
        by_name = {tool.name: tool for tool in tools}
        assert set(by_name) == {f"mcp__things__{name}" for name in ("add", "picture", "fails", "who")}
        add = by_name["mcp__things__add"]
        assert add.description == "Adds two numbers."
        assert set(add.parameters["properties"]) == {"a", "b"}  # pyright: ignore[reportArgumentType]
        assert (await call(add, a=2, b=3)).results[0].text == "5"
        (image,) = (await call(by_name["mcp__things__picture"])).results[0].content
        assert image == Image("image/png", PNG)
        failed = (await call(by_name["mcp__things__fails"])).results[0]
        assert failed.is_error
        assert "fails" in failed.text
        assert (await call(by_name["mcp__things__who"])).results[0].text == "me"
    assert tools.notices == ()
    assert not _running(script)


async def test_dead_server_restarts_on_next_call(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with open_servers({"things": odd.config}) as (does,):
        dead = (await call(does, code="import os; os._exit(1)")).results[0]
        assert dead.is_error
        assert "The MCP server things failed" in dead.text
        assert (await call(does, code="text = 1 + 1")).results[0].text == "2"
    assert not _running(odd.file)


async def test_missing_server_reported(tmp_path: Path) -> None:
    servers = {
        "gone": McpServer(str(tmp_path / "no such program")),
        "mute": McpServer(sys.executable, ("-c", "import sys; sys.exit(3)"), start_timeout=PATIENCE),
        "nobody": McpServer(url="http://127.0.0.1:9/mcp"),
        "things": Odd(tmp_path).config,
    }
    async with open_servers(servers) as tools:
        assert {tool.server for tool in tools} == {"things"}
        assert [notice.split(" is not available")[0] for notice in sorted(tools.notices)] == [
            "The MCP server gone",
            "The MCP server mute",
            "The MCP server nobody",
        ]


async def test_cancelled_call_keeps_server(tmp_path: Path) -> None:
    async with open_servers({"things": Odd(tmp_path).config}) as (does,):
        task = asyncio.create_task(call(does))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await call(does, code="text = 3")).results[0].text == "3"


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.fixture
def address(script: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(script), str(port)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port), "the server", child=server, seconds=120)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.kill()
        server.wait()


@later
async def test_tools_from_url(address: str) -> None:
    servers = {"web": McpServer(url=address), "again": McpServer(url=address, headers={"x-key": "k"})}
    async with open_servers(servers) as tools:
        assert tools.notices == ()
        adders = [tool for tool in tools if tool.name.endswith("add")]
        assert [(await call(tool, a=20, b=22)).results[0].text for tool in adders] == ["42", "42"]


@later
async def test_colliding_tool_names_numbered(tmp_path: Path) -> None:
    odd = Odd(tmp_path, tools=[tool("find it", "\x1b[2Jfinds"), tool("find_it")])
    async with open_servers({"my odd": odd.config, "my_odd": odd.config}) as tools:
        assert [tool.name for tool in tools] == [f"mcp__my_odd__find_it{tail}" for tail in ("_2", "_3", "_4", "")]
        Agent(ScriptedModel(), tools=tools)
        assert tools[0].description == "\ufffd[2Jfinds"
    assert len(tools.notices) == 1
    assert "find_it as mcp__my_odd__find_it_4" in tools.notices[0]


@later
async def test_silent_server_gives_up_soon(tmp_path: Path) -> None:
    for name in ("mute", "dies", "things"):
        (tmp_path / name).mkdir()
    mute = Odd(tmp_path / "mute", listing="threading.Event().wait(60)")
    dies = Odd(tmp_path / "dies", listing="import os; os._exit(1)")
    things = Odd(tmp_path / "things")
    servers = {"mute": replace(mute.config, start_timeout=1), "dies": dies.config, "things": things.config}
    async with asyncio.timeout(60):
        async with open_servers(servers) as tools:
            assert {tool.server for tool in tools} == {"things"}
            late, died = sorted(tools.notices, reverse=True)
            assert "mute has not" in late and "within 1 s" in late
            assert "dies is not available" in died
    assert not _running(mute.file)


@later
async def test_junk_output_hides_no_tool(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    odd = Odd(
        tmp_path, listing="with lock: print('no JSON at all\\n' * 2_000); print('x' * 2_000_000, file=sys.stderr)"
    )
    async with odd.opened() as servers:
        assert len(servers.tools) == 1
    assert caplog.text == ""


@later
async def test_long_descriptions_bounded(tmp_path: Path) -> None:
    odd = Odd(tmp_path, tools=[tool(f"t{number}", "x" * 9_000, title="y" * 9_000) for number in range(128)], page=128)
    async with odd.opened() as servers:
        assert sum(len(each.description) + len(json_dump(each.parameters)) for each in servers.tools) < 210_000
    assert "odd offers 128 tools" in odd.notices[0] and "left out: t" in odd.notices[0]


async def test_server_gets_only_its_own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    odd = Odd(tmp_path)
    async with odd.opened(config=replace(odd.config, env={"OPENAI_API_KEY": "k"})) as servers:
        names = (await do(servers, "import os; text = ' '.join(os.environ)")).split()
    assert "OPENAI_API_KEY" in names
    assert "ANTHROPIC_API_KEY" not in names


def _running(script: Path) -> bool:
    found = subprocess.run(["pgrep", "-f", str(script)], capture_output=True, check=False)
    return found.returncode == 0
