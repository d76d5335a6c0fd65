"""MCP servers as a client has them (modelcontextprotocol.io): their tools are tools like any other."""

from sagent.plugins.mcp.host import Host
from sagent.plugins.mcp.servers import Servers, confining, open_servers
from sagent.plugins.mcp.tool import McpTool

LOGINS = "mcp"
"""The directory of logins, and of what was approved, in the state directory."""

__all__ = ["LOGINS", "Host", "McpTool", "Servers", "confining", "open_servers"]
