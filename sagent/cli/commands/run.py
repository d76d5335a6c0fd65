"""`sagent run`: one task without a terminal, in the words of those who think in executor and advisor."""

import argparse
from collections.abc import Sequence

from sagent.cli.flags import Parser, add_flags, take_executor
from sagent.errors import UsageError


def run_run(argv: Sequence[str]) -> int:
    parser = Parser(
        "run",
        usage='sagent run [flags] "TASK"',
        description="One task, answered and done; every flag of sagent is taken too. A terminal is never talked to.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("task", nargs="*", metavar="TASK", help="what to do, in quotes; piped input is its context")
    parser.add_executor("executor and advisor")
    add_flags(parser)
    flags = vars(parser.parse_args(argv))
    words: list[str] = flags.pop("task", [])
    if len(words) > 1:
        raise UsageError(
            f'Quote the task: sagent run "{" ".join(words)}". To send all of it as it is: '
            f"sagent -- run {' '.join(words)}"
        )
    take_executor(flags)
    from sagent.cli.headless import run_headless
    from sagent.cli.settings import load_or_report

    return run_headless(load_or_report(flags), words)
