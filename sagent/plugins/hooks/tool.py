"""A tool with hooks after its calls: they may add to a result, or replace it."""

import time
from collections.abc import Sequence
from dataclasses import replace

from sagent.lib.json import JsonObject
from sagent.messages import Text
from sagent.plugins.hooks.hook import names_of
from sagent.plugins.hooks.session import SessionHooks, call_fields
from sagent.tool import RunContext, Tool, ToolOutput
from sagent.tools.wrapped import WrappedTool

MAX_RESULT_CHARS = 100_000  # of a result that hooks get


class HookedTool(WrappedTool):
    """A tool with hooks that run after each successful call."""

    def __init__(self, tool: Tool, hooks: SessionHooks) -> None:
        super().__init__(tool)
        self._hooks = hooks

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        began = time.monotonic()
        output = ToolOutput.of(await self.tool(arguments, run))
        text = "".join(part.text for part in output.content if isinstance(part, Text))
        response = {"content": text[:MAX_RESULT_CHARS], "is_error": output.is_error}
        took = round((time.monotonic() - began) * 1000)
        fields = {**call_fields(self.name, arguments, run.call_id), "tool_response": response, "duration_ms": took}
        said = await self._hooks.ask("PostToolUse", run.agent, names_of(self.name), fields)
        if said.output is not None:
            output = replace(output, content=(Text(said.output),))
        objection = f"A hook objects: {said.reason or said.stop}" if said.decision == "deny" or said.stop else ""
        added = [Text(f"\n({each})") for each in (objection, said.context) if each]
        return replace(output, content=(*output.content, *added)) if added else output


def with_hooks(tools: Sequence[Tool], hooks: SessionHooks) -> list[Tool]:
    """Return the tools, those wrapped that a hook is about."""
    after = hooks.of("PostToolUse")
    return [
        HookedTool(tool, hooks) if any(hook.is_about(names_of(tool.name)) for hook in after) else tool for tool in tools
    ]
