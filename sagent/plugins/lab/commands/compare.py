"""`sagent compare`: two sessions side by side, or a session and a rerun of its prompts with another model."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser
from sagent.cli.headless import exit_code
from sagent.cli.render import binary_safe, report
from sagent.cli.tables import write
from sagent.errors import UsageError
from sagent.lib.atomic import put
from sagent.lib.json import json_dump
from sagent.lib.names import path_of
from sagent.plugins.audit.fetched import elsewhere, reading
from sagent.plugins.audit.redacted import report_secrets, without_secrets
from sagent.plugins.lab.commands.replay import add_live_flags, ask, conditions_of, notes_of, settings_of

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.plugins.lab.replay import Conditions
    from sagent.plugins.lab.sessiondiff import SessionDiff

DESCRIPTION = """Compare two sessions: turn by turn, whether requests, calls and replies were the same; cost by role,
tokens and time; and what a check command says of each directory. With --model, the second session is made first: see
sagent replay."""
FORMATS = ("text", "json", "html")


def run_compare(argv: Sequence[str]) -> int:
    """Compare them. Return 0, whether they differ or not; or the exit code of a rerun made for it."""
    flags = vars(_parser().parse_args(argv))
    settings, live = settings_of(flags)
    names, check = [str(flags[name]) for name in ("a", "b") if name in flags], str(flags.get("check", ""))
    if live == (len(names) == 2):
        raise UsageError("Give two sessions, or one session and --model M to run it again with.")
    from sagent.plugins.lab.recording import locate, session_at

    code = 0
    with ExitStack() as stack:
        found = [
            stack.enter_context(reading(partial(locate, settings, name), name, elsewhere(flags))) for name in names
        ]
        paths = [stack.enter_context(session_at(path)) for path in found]
        try:
            if live:
                diff, code = asyncio.run(_with_another(paths[0], settings, conditions_of(flags, check)))
            else:
                diff = asyncio.run(_of_two(paths[0], paths[1], check))
        except asyncio.CancelledError:  # by a signal, while a check ran
            raise KeyboardInterrupt from None
    _write(diff, str(flags.get("output_format", "text")), flags.get("output"))
    return code


def _parser() -> Parser:
    parser = Parser(
        "compare",
        usage="sagent compare A B [flags]   |   sagent compare SESSION --model M [flags]",
        description=DESCRIPTION,
        argument_default=argparse.SUPPRESS,
    )
    what = "a session's path or id, or the beginning of an id, or an exported bundle"
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("b", metavar="B", nargs="?", help="the other session")
    parser.add_argument(
        "--check", metavar="COMMAND", help="run this in each session's directory; its exit code is the outcome"
    )
    parser.add_argument("--output-format", metavar="F", choices=FORMATS, help="text (default), json or html")
    parser.add_argument("--output", metavar="FILE", help="write to FILE (default: stdout)")
    add_live_flags(parser)
    return parser


async def _of_two(left: Path, right: Path, check: str) -> "SessionDiff":
    from sagent.plugins.lab.sessiondiff import diff_sessions
    from sagent.plugins.programs.check import run_check

    diff = diff_sessions(left, right)
    if not check:
        return diff
    one, other = Path(diff.left.cwd), Path(diff.right.cwd)
    first = await run_check(check, one)
    if one == other:
        alike = f"Both ran in {one}: its present contents cannot be attributed to either of them."
        return diff.checked(first, first, alike)
    second = await run_check(check, other)
    return diff.checked(
        first, second, "The check sees the directories as they are now, not as they were when the runs ended."
    )


async def _with_another(session: Path, settings: "Settings", conditions: "Conditions") -> "tuple[SessionDiff, int]":
    from sagent.plugins.lab.sessiondiff import diff_sessions
    from sagent.plugins.programs.check import run_check

    done, signal_number = await ask(session, settings, conditions, lambda _: None)
    lines = [*notes_of(done), f"session {done.result.session_id}, head {done.result.head}"]
    if done.result.error is not None:
        lines.append(f"it ended early: {done.result.error.message}")
    report(*lines)
    if done.session is None:
        raise UsageError("The second session could not be saved, so there is nothing to compare.")
    diff = diff_sessions(session, done.session)
    if done.outcome is not None:
        first = await run_check(conditions.check, Path(diff.left.cwd))
        diff = diff.checked(first, done.outcome, "The check sees A's directory as it is now.")
    return diff, exit_code(done.result, signal_number)


def _write(diff: "SessionDiff", form: str, output: object) -> None:
    """Write to a file, whole or not at all, or to standard output. Raises UsageError."""
    from sagent.plugins.lab.sessiondiff import as_json, show
    from sagent.transcript.redaction import Redaction

    text, redaction = StringIO(), Redaction()
    out = binary_safe(sys.stdout) if output in (None, "-") else text
    match form:
        case "html":
            from sagent.plugins.lab.diffpage import write_diff

            out.write(write_diff(diff, redaction).decode("utf-8", "replace"))
        case "json":
            out.write(json_dump(redaction.value(as_json(diff))) + "\n")
        case _:
            write(out, (without_secrets(part, redaction) for part in show(diff)))
    report_secrets(redaction)
    if out is text:
        path = path_of(str(output))
        try:
            put(path, text.getvalue().encode("utf-8", "replace"))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}. Nothing was written.") from error
