"""Ways to other programs: tools of MCP servers."""
