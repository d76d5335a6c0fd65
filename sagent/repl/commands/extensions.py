"""Commands about MCP servers and skills."""

import asyncio
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.table import table

if TYPE_CHECKING:
    from sagent.repl.view.lines import Span


@command(name="mcp")
async def show_servers(context: CommandContext) -> None:
    """Show MCP servers and their tools."""
    servers = context.settings.mcp
    if not servers:
        raise UsageError("No MCP server is configured: add [mcp.NAME] to your config.toml, with a command or a url.")
    tools: dict[str, list[str]] = {}
    for tool in context.opened.agent.tools:
        if (server := getattr(tool, "server", "")) in servers:
            tools.setdefault(server, []).append(tool.name.rpartition("__")[2])
    rows: list[list[Span]] = []
    for name, server in servers.items():
        there = ", ".join(tools[name]) if name in tools else "not connected"
        rows.append([("", name), ("class:dim", f"{server.url or server.command}: {there}")])
    context.write(table(rows))


@command(name="skills")
async def show_skills(context: CommandContext) -> None:
    """List the skills that the model can use."""
    from sagent.context.skills import find_skills

    found = await asyncio.to_thread(find_skills, context.settings.cwd, context.settings.config_dir)
    if not found:
        place = context.settings.config_dir / "skills"
        raise UsageError(
            f"There are no skills. A skill is a file {place}/NAME/SKILL.md or .sagent/skills/NAME/SKILL.md."
        )
    context.write(table([("", skill.name), ("class:dim", skill.description)] for skill in found))
