"""`sagent schedule`: add, list and remove schedules, and carry out what is due."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sagent.cli.flags import Parser, parse_run, plugins_of
from sagent.cli.render import report
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.json import as_object, as_str, json_load
from sagent.lib.regular import read_given
from sagent.lib.text import Table, one_line
from sagent.plugin import Flag
from sagent.plugins.schedules.cron import checked, due_times, local_now
from sagent.plugins.schedules.store import Schedule, ScheduledRun, ScheduleStore
from sagent.plugins.schedules.timers import program, start_timer, stop_timer, system_timer

DESCRIPTION = """add NAME CRON [flags of a run] PROMPT: run a prompt in this directory at the times of a cron line
(minute hour day month weekday, local time), such as "0 9 * * 1-5", or @daily. list: show the schedules, their next time
and what was missed. run NAME: carry it out if it is due; --now in any case. remove NAME. serve: carry out what is due
until interrupted, for systems without timers."""
_REFUSED = {
    "bg": "no terminal waits for it",
    "output_format": "its result is JSON, in the folder schedules/results of the state directory",
}
"""Flags of a run that a schedule cannot have, and why."""
MAX_WAIT_SECONDS = 30.0  # of `serve`, between two looks at the clock, which may be set


def run_schedule(argv: Sequence[str]) -> int:
    """Run the operation. Raises UsageError and OSError."""
    parser = Parser("schedule", DESCRIPTION)
    names = ("add", "list", "run", "remove", "serve")
    parser.add_argument("operation", nargs="?", default="list", choices=names, help="default: list")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="as the operation takes them")
    given = parser.parse_args(argv)
    if given.words[:1] in (["-h"], ["--help"]):
        parser.parse_args(["--help"])
    store, words = ScheduleStore(load_settings({}).state_dir), list[str](given.words)
    match given.operation:
        case "add":
            return _add(store, words)
        case "list":
            return _list(store, as_json="--json" in words)
        case "serve":
            return _serve(store)
        case _ if not words:
            raise UsageError(f"sagent schedule {given.operation} needs a name.")
        case "remove":
            with suppress(UsageError):  # a damaged one
                stop_timer(words[0], store.get(words[0]).timer)
            store.remove(words[0])
            return 0
        case _:
            return _run(store, words[0], at_once="--now" in words[1:])


def _add(store: ScheduleStore, words: Sequence[str]) -> int:
    if len(words) < 3:
        raise UsageError('sagent schedule add NAME CRON [flags] PROMPT, such as: add news "0 9 * * 1-5" "what is new?"')
    name, cron, *rest = words
    plugins = plugins_of(rest)
    flags = parse_run(plugins, rest)
    if not flags.get("prompt"):
        raise UsageError("A schedule needs a prompt.")
    for flag, why in _REFUSED.items():
        if flag in flags:
            raise UsageError(f"--{flag.replace('_', '-')} does not go with a schedule: {why}.")
    own = {"prompt", "image", "print", *(each.keyword for each in plugins.every(Flag) if not each.of)}
    load_settings({key: value for key, value in flags.items() if key not in own})
    now = local_now()
    schedule = Schedule(name, checked(cron), str(Path.cwd()), tuple(rest), now.isoformat(timespec="seconds"))
    timer = system_timer()
    store.add(replace(schedule, timer=timer or ""))
    try:
        set_up = timer is not None and start_timer(schedule, timer)
    except (UsageError, OSError):
        stop_timer(name, timer or "")
        store.remove(name)
        raise
    if not set_up:
        store.remove(name)
        store.add(schedule)
    (first,) = due_times(schedule.cron, now, None, 1)
    report(f"{name} runs first at {first:%Y-%m-%d %H:%M}, in {schedule.cwd}.")
    report(
        "It sees no variables of this shell: `sagent login` stores a key for it."
        if set_up
        else "This system has no timers for it: it runs during `sagent schedule serve`, or a session with /schedule."
    )
    return 0


def _list(store: ScheduleStore, *, as_json: bool) -> int:
    now = local_now()
    rows = [facts(store, each, now) for each in store.all()]
    table = Table(
        tuple((row["name"], row["cron"], row["next"], _last(row), _missed(row), row["prompt"]) for row in rows),
        ("name", "cron", "next", "last", "missed", "prompt"),
    )
    show({"schedules": rows}, [table if rows else "There are no schedules."], as_json=as_json)
    return 0


def facts(store: ScheduleStore, schedule: Schedule, now: datetime) -> dict[str, str]:
    """Return what is to be known of a schedule."""
    runs = store.runs(schedule.name)
    last = runs[-1] if runs else None
    due, before = store.missed(schedule, now)
    (coming,) = due_times(schedule.cron, now, None, 1)
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "prompt": one_line(" ".join(schedule.words), 60),
        "cwd": schedule.cwd,
        "timer": schedule.timer,
        "next": coming.isoformat(" ", "minutes"),
        "last": last.due.replace("T", " ")[:16] if last else "",
        "ended": last.ended if last else "",
        "code": str(last.code) if last and last.ended else "",
        "session": last.session if last else "",
        "usd": last.usd if last else "",
        "missed": str(before + (due is not None)),
    }


def _last(row: Mapping[str, str]) -> str:
    how = "" if not row["last"] else f" (exit {row['code']})" if row["ended"] else " (did not end)"
    return f"{row['last']}{how}"


def _missed(row: Mapping[str, str]) -> str:
    return "" if row["missed"] == "0" else row["missed"]


def _run(store: ScheduleStore, name: str, *, at_once: bool) -> int:
    """Carry out a schedule's run in this process, with its result in a file; return the run's exit code."""
    schedule = store.get(name)
    with store.claimed(schedule, local_now(), at_once=at_once) as run:
        if run is None:
            report(f"{name} is not due, or runs already. `sagent schedule run {name} --now` runs it in any case.")
            return 0
        if run.missed:
            report(f"{name}: {run.missed} earlier runs were missed; this is one run for all.")
        code = _carry_out(store, schedule)
        store.record(name, _ended(store, run, name, code))
    return code


def _carry_out(store: ScheduleStore, schedule: Schedule) -> int:
    from sagent.cli.main import run

    try:
        os.chdir(schedule.cwd)
    except OSError as error:
        report(f"{schedule.cwd}: {error.strerror}. sagent schedule remove {schedule.name} removes the schedule.")
        return 2
    out = os.open(store.output(schedule.name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    kept = os.dup(1)
    try:
        os.dup2(out, 1)
        return run(["--output-format", "json", *schedule.words])
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(out)


def _ended(store: ScheduleStore, run: ScheduledRun, name: str, code: int) -> ScheduledRun:
    """Return a run with what its result says."""
    result: Mapping[str, object] = {}
    with suppress(OSError, ValueError):
        result = as_object(json_load(read_given(store.output(name))))
    usd = as_object(result.get("cost_usd")).get("total", "")
    now = local_now().isoformat(timespec="seconds")
    return replace(run, ended=now, code=code, usd=str(usd), session=as_str(result.get("session_id")))


def _serve(store: ScheduleStore) -> int:
    """Start what is due, each as a process of its own, until a signal."""
    done, code = threading.Event(), 0

    def stop(number: int, _: object) -> None:
        nonlocal code
        code = 128 + number
        done.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    report("Schedules are carried out until this ends. Ctrl-C ends it.")
    running: dict[str, subprocess.Popen[bytes]] = {}
    while not done.is_set():
        started, ended = start_due(store, running)
        report(*(f"{name} began." for name in started), *(f"{name} ended with code {ended[name]}." for name in ended))
        done.wait(MAX_WAIT_SECONDS)
    for process in running.values():
        process.terminate()
        process.wait()
    return code


def start_due(
    store: ScheduleStore, running: dict[str, subprocess.Popen[bytes]], output: int | None = None
) -> tuple[list[str], dict[str, int]]:
    """Start the runs that are due and that no timer starts. Return their names, and the exit codes of those that have
    ended. `running` has their processes, whose words go to `output`."""
    ended = {name: code for name, process in running.items() if (code := process.poll()) is not None}
    for name in ended:
        del running[name]
    started = list[str]()
    for schedule in store.all():
        if schedule.timer or schedule.name in running or store.missed(schedule, local_now())[0] is None:
            continue
        words = (*program(), "schedule", "run", schedule.name)
        try:
            running[schedule.name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
            )
            started.append(schedule.name)
        except OSError as error:
            raise UsageError(f"{schedule.name}: {shlex.join(words)}: {error.strerror}") from error
    return started, ended
