"""sagent as an agent of the Agent Client Protocol (agentclientprotocol.com), for Zed, JetBrains, neovim and others.

The plugin `hosting` speaks JSON-RPC, `stdio` has its lines, `server` answers methods, `session` is one conversation.
What an editor is shown, and may ask for, is in `version1` and `server`. `version1` says what an event of ours is in
protocol 1, and `version2` what an update of that is in the next version, a draft: each version has one table, and
nothing else knows their words.
"""

from sagent.plugin import SERVERS, Command, Plugin

plugin = Plugin(
    "acp",
    "sagent as an agent of editors, by the Agent Client Protocol",
    commands=(
        Command(
            "acp",
            "run as an agent for an editor: Zed, JetBrains, neovim and others start it",
            "sagent.plugins.acp.command:run_acp",
            ("--acp", "--experimental-acp"),
            group=SERVERS,
        ),
    ),
    needs=("hosting", "setup"),
)
