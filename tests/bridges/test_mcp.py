"""Tools of real MCP servers, over stdio and HTTP, started by the test."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.agent import Agent
from sagent.bridges.mcp import open_servers
from sagent.config import McpServer
from sagent.lib.json import json_dump
from sagent.messages import Image
from sagent.testing import ScriptedModel
from tests.bridges.calls import call
from tests.repl.samples import PNG

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
def dies() -> str:
    os._exit(1)

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
    return McpServer(sys.executable, (str(script),), env)


async def test_tools_of_a_command_are_offered_called_and_its_process_ends(script: Path) -> None:
    notices: list[str] = []
    async with open_servers({"things": over_stdio(script, WHO="me")}, notices) as tools:
        by_name = {tool.name: tool for tool in tools}
        assert set(by_name) == {f"mcp__things__{name}" for name in ("add", "picture", "fails", "dies", "who")}
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
    assert notices == []
    assert not _running(script)


async def test_a_server_that_dies_is_there_again_for_the_next_call(script: Path) -> None:
    async with open_servers({"things": over_stdio(script)}, []) as tools:
        by_name = {tool.name: tool for tool in tools}
        dead = (await call(by_name["mcp__things__dies"])).results[0]
        assert dead.is_error
        assert "The MCP server things failed" in dead.text
        assert (await call(by_name["mcp__things__add"], a=1, b=1)).results[0].text == "2"
    assert not _running(script)


async def test_what_is_not_there_is_said_and_the_rest_is(script: Path, tmp_path: Path) -> None:
    servers = {
        "gone": McpServer(str(tmp_path / "no such program")),
        "mute": McpServer(sys.executable, ("-c", "import sys; sys.exit(3)")),
        "nobody": McpServer(url="http://127.0.0.1:9/mcp"),
        "things": over_stdio(script),
    }
    notices: list[str] = []
    async with open_servers(servers, notices) as tools:
        assert {tool.server for tool in tools} == {"things"}
        assert [notice.split(" is not there")[0] for notice in sorted(notices)] == [
            "The MCP server gone",
            "The MCP server mute",
            "The MCP server nobody",
        ]


async def test_a_cancelled_call_leaves_the_server_usable(script: Path) -> None:
    async with open_servers({"things": over_stdio(script)}, []) as tools:
        add = next(tool for tool in tools if tool.name.endswith("add"))
        task = asyncio.create_task(call(add, a=1, b=2))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await call(add, a=1, b=2)).results[0].text == "3"


@pytest.fixture
def address(script: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(script), str(port)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.kill()
        server.wait()


async def test_tools_of_an_address(address: str) -> None:
    notices: list[str] = []
    servers = {"web": McpServer(url=address), "again": McpServer(url=address, headers={"x-key": "k"})}
    async with open_servers(servers, notices) as tools:
        assert notices == []
        adders = [tool for tool in tools if tool.name.endswith("add")]
        assert [(await call(tool, a=20, b=22)).results[0].text for tool in adders] == ["42", "42"]


ODD = """
import json, os, sys, time
how = sys.argv[1]
def answer(request, result):
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
def tool(name, about="", **schema):
    return {"name": name, "description": about, "inputSchema": {"type": "object", **schema}}
for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        answer(request, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        if how == "mute":
            time.sleep(60)
        if how == "dies":
            os._exit(1)
        if how == "junk":
            print("no JSON at all\\n" * 2_000, flush=True)
            print("x" * 2_000_000, file=sys.stderr, flush=True)
        if how == "fat":
            answer(request, {"tools": [tool(f"t{n}", "x" * 9_000, title="y" * 9_000) for n in range(128)]})
        else:
            answer(request, {"tools": [tool("find it", "\\x1b[2Jfinds"), tool("find_it"), tool("keys")]})
    elif method == "tools/call":
        text = " ".join(sorted(os.environ)) if request["params"]["name"] == "keys" else "z" * 11_000_000
        answer(request, {"content": [{"type": "text", "text": text}]})
    elif "id" in request:
        error = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
"""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    path = tmp_path / "odd.py"
    path.write_text(ODD)
    return path


def oddly(odd: Path, how: str) -> McpServer:
    return McpServer(sys.executable, (str(odd), how))


async def test_tools_that_map_to_one_name_are_numbered_and_said(odd: Path) -> None:
    notices: list[str] = []
    async with open_servers({"my odd": oddly(odd, ""), "my_odd": oddly(odd, "")}, notices) as tools:
        own = [tool.name for tool in tools if "find" in tool.name]
        assert own == [f"mcp__my_odd__find_it{tail}" for tail in ("_2", "_3", "_4", "")]
        Agent(ScriptedModel(), tools=tools)
        assert tools[0].description == "\ufffd[2Jfinds"
    assert len(notices) == 1
    assert "my_odd's find_it as mcp__my_odd__find_it_4" in notices[0]


async def test_a_server_that_does_not_list_its_tools_is_gone_without_after_a_short_wait(
    odd: Path, script: Path
) -> None:
    notices: list[str] = []
    servers = {
        "mute": replace(oddly(odd, "mute"), start_timeout=1),
        "dies": oddly(odd, "dies"),
        "things": over_stdio(script),
    }
    async with asyncio.timeout(30):
        async with open_servers(servers, notices) as tools:
            assert {tool.server for tool in tools} == {"things"}
            late, died = sorted(notices, reverse=True)
            assert "mute has not listed its tools within 1 s" in late
            assert "dies is not there" in died
    assert not _running(odd)


async def test_junk_on_both_outputs_hides_no_tool_and_is_not_shown(odd: Path, caplog: pytest.LogCaptureFixture) -> None:
    notices: list[str] = []
    async with open_servers({"odd": oddly(odd, "junk")}, notices) as tools:
        assert len(tools) == 3
    assert caplog.text == ""


async def test_fat_descriptions_and_results_are_bounded_and_said(odd: Path) -> None:
    notices: list[str] = []
    async with open_servers({"fat": oddly(odd, "fat"), "odd": oddly(odd, "")}, notices) as tools:
        assert sum(len(tool.description) + len(json_dump(tool.parameters)) for tool in tools) < 210_000
        assert "fat offers 128 tools" in notices[0]
        assert "left out: t" in notices[0]
        text = (await call(tools[-3])).results[0].text
        assert "1,000,000 more characters of the MCP server odd were left out" in text


async def test_a_command_is_given_no_keys_but_those_its_config_names(
    odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    server = McpServer(sys.executable, (str(odd), ""), {"OPENAI_API_KEY": "k"})
    async with open_servers({"odd": server}, []) as tools:
        names = (await call(tools[-1])).results[0].text.split()
    assert "OPENAI_API_KEY" in names
    assert "ANTHROPIC_API_KEY" not in names


def _running(script: Path) -> bool:
    found = subprocess.run(["pgrep", "-f", str(script)], capture_output=True, check=False)
    return found.returncode == 0
