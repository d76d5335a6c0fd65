"""`sagent run`: one task without a terminal, in the words of those who think in executor and advisor."""

import argparse
from collections.abc import Sequence

from sagent.cli.flags import Parser, add_flags
from sagent.errors import UsageError


def run_once(argv: Sequence[str]) -> int:
    """Carry out the task and return the exit code."""
    parser = Parser(
        prog="sagent run",
        usage='sagent run [flags] "TASK"',
        description="One task, answered and done; every flag of sagent is taken too. A terminal is never talked to.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument("task", nargs="*", metavar="TASK", help="what to do, in quotes; piped input is its context")
    group = parser.add_argument_group("executor and advisor")
    group.add_argument("--executor", metavar="M", help="the model that does the work: another name of --model")
    group.add_argument("--executor-api-base", metavar="URL", help="where the executor's server is, for it alone")
    group.add_argument(
        "--advisor-api-base", metavar="URL", action="append", help="where the advisor's is; one for each --advisor"
    )
    add_flags(parser)
    flags = vars(parser.parse_args(argv))
    words: list[str] = flags.pop("task", [])
    if len(words) > 1:
        raise UsageError(
            f'Quote the task: sagent run "{" ".join(words)}". To send all of it as it is: '
            f"sagent -- run {' '.join(words)}"
        )
    if "executor" in flags:
        if "model" in flags:
            raise UsageError("--executor and --model name the same: give one of them.")
        flags["model"] = flags.pop("executor")
    from sagent.cli.headless import run_headless
    from sagent.cli.settings import load_or_report

    return run_headless(load_or_report(flags), words)
