"""Errors of the command line as JSON on stdout, if JSON was requested."""

import os
import sys
from contextlib import suppress
from itertools import pairwise

from sagent.errors import SagentError

REPORTED = "reported as JSON"
"""Note on an error that stdout already has, or that comes after the single object of its command."""


def report_as_json(argv: list[str], error: SagentError) -> None:
    """Write the error if the words request JSON and it was not written before: as the result of a run, or as the single
    object of another command."""
    if REPORTED in getattr(error, "__notes__", ()) or not _wants_json(argv):
        return
    from sagent.cli.flags import plugins_of
    from sagent.cli.render import JsonRenderer, binary_safe, escaped
    from sagent.events import Failure, Result
    from sagent.lib.json import json_dump
    from sagent.plugin import Command

    out = binary_safe(sys.stdout)
    if argv and argv[0] in plugins_of(argv).named(Command) and argv[0] != "run":
        told = {"error": {"kind": error.kind, "message": str(error)}}
        out.write(escaped(json_dump(told)) + "\n")
        out.flush()
    else:
        JsonRenderer(out).on_result(Result("", (), "error", Failure(error.kind, str(error))))


def _named_in_file() -> str:
    """Return the format that the person's settings file names, "" if it cannot be read."""
    from sagent.config.files import find_file, read_file
    from sagent.context.places import directory, home_of

    with suppress(SagentError, OSError):
        if file := read_file(find_file(directory("config", os.environ, home_of(os.environ)))[0]):
            return str(file.data.get("output_format"))
    return ""


def _wants_json(argv: list[str]) -> bool:
    """Return True if the words request JSON, well-formed or not; words after "--" are no flags."""
    flags = argv[: argv.index("--")] if "--" in argv else argv
    named = [flag.partition("=")[2] for flag in flags if flag.startswith("--output-format=")]
    named += [value for flag, value in pairwise(flags) if flag == "--output-format"]
    named = named or [os.environ.get("SAGENT_OUTPUT_FORMAT") or _named_in_file()]
    return "--json" in flags or not {"json", "stream-json"}.isdisjoint(named)
