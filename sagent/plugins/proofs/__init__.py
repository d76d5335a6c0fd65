"""Proofs of changes: a signed file that says where every changed line comes from, and its check in CI."""

from sagent.plugin import SESSIONS, Command, Extra, Plugin

plugin = Plugin(
    "proofs",
    "proofs that each changed line comes from a session's log or from a named person",
    commands=(
        Command(
            "prove",
            "write a signed proof of where each line of a change comes from",
            f"{__name__}.prove_command:run_prove",
            group=SESSIONS,
        ),
        Command(
            "check-proof",
            "check a change against its proof, offline, as CI does",
            f"{__name__}.check_command:run_check",
            group=SESSIONS,
        ),
    ),
    needs=("audit", "blame", "worktrees"),
    extras=(Extra("examples", "./examples.txt"),),
)
