"""The link that editors offer to agents in their terminals. A lock file names the editor's port and folders.

It was made for Claude Code, and extensions for VS Code, JetBrains and neovim use it (coder/claudecode.nvim,
PROTOCOL.md): MCP over a WebSocket on loopback, with the editor's own tools. `lockfile` finds it, `link` uses it.
"""

from sagent.config.values import switch
from sagent.plugin import Part, Plugin, Setting

EDITOR_LINK = Setting(
    "editor_link", switch, default=True, type="bool", keyword_type="bool | str | None", scope="surface",
)  # fmt: skip
plugin = Plugin(
    "editor",
    "the selection, errors and diffs of an editor with a lock file",
    parts=(Part("sagent.plugins.editor.part:add", ("in a terminal", "in an editor")),),
    settings=(EDITOR_LINK,),
    needs=("hosting",),
)
