"""The setup of sagent: logins, lists of models, checks and a report of this machine, and a demo."""

from sagent.plugin import EVERYDAY, Check, Command, Extra, Plugin, SlashCommand

_CHECKS, _MACHINE = "sagent.plugins.setup.doctor", "sagent.plugins.setup.machine"
_SLASH = "sagent.plugins.setup.slash"
plugin = Plugin(
    "setup",
    "logins, lists of models, checks of keys, programs and directories, and a demo",
    needs=("programs",),
    commands=(
        Command(
            "login",
            "save a provider's API key, or log in if it has a login of its own; it is tested first",
            "sagent.plugins.setup.login:run_login",
            group=EVERYDAY,
        ),
        Command(
            "models",
            "list known models: window, limits, price",
            "sagent.plugins.setup.models:run_models",
            group=EVERYDAY,
        ),
        Command(
            "doctor",
            "check keys, providers, programs, the terminal and directories",
            "sagent.plugins.setup.command:run_doctor",
            group=EVERYDAY,
        ),
        Command(
            "demo",
            "fix a failing test in a small project, by default offline and without a key; --local: a real small model",
            "sagent.plugins.setup.demo:run_demo",
            group=EVERYDAY,
        ),
    ),
    slash_commands=(
        SlashCommand("doctor", f"{_SLASH}:doctor"),
        SlashCommand("bug", f"{_SLASH}:bug"),
        SlashCommand("login", "sagent.plugins.setup.key:login"),
        SlashCommand("config", "sagent.plugins.setup.settings:config"),
        SlashCommand("vim", "sagent.plugins.setup.settings:set_vim"),
        SlashCommand("theme", "sagent.plugins.setup.settings:theme"),
        SlashCommand("setup", "sagent.plugins.setup.first:setup"),
    ),
    checks=(
        Check("keys", f"{_CHECKS}:check_keys"),
        Check("stored keys", f"{_MACHINE}:check_exposed"),
        Check("plugins", f"{_MACHINE}:check_plugins"),
        Check("extras", f"{_MACHINE}:check_extras"),
        Check("network", f"{_MACHINE}:check_network"),
        Check("programs", f"{_CHECKS}:check_programs"),
        Check("sandbox", f"{_CHECKS}:check_sandbox"),
        Check("terminal", f"{_CHECKS}:check_terminal"),
        Check("directories", f"{_CHECKS}:check_places"),
        Check("providers", f"{_CHECKS}:check_providers"),
    ),
    extras=(Extra("examples", "./examples.txt"),),
)
