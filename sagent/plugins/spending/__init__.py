"""What was spent over days: `/usage`, by day, week, project or model."""

from sagent.plugin import Plugin, SlashCommand

plugin = Plugin(
    "spending",
    "what was spent over days, by day, week, project or model",
    slash_commands=(SlashCommand("usage", "sagent.plugins.spending.slash:usage"),),
)
