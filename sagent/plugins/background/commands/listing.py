"""`sagent ps`: the background sessions of this user."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.context.places import directory, home_of
from sagent.errors import ConfigError, UsageError
from sagent.lib.figures import duration
from sagent.lib.names import path_of
from sagent.lib.text import Table, one_line
from sagent.plugins.audit.fetched import add_stores, elsewhere
from sagent.plugins.background.records import Record, records

RECENT_SECONDS = 24 * 3_600  # since the end of a session that `sagent ps` still lists
SESSION = "its id, or the beginning of its id (default: the only one that runs)"
"""Help for the argument that names a session."""


def run_ps(argv: Sequence[str]) -> int:
    """List background sessions. Raises UsageError."""
    parser = Parser("ps", "List the sessions that run in the background, and those that ended within a day.")
    parser.add_argument("-a", "--all", action="store_true", help="list all that are known")
    add_stores(parser, listing=True)
    add_form(parser)
    given = parser.parse_args(argv)
    as_json, state = read_form(given.output_format), state_directory()
    if (place := elsewhere(vars(given))) is not None:
        rows = place.rows()
        table = Table(tuple(rows), ("session", "state", "node", "task"))
        names = ("id", "state", "node", "title")
        show([dict(zip(names, row, strict=False)) for row in rows], [table], as_json=as_json)
        return 0
    known = [record for record in records(state) if given.all or is_current(record)]
    table = Table(tuple(map(_row, known)), ("session", "state", "cost", "since", "directory", "task"), (2,))
    none = 'No session runs in the background. To start one: sagent --bg "TASK"'
    show([describe(one) for one in known], [table] if known else [none], as_json=as_json)
    return 0


def state_directory() -> Path:
    """Return the directory of the records. Settings that cannot be read are reported, and do without."""
    try:
        return load_settings({}).state_dir
    except ConfigError as error:
        report(str(error))
        given = os.environ.get("SAGENT_STATE_DIR")
        return path_of(given).absolute() if given else directory("state", os.environ, home_of(os.environ))


def is_current(record: Record) -> bool:
    """Return True for a session that runs, or has ended within a day."""
    return record.is_open or max(record.ended, record.started) > time.time() - RECENT_SECONDS


def _row(record: Record) -> tuple[str, ...]:
    cwd, home = record.cwd, str(Path.home())
    shown = f"~{cwd[len(home) :]}" if cwd == home or cwd.startswith(f"{home}/") else cwd
    since = duration(max((record.ended or time.time()) - record.started, 0))
    return (record.id, one_line(record.condition, 100), record.bill, since, shown, one_line(record.title, 60))


def describe(record: Record) -> Mapping[str, object]:
    """Return a session as JSON: what its process says, and what became of that."""
    members = asdict(record)
    del members["flags"], members["result"]
    return {**members, "state": "lost" if record.is_lost else record.state, "condition": record.condition}


def add_form(parser: Parser) -> None:
    """Add the flags of the output format."""
    parser.add_argument("--output-format", default="text", metavar="F", help="text (default), or json")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="the same as json")


def read_form(form: str) -> bool:
    """Return True for JSON. Raises UsageError."""
    if form not in ("text", "json"):
        raise UsageError(f"--output-format {form}: give text or json.")
    return form == "json"
