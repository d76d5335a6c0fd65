"""`sagent wait` and `sagent stop`: the ends of background sessions."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from sagent.cli.flags import Parser, plugins_of
from sagent.cli.render import binary_safe, report
from sagent.errors import SagentError, UsageError
from sagent.lib.json import as_object, as_str, json_dump
from sagent.plugin import resolve
from sagent.plugins.background.commands.listing import SESSION, add_form, describe, read_form, state_directory
from sagent.plugins.background.records import Record, find, read, records

_POLL_SECONDS = 0.2
_STOP_TIMEOUT_SECONDS = 15.0  # for a session's process to close it


def run_wait(argv: Sequence[str]) -> int:
    """Wait for a session's result; print it, and return its exit code. Raises UsageError and SessionNotFound."""
    parser = Parser("wait", "Wait until a background session rests; print its result, and exit as that run would.")
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help=SESSION)
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="wait no longer: then the exit code is 124")
    parser.add_flags_of("wait")
    add_form(parser)
    given = parser.parse_args(argv)
    as_json, state = read_form(given.output_format), state_directory()
    if (code := _elsewhere("wait", argv, given.session, vars(given))) is not None:
        return code
    record, known = find(state, given.session), set[str]()
    until = None if given.timeout is None else time.monotonic() + given.timeout
    while record.state in ("working", "asking") and record.is_alive:
        for asks in (ask for ask in record.asks if ask not in known):
            known.add(asks)
            report(f"{record.id} asks: {asks} (to answer: sagent attach {record.id})")
        if until is not None and time.monotonic() >= until:
            report(f"{record.id} is still at work")
            return 124
        time.sleep(_POLL_SECONDS)
        record = again(state, record)
    return tell_result(again(state, record), as_json=as_json)


def _elsewhere(verb: str, argv: Sequence[str], session: str, options: Mapping[str, object]) -> int | None:
    """Have another plugin carry out a verb on its session; None if the options name none of theirs."""
    for _, extra in plugins_of(argv).extras(verb):
        found = cast("Callable[[str, Mapping[str, object]], int | None]", resolve(extra.add))(session, options)
        if found is not None:
            return found
    return None


def again(state: Path, record: Record) -> Record:
    """Return the present record of a session."""
    with suppress(OSError, ValueError):
        return read(state / "background" / f"{record.id}.json")
    return record


def tell_result(record: Record, *, as_json: bool = False) -> int:
    """Print the result of a session that has ended or rests; return its exit code."""
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
    if record.note:
        report(record.note)
    if message := as_str(as_object(record.result.get("error")).get("message")):
        report(message)
    elif record.code > 128 and not record.result:
        report(f"session {record.id} was stopped")
    return record.code


def run_stop(argv: Sequence[str]) -> int:
    """Interrupt sessions and close them. Raises UsageError and SessionNotFound."""
    parser = Parser("stop", "Interrupt background sessions, and close them. They can be resumed.")
    parser.add_argument("session", nargs="*", metavar="SESSION", help=SESSION)
    parser.add_argument("-a", "--all", action="store_true", help="stop all that run")
    parser.add_flags_of("stop")
    given = parser.parse_args(argv)
    state = state_directory()
    if given.session and (code := _elsewhere("stop", argv, given.session[0], vars(given))) is not None:
        return code
    if given.all and given.session:
        raise UsageError("Give sessions or --all, not both.")
    if given.all:
        chosen = [one for one in records(state) if one.is_open]
    else:
        chosen = [find(state, name) for name in given.session or [""]]
    code = 0
    for record in chosen:
        if record.is_alive:
            code = max(code, asyncio.run(_stop(record)))
        else:
            report(f"session {record.id} does not run: {record.condition}")
    return code


async def _stop(record: Record) -> int:
    if not await end_session(record):
        report(f"session {record.id} does not end; its process is {record.pid}")
        return 1
    sys.stdout.write(f"{record.id}\n")
    return 0


async def end_session(record: Record) -> bool:
    """Have a session's process close it; one that does not answer is sent SIGTERM. Return False if it does not end."""
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
    return not record.is_alive
