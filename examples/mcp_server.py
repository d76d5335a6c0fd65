"""An MCP server with one tool, and an agent that uses it: both in this file. Needs sagent[mcp].

python examples/mcp_server.py
"""

import asyncio
import sys

from sagent import Agent
from sagent.messages import ToolCall
from sagent.plugins.mcp import McpServer
from sagent.testing import ScriptedModel


def serve() -> None:
    """The server's process: any MCP server will do, in any language."""
    from mcp.server import MCPServer

    server = MCPServer("stock")

    @server.tool()
    def in_stock(article: str) -> int:
        """How many of an article are in stock."""
        return {"lamp": 7}.get(article, 0)

    server.run()


async def main() -> None:
    """The server is started, its tools are the agent's, and in the end it is stopped."""
    ask = ToolCall("1", "mcp__shop__in_stock", {"article": "lamp"})
    model = ScriptedModel(ask, lambda request: f"There are {request.messages[-1].results[0].text} lamps.")
    shop = McpServer(sys.executable, (__file__, "serve"), name="shop")
    async with shop as tools, Agent(model, tools=tools) as agent:
        print((await agent.run("How many lamps are there?")).content)


if sys.argv[1:] == ["serve"]:
    serve()
else:
    asyncio.run(main())
