"""`sagent blame`: the prompt and call of an agent that wrote a line, proven by the log of its session."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings, session_path
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.names import path_of
from sagent.lib.regular import read_regular
from sagent.lib.text import Table, system_reason
from sagent.plugins.blame.arguments import split_lines
from sagent.plugins.blame.attribution import WrittenByAgent, attribute
from sagent.plugins.blame.card import read_card
from sagent.plugins.blame.evidence import read_evidence
from sagent.plugins.blame.gitlog import committed
from sagent.plugins.blame.notes import read_claims
from sagent.plugins.blame.project import project_sessions
from sagent.plugins.blame.report import Blame, as_json, card_rows, table

DESCRIPTION = """Show for each line of a file which call of an agent wrote it, as the verified logs of the project's
sessions prove it. FILE:LINE shows the prompt, the model, the approver, the cost and the proof of one line, FILE:3-9
several lines. A line is attributed only if all evidence agrees; every other line is unknown."""
EPILOG = """exit codes:
  0 done   1 a log or a kept content was changed, so nothing is attributed   2 usage"""
MAX_FILE_BYTES = 8 << 20
_PLACE = re.compile(r"(.+?):([0-9]{1,9})(?:-([0-9]{1,9}))?", re.DOTALL)
_COLOURS = (36, 33, 35, 32, 34)


def run_blame(argv: Sequence[str]) -> int:
    """Show the origins of lines. Raises UsageError, SessionCorrupt and OSError."""
    given = _parser().parse_args(argv)
    settings = load_settings({"cwd": given.cwd})
    blame = make_blame(given.file, settings.cwd, settings.state_dir, given.at or "", [
        session_path(settings, name) for name in given.session or ()
    ])  # fmt: skip
    is_json = given.json or given.output_format == "json"
    single = len(blame.chosen) == 1
    wanted = {origin for _, _, origin in blame.rows() if isinstance(origin, WrittenByAgent)}
    cards = {origin: read_card(origin) for origin in wanted} if single or given.cards else {}
    if is_json:
        show(as_json(blame, cards), (), as_json=True)
    elif single and ":" in given.file:
        ((number, text, origin),) = blame.rows()
        card = cards.get(origin) if isinstance(origin, WrittenByAgent) else None
        show(None, [Table(tuple(card_rows(text, origin, card, blame.claims.get(number, ()))))], as_json=False)
    else:
        _write(blame)
    return 0


def make_blame(name: str, cwd: Path, state: Path, at: str, sessions: Sequence[Path]) -> Blame:
    """Work out the origins of a file's lines, by some sessions or by all of the project. Raises UsageError."""
    path, lines = _place(name, cwd)
    real = Path(os.path.realpath(path))
    content = _read(real) if not at else committed(real, at)
    if content is None:
        raise UsageError(f"{path.name} is not in the commit {at}.")
    size = len(split_lines(content))
    chosen = lines or range(1, size + 1)
    if chosen.stop - 1 > size or chosen.start < 1 or (lines is not None and not lines):
        raise UsageError(f"{path.name} has {size} lines: give FILE:LINE or FILE:FIRST-LAST, from 1.")
    used = list(sessions) or project_sessions(state, real)
    origins = attribute(real, content, read_evidence(used), at=at)
    return Blame(path, content, origins, chosen, len(used), read_claims(real, content, at, state, used))


def _place(name: str, cwd: Path) -> tuple[Path, range | None]:
    """Return the file and the lines that a name means."""
    whole = cwd / path_of(name)
    match = _PLACE.fullmatch(name)
    if match is None or whole.is_file():
        return whole, None
    first, last = int(match[2]), int(match[3] or match[2])
    return cwd / path_of(match[1]), range(first, last + 1)


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, max_bytes=MAX_FILE_BYTES)
    except OSError as error:
        raise UsageError(f"{path.name} cannot be read: {system_reason(error)}.") from error


def _parser() -> Parser:
    parser = Parser("blame", DESCRIPTION, epilog=EPILOG)
    parser.add_argument("file", metavar="FILE[:LINE]", help="a file, one of its lines, or some: FILE:3-9")
    parser.add_argument("--at", metavar="COMMIT", help="the file as it is in this commit, in place of the working tree")
    parser.add_argument(
        "--session", metavar="SESSION", action="append",
        help="a session's path or id; may be repeated (default: all sessions of the project)",
    )  # fmt: skip
    parser.add_argument("--cards", action="store_true", help="with JSON, the prompt, approver and cost of every line")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON object (as --output-format json)")
    parser.add_cwd()
    return parser


def _write(blame: Blame) -> None:
    out = binary_safe(sys.stdout)
    coloured = out.isatty() and not os.environ.get("NO_COLOR")
    for head, text in table(blame):
        colour = _COLOURS[int(head[:8], 16) % len(_COLOURS)] if head[:1] not in ("", "·") else 0
        out.write(f"\x1b[{colour}m{head}\x1b[0m {text}\n" if coloured and colour else f"{head} {text}".lstrip() + "\n")
    out.flush()
