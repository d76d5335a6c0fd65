"""Runs at the times of a cron line: by systemd's or launchd's timers, or while `sagent schedule serve` runs."""

from sagent.plugin import Command, Extra, Plugin, SlashCommand

PACKAGES = "cronsim"
"""Packages of the extra schedule."""

plugin = Plugin(
    "schedules",
    "runs at the times of a cron line",
    commands=(
        Command(
            "schedule",
            "run a prompt at the times of a cron line; list, remove",
            f"{__name__}.command:run_schedule",
            elsewhere=("cron", "schedules"),
        ),
    ),
    slash_commands=(SlashCommand("schedule", f"{__name__}.slash:schedule"),),
    extras=(Extra("examples", "./examples.txt"),),
)
