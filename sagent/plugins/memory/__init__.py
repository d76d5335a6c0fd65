"""Memory: Markdown files that agents keep for later sessions."""

from sagent.config.values import switch
from sagent.plugin import Part, Plugin, Setting, SlashCommand

MEMORY = Setting("memory", switch, default=False, type="bool")
plugin = Plugin(
    "memory",
    "notes that agents keep for later sessions",
    parts=(Part("sagent.plugins.memory.notes:add", ("memory",)),),
    settings=(MEMORY,),
    slash_commands=(
        SlashCommand("memory", "sagent.plugins.memory.slash:memory"),
        SlashCommand("init", "sagent.plugins.memory.slash:init"),
    ),
)
