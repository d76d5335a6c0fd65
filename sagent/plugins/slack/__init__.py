"""sagent in a chat: a thread is a session. A service only has to implement `surface.ChatSurface`; Slack's is in
`socket_mode`. Needs sagent[slack]."""

from sagent.plugin import SERVERS, Command, Extra, Plugin, ToolEntry

PACKAGES = "slack-sdk aiohttp"
"""Packages of the extra slack."""
plugin = Plugin(
    "slack",
    "threads of Slack as sessions",
    commands=(
        Command(
            "slack",
            "run Slack threads as sessions, with buttons, files and budgets",
            "sagent.plugins.slack.command:run_slack",
            group=SERVERS,
        ),
    ),
    tools=(ToolEntry("SendFile"),),
    needs=("hosting",),
    extras=(Extra("examples", "./examples.txt"),),
)
