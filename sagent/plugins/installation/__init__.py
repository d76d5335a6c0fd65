"""Update and removal of this installation, in the way of the program that installed it."""

from sagent.plugin import EVERYDAY, Command, Extra, Plugin

plugin = Plugin(
    "installation",
    "updates sagent, or removes it with its data",
    commands=(
        Command(
            "update",
            "update sagent with the program that installed it",
            f"{__name__}.command:run_update",
            elsewhere=("upgrade", "self-update"),
            group=EVERYDAY,
        ),
        Command(
            "uninstall",
            "remove sagent, and with --data what it has stored",
            f"{__name__}.command:run_uninstall",
            group=EVERYDAY,
        ),
    ),
    extras=(Extra("examples", "./examples.txt"),),
)
