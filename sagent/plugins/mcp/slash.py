"""The slash command about MCP servers."""

from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import Span, table


@command(name="mcp", here=True)
async def show_servers(context: CommandContext) -> None:
    """Show MCP servers and their tools."""
    from sagent.plugins.mcp.servers import Servers
    from sagent.plugins.mcp.table import servers_of

    there = next((source for source in context.opened.surface.sources if isinstance(source, Servers)), Servers())
    servers = there.configured or servers_of(context.settings)
    if not servers:
        raise UsageError("No MCP server is configured: sagent mcp add NAME URL adds one.")
    tools: dict[str, list[str]] = {}
    for tool in context.opened.agent.tools:
        if (server := getattr(tool, "server", "")) in servers:
            tools.setdefault(server, []).append(tool.name.rpartition("__")[2])
    rows: list[list[Span]] = []
    for name, server in servers.items():
        link = there.links.get(name)
        state = link.state if link else "not connected"
        offered = f"{state}: {', '.join(tools[name])}" if name in tools else state
        rows.append([("", name), ("class:dim", f"{server.url or server.command}, {offered}")])
    context.write(table(rows))
