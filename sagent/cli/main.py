"""From words to a command, from errors to an exit code."""

import os
import signal
import sys

from sagent.cli.flags import COMMANDS, run_parser
from sagent.errors import SagentError, UsageError


def run(argv: list[str]) -> int:
    """Carry out a command line. Never raises for what a user or a provider did."""
    try:
        return _dispatch(argv)
    except SagentError as error:
        sys.stderr.write(f"sagent: {error}\n")
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _dispatch(argv: list[str]) -> int:
    command = argv[0] if argv else ""
    if command in COMMANDS:
        return _command(command, argv[1:])
    flags = vars(run_parser().parse_args(argv))
    words: list[str] = flags.pop("prompt", [])
    from sagent.cli.headless import run_headless
    from sagent.cli.settings import load_settings

    return run_headless(load_settings(flags), words)


def _command(name: str, argv: list[str]) -> int:
    match name:
        case "models":
            from sagent.cli.models import run_models as command
        case "sessions":
            from sagent.cli.sessions import run_sessions as command
        case "config":
            from sagent.cli.settings import run_config as command
        case _:
            from sagent.cli.demo import run_demo as command
    return command(argv)
