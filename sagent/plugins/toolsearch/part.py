"""Finds tools that are too many for every request, and calls tools that are added later."""

from sagent.agent import Agent
from sagent.app.arrivals import Intake
from sagent.app.builder import AgentBuilder
from sagent.plugins.toolsearch.find import CallTool, FindTools, with_calls, with_search
from sagent.tool import Tool, traits_of


async def add(builder: AgentBuilder) -> None:
    """Offer the search if there are too many tools. If all are sent and a source may add more, offer only the tool that
    calls those."""
    builder.tools = [*with_search(builder.tools)]
    if any(source.adds for source in builder.sources):
        builder.tools = [*with_calls(builder.tools)]
    if builder.sources and any(isinstance(tool, CallTool) for tool in builder.tools):
        builder.started.append(lambda agent: _take_in(agent, builder))


def _take_in(agent: Agent, builder: AgentBuilder) -> None:
    """Let what sources add be called by those agents that have all tools that are found, or called by `call_tool`."""
    finders = [tool for tool in builder.offered if isinstance(tool, FindTools | CallTool)]
    every = {tool.name for tool in builder.offered if traits_of(tool).deferrable is True} | {CallTool.name}

    def take(tool: Tool) -> None:
        for layer in builder.layers:
            (tool,) = layer((tool,))
        for finder in finders:
            finder.add(tool)
        for each in agent.tree.living:
            if every <= each.state.tools.keys():
                each.state.offer(tool)

    intake = Intake(take, any(isinstance(tool, FindTools) for tool in finders))
    for source in builder.sources:
        source.take_in(intake)
