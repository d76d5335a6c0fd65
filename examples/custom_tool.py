"""A tool as a class: the protocol's four members, and what it may say about its effects.

python examples/custom_tool.py
"""

import asyncio
from pathlib import Path

from sagent.agent import Agent, Resources
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import Message, ToolCall
from sagent.testing import ScriptedModel
from sagent.tool import Effect, RunContext, ToolOutput, Workspace


class LineCount:
    """Counts the lines of a file."""

    name = "LineCount"
    description = "Count the lines of a text file."
    parameters = json_freeze_object(
        {
            "type": "object",
            "properties": {"file_path": {"type": "string", "description": "the file"}},
            "required": ["file_path"],
        }
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        """It reads one file. A policy judges by this, and calls that touch the same file keep their order."""
        return Effect("read", (workspace.resolve(str(arguments["file_path"])),))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Whatever is raised here becomes an error result that the model reads."""
        path = run.workspace.resolve(str(arguments["file_path"]))
        count = len(path.read_bytes().splitlines())
        return ToolOutput.of(f"{count} lines", summary=f"{count} lines")


async def main() -> None:
    """Two questions: one file that is there, one that is not."""
    here = json_freeze_object({"file_path": __file__})
    gone = json_freeze_object({"file_path": "gone.txt"})
    model = ScriptedModel(
        Message("assistant", (ToolCall("a", "LineCount", here), ToolCall("b", "LineCount", gone))),
        lambda request: "; ".join(result.text for result in request.messages[-1].results),
    )
    workspace = Workspace(Path(__file__).parent)
    agent = Agent(model, tools=[LineCount()], resources=Resources(workspace=workspace))
    print((await agent.run("How long are they?")).content)
    await agent.aclose()


if __name__ == "__main__":
    asyncio.run(main())
