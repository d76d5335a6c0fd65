"""Connections to other programs: MCP, editors, A2A, chats, HTTP clients, forges and telemetry."""
