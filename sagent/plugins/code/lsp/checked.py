"""A tool that changes files and checks them after its calls."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from sagent.lib.json import JsonObject, as_str
from sagent.messages import Text
from sagent.plugins.code.lsp.access import CodeAccess
from sagent.tool import Answer, RunContext, Tool, ToolOutput
from sagent.tools.paths import judged_path
from sagent.tools.wrapped import WrappedTool

_FILES = ("Edit", "Write")
_COMMANDS = ("Bash", "Notebook")


class CheckedTool(WrappedTool):
    """A wrapped tool; errors caused by its change of a file are in its result, if they are known in time."""

    def __init__(self, tool: Tool, access: CodeAccess) -> None:
        super().__init__(tool)
        self._access = access

    async def __call__(self, arguments: JsonObject, run: RunContext) -> Answer:
        if self.name in _COMMANDS:
            try:
                return await self.tool(arguments, run)
            finally:
                if self._access.started is not None:
                    self._access.started.command_ran()
        from sagent.plugins.code.lsp.checks import read_text

        checks = self._access.checks
        path = judged_path(run.workspace.resolve(as_str(arguments.get("file_path"))), run)
        if not checks.servers.kinds(path):
            return await self.tool(arguments, run)
        before = await asyncio.to_thread(read_text, path)
        is_new = before is None and not path.exists()
        output = await self.tool(arguments, run)
        if before is None and not is_new:
            return output
        whole = ToolOutput.of(output)
        try:
            news = await checks.changed(path, before or "", run.agent, run.workspace)
        except asyncio.CancelledError:  # the change was made, so the call must not report a failure
            return whole
        if not news:
            return whole
        summary = f"{whole.summary} It brings new errors.".strip()
        return replace(whole, content=(*whole.content, Text(f"\n{news}")), summary=summary)


def with_checks(tools: Sequence[Tool], access: CodeAccess) -> list[Tool]:
    """Return the tools, those wrapped that change files."""
    return [CheckedTool(tool, access) if tool.name in (*_FILES, *_COMMANDS) else tool for tool in tools]
