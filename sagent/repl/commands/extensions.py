"""Commands about what comes from elsewhere: MCP servers and skills."""

import asyncio
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.repl.commands.command import command
from sagent.repl.commands.context import CommandContext

if TYPE_CHECKING:
    from sagent.repl.view.lines import Line


@command(name="mcp")
async def show_servers(context: CommandContext) -> None:
    """The MCP servers of this session and their tools."""
    servers = context.settings.mcp
    if not servers:
        raise UsageError("No MCP server is set: describe one as [mcp.NAME] in your config.toml, by a command or a url.")
    tools: dict[str, list[str]] = {}
    for tool in context.opened.agent.tools:
        if (server := getattr(tool, "server", "")) in servers:
            tools.setdefault(server, []).append(tool.name.rpartition("__")[2])
    rows: list[Line] = []
    for name, server in servers.items():
        there = ", ".join(tools[name]) if name in tools else "not there"
        rows.append((("", f"  {name}  "), ("class:dim", f"{server.url or server.command}: {there}")))
    context.write(rows)


@command(name="skills")
async def show_skills(context: CommandContext) -> None:
    """The skills that the model is told of: yours, and the project's."""
    from sagent.context.skills import find_skills

    found = await asyncio.to_thread(find_skills, context.settings.cwd, context.settings.config_dir)
    if not found:
        place = context.settings.config_dir / "skills"
        raise UsageError(f"There are no skills: one is a file {place}/NAME/SKILL.md, or .sagent/skills/NAME/SKILL.md.")
    rows: list[Line] = [(("", f"  {skill.name}  "), ("class:dim", skill.description)) for skill in found]
    context.write(rows)
