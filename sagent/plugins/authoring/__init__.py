"""The tools of plugin authors: a list of the plugins there are, one to begin with, a check of one."""

from sagent.plugin import EVERYDAY, Command, Plugin

plugin = Plugin(
    "authoring",
    "lists plugins, begins one, and checks one",
    commands=(
        Command(
            "plugin",
            "add, list or remove plugins: skills, agents, commands, hooks and MCP servers",
            f"{__name__}.command:run_plugin",
            group=EVERYDAY,
        ),
    ),
)
