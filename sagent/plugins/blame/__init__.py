"""The origin of each line of a file: the agent's call that wrote it, as the logs of sessions prove it."""

from sagent.config.values import switch
from sagent.plugin import EVERYDAY, Command, Extra, Part, Plugin, Setting, SlashCommand

APPROVED = "approved"
"""Kind of the entry that names a call and who has allowed it."""

NOTES = Setting(
    "blame_notes",
    switch,
    default=False,
    type="bool",
    help="name this session in a git note (refs/notes/sagent) on each commit with changes of it",
)
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
    parts=(
        Part(f"{__name__}.approvals:add", ("somebody answers",)),
        Part(f"{__name__}.noting:add", ("blame_notes",)),
    ),
    settings=(NOTES,),
    extras=(Extra("examples", "./examples.txt"),),
)
