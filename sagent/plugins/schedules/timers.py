"""Timers of the system that start scheduled runs, also while nobody is logged in to sagent: systemd's for a user, and
launchd's.

Their runs have no variables of the shell, so keys must be stored with `sagent login`.
"""

import os
import plistlib
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.errors import UsageError
from sagent.lib.atomic import put
from sagent.plugins.schedules.cron import CronFields, fields_of
from sagent.plugins.schedules.store import Schedule

Timer: TypeAlias = Literal["systemd", "launchd"]
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_MAX_INTERVALS = 500  # of a launchd job
_TIMEOUT_SECONDS = 20.0


def system_timer() -> Timer | None:
    """Return the timers that this system has for its users, if any."""
    if sys.platform == "darwin":
        return "launchd"
    try:
        command = ("systemctl", "--user", "show-environment")
        done = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return "systemd" if done.returncode == 0 else None


def program() -> tuple[str, ...]:
    """Return the words that start this program again."""
    return (sys.executable, str(Path(sys.argv[0]).resolve()))


def start_timer(schedule: Schedule, timer: Timer) -> bool:
    """Have the system start a schedule's runs; False if its timers cannot express the cron line. Raises UsageError if
    the system refuses."""
    fields = fields_of(schedule.cron)
    if fields is None:
        return False
    if timer == "systemd":
        folder, unit = _systemd_folder(), _unit(schedule.name)
        folder.mkdir(parents=True, exist_ok=True)
        put(folder / f"{unit}.service", service_text(schedule, program()).encode())
        put(folder / f"{unit}.timer", timer_text(schedule, fields).encode())
        _call(["systemctl", "--user", "daemon-reload"])
        _call(["systemctl", "--user", "enable", "--now", f"{unit}.timer"])
        return True
    if (data := launchd_job(schedule, fields, program())) is None:
        return False
    file = _launchd_file(schedule.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    put(file, plistlib.dumps(data))
    _call(["launchctl", "bootstrap", f"gui/{os.getuid()}", str(file)])
    return True


def stop_timer(name: str, timer: str) -> None:
    """Remove a schedule's timer. What is gone already is fine."""
    if timer == "systemd":
        unit = _unit(name)
        _call(["systemctl", "--user", "disable", "--now", f"{unit}.timer"], may_fail=True)
        for ending in ("timer", "service"):
            (_systemd_folder() / f"{unit}.{ending}").unlink(missing_ok=True)
        _call(["systemctl", "--user", "daemon-reload"], may_fail=True)
    elif timer == "launchd":
        _call(["launchctl", "bootout", f"gui/{os.getuid()}/{_unit(name)}"], may_fail=True)
        _launchd_file(name).unlink(missing_ok=True)


def service_text(schedule: Schedule, words: Sequence[str]) -> str:
    """Return a service's unit file (systemd.service(5))."""
    quoted = " ".join(_quoted(word) for word in (*words, "schedule", "run", schedule.name))
    path = os.environ.get("PATH", os.defpath)
    return (
        f"[Unit]\nDescription=sagent schedule {schedule.name}\n\n"
        f"[Service]\nType=oneshot\nExecStart={quoted}\nEnvironment={_quoted(f'PATH={path}')}\n"
    )


def timer_text(schedule: Schedule, fields: CronFields) -> str:
    """Return a timer's unit file (systemd.timer(5)). Missed times lead to one run as soon as the machine is on."""
    lines = "".join(f"OnCalendar={line}\n" for line in calendar_lines(fields))
    return (
        f"[Unit]\nDescription=sagent schedule {schedule.name}: {schedule.cron}\n\n"
        f"[Timer]\n{lines}Persistent=true\nAccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n"
    )


def calendar_lines(fields: CronFields) -> list[str]:
    """Return the calendar expressions (systemd.time(7)) of a cron line: two if a day may match in two ways."""
    weekdays = ",".join(_DAYS[day] for day in sorted(fields.weekdays)) if len(fields.weekdays) < 7 else ""
    days, months = _listed(fields.days, 31), _listed(fields.months, 12)
    time = f"{_listed(fields.hours, 24)}:{_listed(fields.minutes, 60)}:00"
    if fields.both or not weekdays or days == "*":
        return [f"{weekdays} *-{months}-{days} {time}".strip()]
    return [f"*-{months}-{days} {time}", f"{weekdays} *-{months}-* {time}"]


def launchd_job(schedule: Schedule, fields: CronFields, words: Sequence[str]) -> dict[str, object] | None:
    """Return a job's property list (launchd.plist(5)); None if it would be too long."""
    weekdays = {} if len(fields.weekdays) == 7 else {"Weekday": sorted(fields.weekdays)}
    days = {} if len(fields.days) == 31 else {"Day": sorted(fields.days)}
    ways = [{**weekdays, **days}] if fields.both or not (weekdays and days) else [weekdays, days]
    rest = {
        name: sorted(values)
        for name, values, size in (
            ("Month", fields.months, 12),
            ("Hour", fields.hours, 24),
            ("Minute", fields.minutes, 60),
        )
        if len(values) < size
    }
    intervals = [
        dict(zip(named, values, strict=True))
        for way in ways
        for named in [{**way, **rest}]
        for values in product(*named.values())
    ]
    if len(intervals) > _MAX_INTERVALS:
        return None
    return {
        "Label": _unit(schedule.name),
        "ProgramArguments": [*words, "schedule", "run", schedule.name],
        "StartCalendarInterval": intervals,
        "EnvironmentVariables": {"PATH": os.environ.get("PATH", os.defpath)},
    }


def _listed(values: frozenset[int], size: int) -> str:
    return "*" if len(values) == size else ",".join(f"{value:02}" for value in sorted(values))


def _quoted(word: str) -> str:
    """Return a word as a unit file has it (systemd.service(5), "Command lines")."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$").replace("\n", "\\n")
    return f'"{escaped}"'


def _unit(name: str) -> str:
    return f"sagent-schedule-{name}"


def _systemd_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "systemd", "user")


def _launchd_file(name: str) -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{_unit(name)}.plist"


def _call(command: Sequence[str], *, may_fail: bool = False) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS)
        why = "" if done.returncode == 0 else done.stderr.strip() or f"code {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if why and not may_fail:
        raise UsageError(f"{shlex.join(command)}: {why}")
