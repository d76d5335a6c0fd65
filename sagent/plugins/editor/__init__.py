"""The link that editors offer to agents in their terminals: a lock file says where they listen, and for whom.

It was made for Claude Code, and extensions for VS Code, JetBrains and neovim speak it (coder/claudecode.nvim,
PROTOCOL.md): MCP over a WebSocket on loopback, with tools of the editor's own. `lockfile` finds it, `link` uses it.
"""
