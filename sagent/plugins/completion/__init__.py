"""Completion of command lines in shells, and a man page."""

from sagent.plugin import EVERYDAY, Command, Extra, Plugin

plugin = Plugin(
    "completion",
    "completion of command lines in shells, and a man page",
    commands=(
        Command(
            "completion",
            "print shell completion for bash, zsh or fish, or a man page",
            f"{__name__}.command:run_completion",
            group=EVERYDAY,
        ),
    ),
    extras=(Extra("examples", "./examples.txt"),),
)
