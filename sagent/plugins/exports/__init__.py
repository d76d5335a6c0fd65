"""Sessions for people to read: as pages, Markdown, recordings and bundles; turn by turn; and their advisors'
answers."""

from sagent.config.declared import SESSION
from sagent.config.values import path_of
from sagent.plugin import SESSIONS, Command, ExportFormat, Extra, Part, Plugin, Setting, SlashCommand

_COMMANDS, _FORMATS = f"{__name__}.commands", f"{__name__}.formats"
TRACE = Setting(
    *("trace", path_of, None, "Path | None", "_Path | None"),
    group=SESSION,
    metavar="FILE",
    scope="surface",
    key="logging.trace_file",
    help="append every event to FILE; show it with sagent trace FILE",
)
plugin = Plugin(
    "exports",
    "sessions to read: exports, shared folders, runs turn by turn, what advisors said",
    needs=("audit",),
    commands=(
        Command(
            "export",
            "export a session as a bundle, a web page, Markdown, JSON lines or a terminal recording",
            f"{_COMMANDS}.export:run_export",
            group=SESSIONS,
        ),
        Command(
            "share",
            "export sessions as a static folder for any web server",
            f"{_COMMANDS}.share:run_share",
            group=SESSIONS,
        ),
        Command(
            "trace",
            "show a run turn by turn, from its trace or its session",
            f"{_COMMANDS}.trace:run_trace",
            group=SESSIONS,
        ),
        Command(
            "advice",
            "show what a session's advisors said, what came of it and what it cost",
            f"{_COMMANDS}.advice:run_advice",
            group=SESSIONS,
        ),
    ),
    parts=(Part(f"{__name__}.trace_part:add", ("trace",)),),
    settings=(TRACE,),
    slash_commands=(
        SlashCommand("export", f"{__name__}.slash:export"),
        SlashCommand("share", f"{__name__}.slash:share"),
    ),
    export_formats=(
        ExportFormat("bundle", "all of it, checked by `sagent verify`", f"{_FORMATS}:export_bundle_file", "tar"),
        ExportFormat("html", "one page", f"{_FORMATS}:export_html"),
        ExportFormat("md", "Markdown", f"{_FORMATS}:export_markdown"),
        ExportFormat("jsonl", "every entry", f"{_FORMATS}:export_jsonl"),
        ExportFormat("cast", "a terminal recording for asciinema", f"{__name__}.cast:export_cast"),
    ),
    extras=(Extra("examples", "./examples.txt"),),
)
