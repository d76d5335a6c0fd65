"""Import of other programs' settings, and plugins that are folders."""

from sagent.plugin import EVERYDAY, Command, Extra, Plugin

_FOLDERS = "sagent.plugins.imports.folder_command"
plugin = Plugin(
    "imports",
    "settings of other programs; folders of skills, agents, commands, hooks and MCP servers",
    commands=(
        Command(
            "import",
            "import settings from Claude Code, codex, opencode, Gemini CLI or VS Code",
            "sagent.plugins.imports.command:run_import",
            group=EVERYDAY,
        ),
    ),
    extras=(
        Extra("examples", "./examples.txt"),
        Extra("plugin add", f"{_FOLDERS}:run_add", "copy a folder of skills, agents, commands, hooks and MCP servers"),
        Extra("plugin list", f"{_FOLDERS}:run_list"),
        Extra("plugin remove", f"{_FOLDERS}:run_remove", "delete such a folder"),
    ),
)
