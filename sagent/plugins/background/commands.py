"""`sagent ps`, `wait` and `stop`: the background sessions of this user, and their ends."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe, report
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.errors import SagentError, UsageError
from sagent.lib.figures import duration
from sagent.lib.json import as_object, as_str, json_dump
from sagent.lib.text import Table, one_line
from sagent.plugins.background.records import Record, find, read, records

if TYPE_CHECKING:
    from sagent.config import Settings

RECENT_SECONDS = 24 * 3_600  # since the end of a session that `sagent ps` still lists
_POLL_SECONDS = 0.2
_STOP_TIMEOUT_SECONDS = 15.0  # for a session's process to close it
_SESSION = "its id, or the beginning of its id (default: the only one that runs)"


def run_ps(argv: Sequence[str]) -> int:
    """List background sessions. Raises UsageError."""
    parser = Parser("ps", "List the sessions that run in the background, and those that ended within a day.")
    parser.add_argument("-a", "--all", action="store_true", help="list all that are known")
    _add_form(parser)
    given = parser.parse_args(argv)
    as_json, settings = _read_form(given.output_format), load_settings({})
    known = [one for one in records(settings.state_dir) if given.all or is_current(one)]
    table = Table(tuple(map(_row, known)), ("session", "state", "cost", "since", "directory", "task"), (2,))
    none = 'No session runs in the background. To start one: sagent --bg "TASK"'
    show([describe(one) for one in known], [table] if known else [none], as_json=as_json)
    return 0


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


def run_wait(argv: Sequence[str]) -> int:
    """Wait for a session's result; print it, and return its exit code. Raises UsageError and SessionNotFound."""
    parser = Parser("wait", "Wait until a background session rests; print its result, and exit as that run would.")
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help=_SESSION)
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="wait no longer: then the exit code is 124")
    _add_form(parser)
    given = parser.parse_args(argv)
    as_json, settings = _read_form(given.output_format), load_settings({})
    record, known = find(settings.state_dir, given.session), set[str]()
    until = None if given.timeout is None else time.monotonic() + given.timeout
    while record.state in ("working", "asking") and record.is_alive:
        for asks in (each for each in record.asks if each not in known):
            known.add(asks)
            report(f"{record.id} asks: {asks} (to answer: sagent attach {record.id})")
        if until is not None and time.monotonic() >= until:
            report(f"{record.id} is still at work")
            return 124
        time.sleep(_POLL_SECONDS)
        record = again(settings, record)
    return _tell(again(settings, record), as_json=as_json)


def again(settings: "Settings", record: Record) -> Record:
    """Return the present record of a session."""
    with suppress(OSError, ValueError):
        return read(settings.state_dir / "background" / f"{record.id}.json")
    return record


def _tell(record: Record, *, as_json: bool) -> int:
    out = binary_safe(sys.stdout)
    if record.is_lost:
        report(f"session {record.id} was ended by the system; to go on with it: sagent --resume {record.id}")
        if as_json:
            out.write(json_dump(describe(record)) + "\n")
        return 1
    if as_json:
        out.write(json_dump(record.result or describe(record)) + "\n")
        return record.code
    if text := as_str(record.result.get("result")):
        out.write(f"{text}\n")
    out.flush()
    if message := as_str(as_object(record.result.get("error")).get("message")):
        report(message)
    elif record.code > 128 and not record.result:
        report(f"session {record.id} was stopped")
    return record.code


def run_stop(argv: Sequence[str]) -> int:
    """Interrupt sessions and close them. Raises UsageError and SessionNotFound."""
    parser = Parser("stop", "Interrupt background sessions, and close them. They can be resumed.")
    parser.add_argument("session", nargs="*", metavar="SESSION", help=_SESSION)
    parser.add_argument("-a", "--all", action="store_true", help="stop all that run")
    given = parser.parse_args(argv)
    settings = load_settings({})
    if given.all and given.session:
        raise UsageError("Give sessions or --all, not both.")
    if given.all:
        chosen = [one for one in records(settings.state_dir) if one.is_open]
    else:
        chosen = [find(settings.state_dir, name) for name in given.session or [""]]
    code = 0
    for record in chosen:
        if record.is_alive:
            code = max(code, asyncio.run(_stop(settings, record)))
        else:
            report(f"session {record.id} does not run: {record.condition}")
    return code


async def _stop(settings: "Settings", record: Record) -> int:
    """Have a session's process close it; one that does not answer is sent SIGTERM."""
    from sagent.plugins.background.connection import Connection

    try:
        async with asyncio.timeout(_STOP_TIMEOUT_SECONDS), Connection.to(record) as connection:
            await connection.ask(op="stop")
            await connection.closed.wait()
    except (SagentError, TimeoutError):
        with suppress(ProcessLookupError):
            if record.is_alive:
                os.kill(record.pid, signal.SIGTERM)
    until = time.monotonic() + _STOP_TIMEOUT_SECONDS
    while record.is_alive and time.monotonic() < until:  # noqa: ASYNC110 -- another process releases its lock
        await asyncio.sleep(_POLL_SECONDS)
    if record.is_alive:
        report(f"session {record.id} does not end; its process is {record.pid}")
        return 1
    sys.stdout.write(f"{record.id}\n")
    return 0


def _add_form(parser: Parser) -> None:
    parser.add_argument("--output-format", default="text", metavar="F", help="text (default), or json")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="the same as json")


def _read_form(form: str) -> bool:
    """Return True for JSON. Raises UsageError."""
    if form not in ("text", "json"):
        raise UsageError(f"--output-format {form}: give text or json.")
    return form == "json"
