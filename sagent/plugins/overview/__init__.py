"""The commands and keys, and facts of the session: model, limits, context, messages, tools, sandbox, neighbours."""

from sagent.plugin import Plugin, SlashCommand

_SLASH = "sagent.plugins.overview.slash"
plugin = Plugin(
    "overview",
    "commands that show the commands and keys, the open session, its last messages, and the sessions next to it",
    slash_commands=(
        SlashCommand("help", f"{_SLASH}:show_help"),
        SlashCommand("status", f"{_SLASH}:status"),
        SlashCommand("context", f"{_SLASH}:context"),
        SlashCommand("sessions", f"{_SLASH}:list_sessions"),
        SlashCommand("tools", f"{_SLASH}:list_tools"),
        SlashCommand("skills", f"{_SLASH}:show_skills"),
        SlashCommand("sandbox", f"{_SLASH}:sandbox"),
        SlashCommand("earlier", f"{_SLASH}:earlier"),
        SlashCommand("copy", f"{_SLASH}:copy"),
    ),
)
