"""Saved sessions: lists, offline changes, verification and repair."""

from sagent.plugin import SESSIONS, Command, Extra, Plugin

plugin = Plugin(
    "audit",
    "sessions on this machine, the proof that they are as they were written, and their repair",
    commands=(
        Command(
            "sessions",
            "list, search, show and change sessions",
            f"{__name__}.sessions_command:run_sessions",
            group=SESSIONS,
        ),
        Command(
            "verify",
            "check that a session, or an exported bundle, has not been changed",
            f"{__name__}.command:run_verify",
            group=SESSIONS,
        ),
    ),
    extras=(
        Extra("examples", "./examples.txt"),
        Extra("compaction savings", f"{__name__}.kept_savings:KeptSavings"),
        Extra("sessions repair", f"{__name__}.repair_command:run_repair", "keep the intact part of a damaged log"),
    ),
)
