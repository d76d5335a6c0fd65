"""An account of sessions: where money, tokens and time went, and which changes would have made them cheaper."""

from sagent.plugin import SESSIONS, Command, Extra, Plugin, SlashCommand

plugin = Plugin(
    "why",
    "where a session's money, tokens and time went, and what would have made it cheaper",
    needs=("audit", "exports", "lab", "programs", "spending", "teams", "textcalls"),
    commands=(
        Command(
            "why",
            "show where the money, tokens and time of a session or of a week went, and how to save",
            f"{__name__}.command:run_why",
            group=SESSIONS,
        ),
    ),
    extras=(Extra("examples", "./examples.txt"),),
    slash_commands=(SlashCommand("why", f"{__name__}.slash:why"),),
)
