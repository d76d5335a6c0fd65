"""Replays, comparisons and measurements of sessions: replay, compare, sweep, gate, bench-advisor."""

from sagent.plugin import Command, Extra, Plugin

_COMMANDS = "sagent.plugins.lab.commands"
plugin = Plugin(
    "lab",
    "sessions run again, compared and measured",
    needs=("audit", "exports", "programs", "teams", "textcalls"),
    commands=(
        Command("lab", "measure and compare runs"),
        Command(
            "replay",
            "run a session again from its log, or give its prompts to another model",
            f"{_COMMANDS}.replay:run_replay",
            under="lab",
        ),
        Command(
            "compare",
            "compare two sessions: requests, calls, outcome, cost, tokens, time",
            f"{_COMMANDS}.compare:run_compare",
            under="lab",
        ),
        Command(
            "bench-advisor",
            "run tasks with and without an advisor, and show the difference",
            f"{_COMMANDS}.bench_advisor:run_bench_advisor",
            under="lab",
        ),
        Command(
            "sweep",
            "run tasks with every combination of some settings, within one budget, and tabulate the results",
            f"{_COMMANDS}.sweep:run_sweep",
            under="lab",
        ),
        Command(
            "gate",
            "check, in CI, whether a result is good enough: exit 0 or 1",
            f"{_COMMANDS}.gate:run_gate",
            under="lab",
        ),
    ),
    extras=(Extra("examples", "./examples.txt"),),
)
