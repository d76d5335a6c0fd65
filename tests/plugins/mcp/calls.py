"""One call of a tool, by an agent."""

from sagent.agent import Agent
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, ToolCall
from sagent.plugins.mcp import McpTool
from sagent.testing import ScriptedModel


async def call(tool: McpTool, **arguments: object) -> Message:
    """The message with its result."""
    wanted = ToolCall("1", tool.name, json_freeze_object({**arguments}))
    agent = Agent(ScriptedModel(Message("assistant", (wanted,)), "done"), tools=[tool])
    await agent.run("go")
    await agent.aclose()
    return agent.messages[2]
