"""Sessions opened by remote programs: over HTTP, over JSON-RPC, or as agents of other agents."""

from sagent.plugin import SESSIONS, Command, Extra, Plugin

plugin = Plugin(
    "hosting",
    "what sessions for other programs have in common; for serve, acp, a2a, background, logins, mcp, mesh and slack",
    commands=(
        Command(
            "attach",
            "follow a session that runs in another process, write to it and answer its questions",
            "sagent.plugins.hosting.attach_command:run_attach",
            group=SESSIONS,
            under="mesh",
        ),
    ),
    extras=(Extra("examples", "./examples.txt"),),
)
