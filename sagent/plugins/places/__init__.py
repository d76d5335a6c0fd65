"""Directories of the open session: `/cd` and `/add-dir`."""

from sagent.plugin import Plugin, SlashCommand

_SLASH = "sagent.plugins.places.slash"
plugin = Plugin(
    "places",
    "changes of the directories that the open session works in",
    slash_commands=(
        SlashCommand("cd", f"{_SLASH}:change_directory"),
        SlashCommand("add-dir", f"{_SLASH}:add_directory"),
    ),
)
