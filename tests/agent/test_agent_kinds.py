"""Agents that are described in files, as a call of AgentSpawn has them."""

from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.context.agents import AgentKind
from sagent.errors import UsageError
from sagent.lib.json import as_object, json_freeze_object
from sagent.messages import ToolCall
from sagent.model import Model
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools import AgentSpawn, Bash, Read, Write

REVIEW = AgentKind("review", "Looks at changes.", "Be strict.", Path("x"), tools=("Read", "Nonsense"), model="sonnet")


def spawn(**arguments: object) -> ToolCall:
    return ToolCall("1", "AgentSpawn", json_freeze_object({"prompt": "look", **arguments}))


async def test_kind_has_own_prompt_and_tools(tmp_path: Path) -> None:
    def resolve(name: str) -> Model:
        raise UsageError(f"{name} cannot be had")

    model = ScriptedModel(spawn(agent="review"), "fine", "done")
    resources = Resources(workspace=Workspace(tmp_path), resolve=resolve)
    async with Agent(model, tools=[Read(), Write(), Bash(), AgentSpawn([REVIEW])], resources=resources) as agent:
        await agent.run("go")
    first, child, last = model.requests
    assert child.system == "Be strict." and [spec.name for spec in child.tools] == ["Read"]
    assert "fine" in last.messages[-1].results[0].text
    described = next(spec for spec in first.tools if spec.name == "AgentSpawn")
    assert "- review: Looks at changes." in described.description
    assert as_object(described.parameters["properties"])["agent"] == {"type": "string", "enum": ("review",)}


@pytest.mark.parametrize("without", [("Write", "Bash"), ("write", "BASH")])
async def test_excluded_tools_in_any_spelling(tmp_path: Path, without: tuple[str, ...]) -> None:
    kind = AgentKind("safe", "No writing.", "", Path("x"), without=without)
    model = ScriptedModel(spawn(agent="safe"), "fine", "done")
    tools = [Read(), Write(), Bash(), AgentSpawn([kind])]
    async with Agent(model, tools=tools, resources=Resources(workspace=Workspace(tmp_path))) as agent:
        await agent.run("go")
    assert [spec.name for spec in model.requests[1].tools] == ["Read", "AgentSpawn"]


async def test_excluded_tools_are_not_described(tmp_path: Path) -> None:
    kind = AgentKind("safe", "No writing.", "", Path("x"), without=("Write", "Bash"))
    model = ScriptedModel(spawn(agent="safe", tools=["Read", "Write"]), "fine", "done")
    tools = [Read(), Write(), Bash(), AgentSpawn([kind])]
    async with Agent(model, tools=tools, resources=Resources(workspace=Workspace(tmp_path))) as agent:
        await agent.run("go")
    assert [spec.name for spec in model.requests[1].tools] == ["Read"]


def test_without_kinds_schema_is_unchanged() -> None:
    assert AgentSpawn().parameters is AgentSpawn.parameters and AgentSpawn().description is AgentSpawn.description


async def test_isolation_nobody_provides(tmp_path: Path) -> None:
    kind = AgentKind("safe", "Apart.", "", Path("safe.md"), isolation="worktree")
    model = ScriptedModel(spawn(agent="safe"), "done")
    async with Agent(model, tools=[AgentSpawn([kind])], resources=Resources(workspace=Workspace(tmp_path))) as agent:
        await agent.run("go")
    assert "demands isolation" in model.requests[1].messages[-1].results[0].text
