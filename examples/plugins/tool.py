"""A tool with progress: every agent may wait for a file, and says while it waits how long it has."""

import asyncio

from sagent.app.builder import AgentBuilder
from sagent.plugin import Part, Plugin
from sagent.tool import RunContext
from sagent.tools import tool


@tool(name="WaitForFile", effect="read")
async def wait_for_file(context: RunContext, file_path: str, seconds: float = 60.0) -> str:
    """Wait until a file exists, for at most so many seconds."""
    path = context.workspace.resolve(file_path)
    for tick in range(int(seconds * 10) + 1):
        if path.exists():
            return f"{file_path} is there."
        if tick % 10 == 0:
            context.progress(f"waiting for {file_path}, {tick // 10} s")
        await asyncio.sleep(0.1)
    return f"{file_path} did not appear within {seconds:g} s."


async def add(builder: AgentBuilder) -> None:
    """Offer the tool."""
    builder.tools.append(wait_for_file)


plugin = Plugin("tool", "waits for a file", parts=(Part(":add", ("always",)),))
