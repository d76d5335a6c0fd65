"""Sessions that go on without a terminal: each in a process of its own, on a socket for this user's other programs."""

from sagent.plugin import SESSIONS, Command, Extra, Flag, Plugin, Runner, SecretFolder, SlashCommand

_COMMANDS = "sagent.plugins.background.commands"
_SLASH = "sagent.plugins.background.slash"
plugin = Plugin(
    "background",
    "sessions that go on when their terminal is closed",
    commands=(
        Command("ps", "list the sessions that run in the background", f"{_COMMANDS}.listing:run_ps", group=SESSIONS),
        Command("wait", "wait for the result of a background session", f"{_COMMANDS}.ending:run_wait", group=SESSIONS),
        Command(
            "logs",
            "show what a background session has said and done, and follow it",
            f"{_COMMANDS}.logs:run_logs",
            group=SESSIONS,
        ),
        Command(
            "answer",
            "show the open question of a background session, or answer it",
            f"{_COMMANDS}.answer:run_answer",
            group=SESSIONS,
        ),
        Command("stop", "interrupt a background session, and end it", f"{_COMMANDS}.ending:run_stop", group=SESSIONS),
    ),
    flags=(Flag("bg", "run the prompt in the background: print the session's id and do not wait"),),
    runners=(Runner("sagent.plugins.background.starting:run_background", takes=("worktree",)),),
    slash_commands=(SlashCommand("attach", f"{_SLASH}:attach"), SlashCommand("bg", f"{_SLASH}:bg", "ctrl-\\")),
    extras=(
        Extra("examples", "./examples.txt"),
        Extra("attach", "sagent.plugins.background.attached:attach"),
        Extra("open sessions", "sagent.plugins.background.attached:opening_of_held"),
        Extra("running sessions", f"{_SLASH}:listed"),
        Extra("watch sessions", f"{_SLASH}:show_running"),
    ),
    secret_folders=(SecretFolder("background"),),  # results of the person's sessions
    needs=("audit", "hosting"),
)
