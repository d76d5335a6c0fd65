"""sagent as an agent of the Agent Client Protocol (agentclientprotocol.com), for Zed, JetBrains, neovim and others.

The plugin `hosting` speaks JSON-RPC, `stdio` has its lines, `server` answers methods, `session` is one conversation.
`version1` translates events to protocol 1, and `version2` its updates to the next version, a draft: no other module
knows a version's terms.
"""

from sagent.plugin import SERVERS, Command, Extra, Plugin

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
    extras=(Extra("examples", "./examples.txt"),),
)
