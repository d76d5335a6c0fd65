"""Side questions: `/btw` reads the conversation, and nothing of the question or the answer stays in it."""

from sagent.plugin import Plugin, SlashCommand

plugin = Plugin(
    "asides",
    "side questions that leave no trace in the conversation",
    slash_commands=(SlashCommand("btw", "sagent.plugins.asides.slash:btw"),),
)
