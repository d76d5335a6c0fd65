"""Tools for plugin authors: list the plugins, begin a new one, check one."""

from sagent.plugin import EVERYDAY, Command, Extra, Plugin

plugin = Plugin(
    "authoring",
    "lists plugins, begins one, and checks one",
    commands=(
        Command(
            "plugin",
            "add, list or remove plugins: skills, agents, commands, hooks and MCP servers",
            f"{__name__}.command:run_plugin",
            group=EVERYDAY,
        ),
    ),
    extras=(Extra("examples", "./examples.txt"),),
)
