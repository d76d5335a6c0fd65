"""An MCP server as a program has it: opened with `async with`, its tools an agent's, its faults raised or told."""

import sys
from pathlib import Path

import pytest

from sagent import Agent, UsageError
from sagent.messages import ToolCall
from sagent.plugins.mcp import McpServer, McpServerError, open_servers
from sagent.testing import ScriptedModel
from tests.plugins.mcp.odd import PATIENCE, SERVER, Odd, tool


def server_of(odd: Odd, name: str = "shop") -> McpServer:
    return McpServer(sys.executable, (str(SERVER), str(odd.file)), start_timeout=PATIENCE, name=name)


async def test_its_tools_are_an_agents(tmp_path: Path) -> None:
    model = ScriptedModel((ToolCall("1", "mcp__shop__do", {"code": "text = 6 * 7"}),), "Done.")
    async with server_of(Odd(tmp_path)) as tools, Agent(model, tools=tools) as agent:
        await agent.run("Go.")
        assert agent.messages[2].results[0].text == "42"
        assert tools.notices == ()


async def test_name_is_that_of_the_command_by_default(tmp_path: Path) -> None:
    async with server_of(Odd(tmp_path), "") as tools:
        assert [each.name for each in tools] == [f"mcp__{Path(sys.executable).stem.replace('.', '_')}__do"]
    assert McpServer(url="https://shop.example.org/mcp").short_name == "shop.example.org"


async def test_server_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    gone = McpServer(str(tmp_path / "none"), name="shop")
    with pytest.raises(McpServerError, match="The MCP server shop is not available") as raised:
        async with gone:
            pass
    assert "continues" not in str(raised.value)
    with pytest.raises(McpServerError):  # it can be tried again
        await gone.__aenter__()


async def test_it_is_open_once_and_can_be_opened_again(tmp_path: Path) -> None:
    shop = server_of(Odd(tmp_path))
    for _ in range(2):
        async with shop as tools:
            assert len(tools) == 1
            with pytest.raises(UsageError, match="open already"):
                async with shop:
                    pass
    assert shop == server_of(Odd(tmp_path))


async def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    odd = Odd(tmp_path, tools=[tool("do"), {"name": "broken", "inputSchema": 5}])
    async with server_of(odd) as tools:
        assert len(tools) == 1 and "broken" in tools.notices[0]


async def test_old_argument_for_notices_warns_and_works(tmp_path: Path) -> None:
    notices: list[str] = []
    gone = {"gone": McpServer(str(tmp_path / "none"))}
    with pytest.warns(DeprecationWarning, match="notices"):
        async with open_servers(gone, notices) as tools:
            assert [*tools.notices] == notices and "gone" in notices[0]
