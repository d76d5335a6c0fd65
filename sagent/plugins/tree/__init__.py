"""The agents of the open session and their jobs: listed, followed, written to and stopped."""

from sagent.plugin import Plugin, SlashCommand

_SLASH = "sagent.plugins.tree.slash"
plugin = Plugin(
    "tree",
    "commands that list, follow and stop the agents and jobs of the open session",
    slash_commands=(
        SlashCommand("agents", f"{_SLASH}:list_agents"),
        SlashCommand("enter", f"{_SLASH}:enter"),
        SlashCommand("send", f"{_SLASH}:send"),
        SlashCommand("stop", f"{_SLASH}:stop"),
        SlashCommand("tasks", f"{_SLASH}:list_tasks"),
        SlashCommand("detach", f"{_SLASH}:detach"),
    ),
)
