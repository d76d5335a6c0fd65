"""A tool with additional actions around its calls."""

from collections.abc import Awaitable

from sagent.lib.json import JsonObject
from sagent.model import ToolSpec
from sagent.tool import Answer, Effect, RunContext, Tool, Workspace, foresee


class WrappedTool:
    """A tool with another put around it, described as it is itself, or as `spec` says."""

    def __init__(self, tool: Tool, spec: ToolSpec | None = None) -> None:
        shown = spec or tool
        self.tool = tool
        self.name, self.description, self.parameters = shown.name, shown.description, shown.parameters

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return foresee(self.tool, arguments, workspace)

    def __call__(self, arguments: JsonObject, run: RunContext, /) -> Awaitable[Answer]:
        return self.tool(arguments, run)

    def __getattr__(self, name: str) -> object:
        return getattr(self.tool, name)  # its traits, `aclose`
