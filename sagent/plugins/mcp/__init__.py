"""MCP (modelcontextprotocol.io): servers' tools for agents, and sagent as a server for others. Needs sagent[mcp]."""

from typing import TYPE_CHECKING

from sagent.plugin import EVERYDAY, Command, Extra, Part, Plugin, SlashCommand, Table, ToolEntry

if TYPE_CHECKING:
    from sagent.plugins.mcp.host import Host as Host
    from sagent.plugins.mcp.opening import McpServer as McpServer
    from sagent.plugins.mcp.opening import McpServerError as McpServerError
    from sagent.plugins.mcp.servers import Servers as Servers
    from sagent.plugins.mcp.servers import ServerTools as ServerTools
    from sagent.plugins.mcp.servers import confining as confining
    from sagent.plugins.mcp.servers import open_servers as open_servers
    from sagent.plugins.mcp.tool import McpTool as McpTool

__all__ = [
    "Host", "McpServer", "McpServerError", "McpTool", "ServerTools", "Servers", "confining", "open_servers", "plugin",
]  # fmt: skip

_PART = "sagent.plugins.mcp.part"
_WHEN = ("mcp", "an editor brings servers")
MCP = Table("mcp", "sagent.plugins.mcp.table:read_mcp", folder_file="mcp.toml")
PACKAGES = "mcp"
"""Packages of the extra mcp."""
plugin = Plugin(
    "mcp",
    "MCP servers: their tools, prompts and resources; sagent as one",
    commands=(
        Command(
            "mcp",
            "MCP servers: list, add, remove or test them; serve sagent to other agents",
            "sagent.plugins.mcp.command:run_mcp",
            group=EVERYDAY,
        ),
    ),
    slash_commands=(SlashCommand("mcp", "sagent.plugins.mcp.slash:show_servers"),),
    parts=(Part(f"{_PART}:add", _WHEN), Part(f"{_PART}:ask_about_changes", _WHEN, "around")),
    tables=(MCP,),
    tools=(ToolEntry("mcp__*"),),
    needs=("hosting", "programs"),
    extras=(Extra("examples", "./examples.txt"),),
)


def __getattr__(name: str) -> object:
    if name in __all__:
        from sagent.plugins.mcp import host, opening, servers, tool

        return next(vars(home)[name] for home in (opening, servers, host, tool) if name in vars(home))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
