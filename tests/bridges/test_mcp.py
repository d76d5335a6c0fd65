"""Tools of real MCP servers, over stdio and HTTP, started by the test."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagent.agent import Agent
from sagent.bridges.mcp import McpTool, open_servers
from sagent.config import McpServer
from sagent.lib.json import json_freeze_object
from sagent.messages import Image, Message, ToolCall
from sagent.testing import ScriptedModel

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
    return Image(data=b"pixels", format="png")

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
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return path


def over_stdio(script: Path, **env: str) -> McpServer:
    return McpServer(sys.executable, (str(script),), env)


async def call(tool: McpTool, **arguments: object) -> Message:
    """One call of a tool, by an agent; the message with its result."""
    wanted = ToolCall("1", tool.name, json_freeze_object({**arguments}))
    agent = Agent(ScriptedModel(Message("assistant", (wanted,)), "done"), tools=[tool])
    await agent.run("go")
    await agent.aclose()
    return agent.messages[2]


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
        assert image == Image("image/png", b"pixels")
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


def _running(script: Path) -> bool:
    found = subprocess.run(["pgrep", "-f", str(script)], capture_output=True, check=False)
    return found.returncode == 0
