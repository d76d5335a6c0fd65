"""The origin of each line of a file: the agent's call that wrote it, as the logs of sessions prove it."""

from sagent.plugin import EVERYDAY, Command, Part, Plugin, SlashCommand

APPROVED = "approved"
"""Kind of the entry that names a call and who has allowed it."""

plugin = Plugin(
    "blame",
    "the agent's call that wrote each line of a file, proven by the logs of sessions",
    commands=(
        Command(
            "blame",
            "show which prompt and call of an agent wrote a line, or that nobody can tell",
            f"{__name__}.command:run_blame",
            group=EVERYDAY,
        ),
    ),
    slash_commands=(SlashCommand("blame", f"{__name__}.slash:blame"),),
    parts=(Part(f"{__name__}.approvals:add", ("somebody answers",)),),
)
