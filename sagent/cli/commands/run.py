"""`sagent run`: one task without a terminal, in terms of executor and advisor."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace

from sagent.cli.flags import Parser, add_flags, add_images
from sagent.errors import UsageError
from sagent.lib.names import path_of


def run_run(argv: Sequence[str]) -> int:
    parser = Parser(
        "run",
        usage='sagent run [flags] "TASK"',
        description="Run one task and exit. It accepts every flag of sagent. It never asks on a terminal.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "task", nargs="*", metavar="TASK", help="what to do, in quotes; piped input is attached as context"
    )
    parser.add_addresses("executor and advisor")
    add_images(parser)
    add_flags(parser)
    flags = vars(parser.parse_args(argv))
    words: list[str] = flags.pop("task", [])
    images: list[str] = flags.pop("image", [])
    if len(words) > 1:
        raise UsageError(
            f'Quote the task: sagent run "{" ".join(words)}". To send all of it as it is: '
            f"sagent -- run {' '.join(words)}"
        )
    from sagent.cli.headless import run_headless
    from sagent.cli.settings import load_or_report

    notices = _take_nearby(flags)
    settings = load_or_report(flags)
    return run_headless(replace(settings, warnings=(*settings.warnings, *notices)), words, images)


def _take_nearby(flags: dict[str, object]) -> list[str]:
    """Use the config.yaml of the working directory if no file is named; return what to say if it is not trusted. Raises
    UsageError if a model that nobody chose would be used in place of its."""
    from sagent.config.trust import use_nearby
    from sagent.context.places import directory, home_of

    folder = path_of(str(flags.get("cwd") or os.environ.get("SAGENT_CWD") or ".")).absolute()
    home = home_of(os.environ)
    if "config" in flags or os.environ.get("SAGENT_CONFIG") or folder == directory("config", os.environ, home):
        return []
    file, notice = use_nearby(folder, directory("state", os.environ, home))
    if file is not None:
        flags["config"] = file
    if notice and not any(name in flags or os.environ.get(f"SAGENT_{name.upper()}") for name in ("model", "executor")):
        raise UsageError(f"{notice} --model M runs without it.")
    return [notice] if notice else []
