"""Sessions of other programs: their transcripts become sessions, and sessions become transcripts of theirs."""

from sagent.plugin import SESSIONS, Command, ExportFormat, Extra, Plugin, SlashCommand

plugin = Plugin(
    "transfer",
    "sessions of Claude Code, codex, Gemini CLI, opencode and pi, to go on with here",
    commands=(
        Command(
            "resume",
            "go on with a session of Claude Code, codex, Gemini CLI, opencode or pi",
            f"{__name__}.command:run_resume",
            group=SESSIONS,
        ),
    ),
    needs=("exports",),
    extras=(Extra("examples", "./examples.txt"),),
    slash_commands=(SlashCommand("import-session", f"{__name__}.slash:import_session"),),
    export_formats=(
        ExportFormat("claude", "a transcript of Claude Code", f"{__name__}.formats:export_claude", "claude.jsonl"),
        ExportFormat("codex", "a transcript of codex", f"{__name__}.formats:export_codex", "codex.jsonl"),
    ),
)
