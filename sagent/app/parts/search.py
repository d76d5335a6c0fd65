"""Finds tools that are too many to be sent with every request, and calls those that are added later."""

from typing import TYPE_CHECKING

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder, is_deferrable
from sagent.tool import Tool
from sagent.tools.find import CallTool, FindTools, with_calls, with_search

if TYPE_CHECKING:
    from sagent.plugins.mcp import Servers


async def add(builder: AgentBuilder) -> None:
    """Offer the search if there are too many tools; if all are sent and a server may add some, offer only the tool that
    calls those."""
    servers = builder.servers
    builder.tools = [*with_search(builder.tools)]
    if servers is None:
        return
    if any(link.adds for link in servers.links.values()):
        builder.tools = [*with_calls(builder.tools)]
    if any(isinstance(tool, CallTool) for tool in builder.tools):
        builder.started.append(lambda agent: _take_in(agent, servers, builder))


def _take_in(agent: Agent, servers: "Servers", builder: AgentBuilder) -> None:
    """Let what servers add be called by those agents that have all tools that are found, or called by `call_tool`."""
    from sagent.plugins.mcp.changes import Intake

    finders = [tool for tool in builder.offered if isinstance(tool, FindTools | CallTool)]
    every = {tool.name for tool in builder.offered if is_deferrable(tool)} | {CallTool.name}

    def take(tool: Tool) -> None:
        for layer in builder.layers:
            (tool,) = layer((tool,))
        for finder in finders:
            finder.add(tool)
        for each in agent.tree.living:
            if every <= each.state.tools.keys():
                each.state.offer(tool)

    servers.intake = Intake(take, any(isinstance(tool, FindTools) for tool in finders))
