"""A call with an argument that its tool does not know is refused, and the right ones are named."""

from pathlib import Path

import pytest

from sagent.advisor.tool import AdvisorTool
from sagent.agent import Agent
from sagent.app import open_agent
from sagent.config import load
from sagent.context.calls import fit_arguments
from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.plugin import ToolEntry
from sagent.testing import ScriptedModel
from sagent.tools import agent_tools

WRONG = {
    "AgentSelf": ({"model": "openai/x"}, "model is not a parameter, but switch.model is; accepted: status, switch,"),
    "AgentSelf effort": ({"effort": "high"}, "effort is not a parameter, but switch.effort is"),
    "AgentSelf turns": ({"max_turns": 3}, "max_turns is not a parameter, but limits.max_turns is"),
    "AgentSelf inside": ({"switch": {"temperature": 1}}, "switch has no 'temperature', it takes provider, model"),
    "AgentSpawn": ({"prompt": "x", "subagent_type": "y"}, "subagent_type is not a parameter; accepted: prompt, name,"),
    "AgentSpawn two": ({"prompt": "x", "cwd": "y", "mode": 1}, "cwd is not a parameter; accepted: prompt, name, sys"),
    "AgentSend": ({"to": "parent", "content": "x", "urgent": True}, "urgent is not a parameter; accepted: to, content"),
    "BackgroundTask": ({"operation": "list", "all": True}, "all is not a parameter; accepted: operation, id, seconds"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
async def test_agent_tools_name_right_arguments(
    arguments: dict[str, object], said: str, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id.partition(" ")[0]
    call = ToolCall("c", name, json_freeze_object(arguments))
    agent = Agent(ScriptedModel(call, "Done."), tools=agent_tools())
    await agent.run("Do it.")
    (result,) = agent.messages[2].results
    assert result.is_error
    assert said in result.text


async def test_every_tool_refuses_unknown_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours, of the core and of plugins; but for the advisor's, which says so."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    given = {"model": "anthropic/claude-sonnet-4-6", "state_dir": str(tmp_path / "state"), "cwd": str(tmp_path)}
    named = [entry.name for entry in load(given).plugins.every(ToolEntry) if entry.tool]
    async with open_agent(load({**given, "tools": named}), lambda _: None) as agent:
        tools = {tool.name: tool for tool in agent.tools}
    assert len(tools) > len(agent_tools())
    for tool in tools.values():
        with pytest.raises(ToolError, match="zzz is not a parameter; accepted: "):
            fit_arguments(tool, json_freeze_object({"zzz": 1}))
    assert fit_arguments(AdvisorTool(("one",)), json_freeze_object({"zzz": 1}))


def test_todo_items_are_closed() -> None:
    from sagent.tools.todo import TodoWrite

    steps = [{"content": "x", "status": "pending", "activeForm": "y"}]
    with pytest.raises(ToolError, match=r"todos\[0\].activeForm is not a parameter; accepted: content, status"):
        fit_arguments(TodoWrite(), json_freeze_object({"todos": steps}))
