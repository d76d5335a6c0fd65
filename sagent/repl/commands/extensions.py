"""Commands about what comes from elsewhere: MCP servers and skills."""

import asyncio
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.repl.command import command
from sagent.repl.desk import Desk

if TYPE_CHECKING:
    from sagent.repl.lines import Line


@command(name="mcp")
async def show_servers(desk: Desk) -> None:
    """The MCP servers of this session and their tools."""
    servers = desk.settings.mcp
    if not servers:
        raise UsageError("No MCP server is set: describe one as [mcp.NAME] in your config.toml, by a command or a url.")
    tools: dict[str, list[str]] = {}
    for tool in desk.opened.agent.tools:
        if (server := getattr(tool, "server", "")) in servers:
            tools.setdefault(server, []).append(tool.name.rpartition("__")[2])
    rows: list[Line] = []
    for name, server in servers.items():
        there = ", ".join(tools[name]) if name in tools else "not there"
        rows.append((("", f"  {name}  "), ("class:dim", f"{server.url or server.command}: {there}")))
    desk.write(rows)


@command(name="skills")
async def show_skills(desk: Desk) -> None:
    """The skills that the model is told of: yours, and the project's."""
    from sagent.context.skills import find_skills

    found = await asyncio.to_thread(find_skills, desk.settings.cwd, desk.settings.config_dir)
    if not found:
        place = desk.settings.config_dir / "skills"
        raise UsageError(f"There are no skills: one is a file {place}/NAME/SKILL.md, or .sagent/skills/NAME/SKILL.md.")
    rows: list[Line] = [(("", f"  {skill.name}  "), ("class:dim", skill.description)) for skill in found]
    desk.write(rows)
