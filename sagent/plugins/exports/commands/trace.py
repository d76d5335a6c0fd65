"""`sagent trace`: a run turn by turn, from the file that --trace wrote or from a session."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings, session_path
from sagent.cli.tables import write
from sagent.errors import SessionNotFound, UsageError
from sagent.lib.names import path_of
from sagent.lib.regular import open_given
from sagent.plugins.audit.fetched import StoreAt, add_stores, elsewhere, reading
from sagent.plugins.audit.redacted import report_secrets
from sagent.plugins.exports.entries import SessionReader
from sagent.plugins.exports.events import read_events
from sagent.plugins.exports.report import Report
from sagent.plugins.exports.steps import Step
from sagent.session.store import is_session, named_logs
from sagent.session.view import session_of
from sagent.transcript.redaction import Redaction


def run_trace(argv: Sequence[str]) -> int:
    parser = Parser("trace", "Show a run turn by turn: tool calls, denials, consultations, cost.")
    parser.add_argument(
        "run", nargs="?", metavar="FILE | SESSION",
        help="a file written by --trace or --output-format stream-json (- is stdin), or a session's path or id, or "
             "the beginning of an id (default: the last session)",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="show texts in full")
    add_stores(parser)
    parser.add_cwd()
    given = parser.parse_args(argv)
    redaction = Redaction()
    report = Report(None, redaction=redaction) if given.full else Report(redaction=redaction)
    name: str = given.run or ""
    write(binary_safe(sys.stdout), report.show(_steps(name, given.cwd, elsewhere(vars(given)))))
    if not report.steps:
        raise UsageError(f"{name or 'The session'} has no events of a run.")
    report_secrets(redaction)
    if report.damaged:
        write(
            sys.stderr, [f"sagent: warning: the parts that could not be read are left out: {'; '.join(report.damaged)}"]
        )
    return 0


def _steps(name: str, cwd: str | None, place: StoreAt | None) -> Iterator[Step]:
    path = path_of(name)
    try:
        if place is None and name == "-":
            yield from read_events(sys.stdin.buffer)
        elif place is None and name and path.exists() and not path.is_dir():
            with open_given(path) as lines:
                if not lines.peek(16).startswith(b'{"id":"'):  # the beginning of a log entry, which no event has
                    yield from read_events(lines)
                    return
            session = session_of(path.absolute())
            files = named_logs(session) if path.name == "root.jsonl" else [path.absolute()]
            yield from SessionReader(session, files).steps()
        else:
            with reading(lambda: _found(name, cwd), name, place) as session:
                yield from SessionReader(session, named_logs(session)).steps()
    except OSError as error:
        raise UsageError(f"{error.filename or name}: cannot be read: {error.strerror or error}.") from error


def _found(name: str, cwd: str | None) -> Path:
    if name and is_session(path := path_of(name)):
        return path.absolute()
    settings = load_settings({"cwd": cwd})
    try:
        return session_path(settings, name)
    except SessionNotFound as error:
        if os.sep in name or name.endswith((".jsonl", ".json")):
            raise SessionNotFound(f"{name}: no such file or session") from error
        raise
