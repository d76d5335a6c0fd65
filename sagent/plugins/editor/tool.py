"""Edit and Write in a directory that is open in an editor: its errors are read after them, its diff before."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sagent.agent import Asker
from sagent.lib.json import JsonObject, as_str
from sagent.lib.names import quote_path
from sagent.messages import Text, ToolCall
from sagent.plugins.editor.link import EditorLink
from sagent.plugins.hosting.proposal import proposal_of
from sagent.policy import Allow, Ask
from sagent.policy.rules import EDITS
from sagent.tool import Answer, RunContext, Tool, ToolOutput, Workspace
from sagent.tools.wrapped import WrappedTool


class LinkedTool(WrappedTool):
    """A tool as it is; what errors the editor sees after its change, and did not before, is in its result."""

    def __init__(self, tool: Tool, link: EditorLink) -> None:
        super().__init__(tool)
        self._link = link

    async def __call__(self, arguments: JsonObject, run: RunContext) -> Answer:
        path = run.workspace.resolve(as_str(arguments.get("file_path")))
        before = await self._link.problems(path)
        output = await self.tool(arguments, run)
        if before is None:
            return output
        output = ToolOutput.of(output)
        try:
            new = await self._link.new_problems(path, before)
        except asyncio.CancelledError:  # the change was made: do not report the call as cancelled
            return output
        if not new:
            return output
        lines = "\n".join(f"{quote_path(str(path))}:{line}: {text}" for _, line, text in new)
        return replace(output, content=(*output.content, Text(f"\nThe editor sees new errors:\n{lines}")))


def with_editor(tools: Sequence[Tool], link: EditorLink) -> list[Tool]:
    """Return the tools, those wrapped that change files."""
    return [LinkedTool(tool, link) if tool.name in EDITS else tool for tool in tools]


def reviewing(ask: Asker, link: EditorLink, cwd: Path) -> Asker:
    """Show a change of a file to the person here and in the editor at the same time. The first answer counts."""

    async def review(call: ToolCall, question: Ask) -> str | Allow | None:
        change = proposal_of(call, Workspace(cwd))
        if change is None:
            return await ask(call, question)
        here = asyncio.ensure_future(ask(call, question))
        there = asyncio.ensure_future(link.review(Path(change.path), change.new))
        try:
            await asyncio.wait([here, there], return_when=asyncio.FIRST_COMPLETED)
            decision = there.result() if there.done() and not here.done() else None
            if decision is None:
                return await here
            if not decision.accepted:
                return "The person said no, in the editor."
            if decision.text.replace("\r\n", "\n") == change.new:
                return None
            return f"The person wants another text in {change.path}, as they left it in the editor:\n{decision.text}"
        finally:
            for task in (here, there):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([here, there])

    return review
