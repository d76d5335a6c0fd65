"""`sagent resume`: a session of another program becomes one of ours, and is continued."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sagent.cli.flags import Parser, parse_run, plugins_of
from sagent.cli.render import report
from sagent.cli.settings import load_or_report, load_settings
from sagent.cli.tables import show
from sagent.errors import SessionNotFound, UsageError
from sagent.lib.text import Table, count
from sagent.plugins.transfer.places import Place, find_transcript, newest, read_transcript
from sagent.plugins.transfer.steps import PROGRAMS, Program
from sagent.plugins.transfer.writer import Taken, rows_of, write_session

if TYPE_CHECKING:
    from sagent.config import Settings

DESCRIPTION = """Make a session of a transcript of Claude Code, codex, Gemini CLI, opencode or pi, and go on with it
on any model. The transcript stays as it is. What could not be taken over is listed."""
EPILOG = """Further flags are those of a run. The prompts of a transcript count as yours only if it lies where the
program keeps its own."""
MAX_SHOWN_REASONS = 20
_OTHERS = ("continue", "resume", "session", "fork", "ephemeral")


def run_resume(argv: Sequence[str]) -> int:
    """Take over a transcript and run on. Raises UsageError."""
    given, rest = _parser().parse_known_args([*argv])
    first = rest[:1] if rest and not rest[0].startswith("-") else []  # words of a run stand together
    flags = parse_run(plugins_of(argv), rest[len(first) :])
    which, *words = [*first, *map(str, flags.pop("prompt", []))] or [""]
    if clash := next((name for name in _OTHERS if name in flags), ""):
        raise UsageError(f"--{clash} cannot be combined with `sagent resume`.")
    settings = load_settings({name: flags[name] for name in ("cwd", "config") if name in flags})
    program = cast("Program | None", given.program)
    if given.list or not which:
        return _list(program, as_json=given.json)
    ours = None if program else _own_session(settings, which)
    taken = None if ours else take_over(which, program, settings)
    path = str(ours or (taken.session if taken else ""))
    runs = bool(words) or bool(flags.get("print")) or bool(flags.get("image"))
    talks = not runs and not given.json and sys.stdin.isatty() and sys.stdout.isatty()
    saves = given.save_only or not (runs or talks)
    if taken is not None:
        _report(taken, named=not saves)
    if saves:
        if taken is not None:
            _show_taken(taken, as_json=given.json)
        return 0
    return _run({**flags, "session": path}, words, talks=talks)


def _parser() -> Parser:
    usage = "sagent resume [FILE | ID] [--from PROGRAM] [flags] [PROMPT]"
    parser = Parser("resume", DESCRIPTION, usage=usage, epilog=EPILOG)
    names = ", ".join(PROGRAMS)
    parser.add_argument("--from", dest="program", metavar="PROGRAM", choices=[*PROGRAMS], help=f"the program: {names}")
    parser.add_argument("--list", action="store_true", help="list the transcripts on this machine, newest first")
    parser.add_argument("--save-only", action="store_true", help="make the session and print its id; do not go on")
    parser.add_argument("--json", action="store_true", help="print the list, or the new session, as JSON")
    return parser


def take_over(which: str, program: Program | None, settings: "Settings") -> Taken:
    """Make a session of the transcript that a path or id names. Raises UsageError, SagentError and OSError."""
    from sagent.app.models import price_book

    place = find_transcript(which, program, Path("~").expanduser(), os.environ, settings.cwd)
    return write_session(read_transcript(place), settings.state_dir, settings.cwd, price_book(settings))


def _own_session(settings: "Settings", which: str) -> Path | None:
    """Return a session of ours by its path or id, if that is no transcript of others."""
    from sagent.session.store import find

    try:
        return find(settings.state_dir, which, settings.cwd)
    except SessionNotFound:
        return None


def _list(program: Program | None, *, as_json: bool) -> int:
    """Print the newest transcripts."""
    shown = newest(program, Path("~").expanduser(), os.environ)
    rows = tuple((place.program, place.id, _when(place), str(place.file)) for place in shown)
    names = ("program", "id", "written", "file")
    none = (
        f"There is no transcript of {program or ', '.join(PROGRAMS)} here.\n"
        "To go on with a session of sagent: sagent --continue, or sagent --resume to choose one"
    )
    table = Table(rows, names) if rows else none
    show([dict(zip(names, row, strict=True)) for row in rows], [table], as_json=as_json)
    return 0


def _when(place: Place) -> str:
    try:
        return datetime.fromtimestamp(place.written, UTC).isoformat(timespec="minutes")[:16].replace("T", " ")
    except (ValueError, OverflowError, OSError):
        return ""


def _report(record: Taken, *, named: bool) -> None:
    """Say on stderr what was taken over and what was not."""
    rows = list(rows_of(record.left_out))
    report(record.summary, *([f"session {record.session.name}"] if named else ()))
    if rows:
        more = f"  and {len(rows) - MAX_SHOWN_REASONS} more reasons" if len(rows) > MAX_SHOWN_REASONS else ""
        report("left out:", *(f"  {row}" for row in rows[:MAX_SHOWN_REASONS]), *filter(None, (more,)))


def _show_taken(record: Taken, *, as_json: bool) -> None:
    name = record.session.name
    facts: Mapping[str, object] = {
        "session": name,
        "path": str(record.session),
        "program": record.program,
        "source": record.source,
        "title": record.title,
        "cwd": record.cwd,
        "model": record.model,
        "messages": record.messages,
        "calls": record.calls,
        "images": record.images,
        "agents": record.children,
        "compactions": record.compactions,
        "usd": str(record.usd),
        "unpriced": list(record.unpriced),
        "left_out": dict(record.left_out),
    }
    show(facts, [name], as_json=as_json)
    if not as_json:
        model = "" if record.model else " --model PROVIDER/MODEL"
        report(f"{count(record.messages, 'message')}; go on with: sagent --resume {name}{model}")


def _run(flags: Mapping[str, object], words: list[str], *, talks: bool) -> int:
    """Go on with a session; return the exit code."""
    flags = dict(flags)
    images = [str(file) for file in cast("list[object]", flags.pop("image", None) or [])]
    flags.pop("print", None)
    if not talks:
        from sagent.cli.headless import run_headless

        return run_headless(load_or_report(flags), words, images)
    from sagent.cli.interactive import run_interactive

    with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):  # the REPL writes its own escape sequences
        return run_interactive(flags)
