"""A race: several models do one task in git worktrees, within one budget, and the first that passes a check wins."""

from sagent.plugin import EVERYDAY, Command, Extra, Plugin

plugin = Plugin(
    "race",
    "several models do one task in worktrees, and the first that passes a check is merged",
    commands=(
        Command(
            "race",
            "have several models do one task; the first that passes a check is merged",
            f"{__name__}.command:run_race",
            group=EVERYDAY,
        ),
    ),
    needs=("programs", "worktrees"),
    extras=(Extra("examples", "./examples.txt"),),
)
