"""Scheduled prompts and the history of their runs, in the folder `schedules` of the state directory."""

import json
import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib import flock
from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.lib.regular import read_given
from sagent.plugins.schedules.cron import due_times, latest_due, moment_of
from sagent.session.log import make_directory

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
MAX_RUNS = 100  # that are remembered of one schedule
MAX_MISSED = 1_000  # that are counted
MAX_CLOCK_CHANGE = timedelta(days=1)  # after which the time of a schedule's creation is not believed


@dataclass(frozen=True, slots=True)
class Schedule:
    """A prompt and its flags, `words`, to be run in a directory at the times of a cron line, in local time.

    `since` is the time of its creation; `timer` is what starts its runs: "systemd", "launchd", or "" for `sagent
    schedule serve`.
    """

    name: str
    cron: str
    cwd: str
    words: tuple[str, ...]
    since: str
    timer: str = ""


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A run. `due` is the time that it was for; `missed` counts the times before that had no run. `ended` is "" while
    it runs, and stays so if it was killed. Times are local, ISO 8601, `due` with its offset."""

    due: str
    began: str
    missed: int = 0
    ended: str = ""
    code: int = 0
    usd: str = ""
    session: str = ""


class ScheduleStore:
    """The schedules of a state directory. Methods raise OSError."""

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "schedules"

    def all(self) -> list[Schedule]:
        """Return all schedules by name. Raises UsageError for a damaged one."""
        try:
            files = sorted(self.folder.glob("*.json"))
        except FileNotFoundError:
            return []
        return [self.get(file.stem) for file in files]

    def get(self, name: str) -> Schedule:
        """Return a schedule. Raises UsageError."""
        file = self._file(name)
        try:
            found = as_object(json.loads(read_given(file)))
            words = tuple(map(str, as_array(found["words"])))
            texts = {key: as_str(found[key]) for key in ("name", "cron", "cwd", "since")}
            return Schedule(**texts, words=words, timer=as_str(found.get("timer")))
        except FileNotFoundError:
            known = ", ".join(each.stem for each in sorted(self.folder.glob("*.json")))
            raise UsageError(f"There is no schedule {name!r}; there are: {known or 'none'}.") from None
        except (KeyError, ValueError) as error:
            raise UsageError(f"{file} is damaged: {error}. sagent schedule remove {name} removes it.") from error

    def add(self, schedule: Schedule) -> None:
        """Save a new one. Raises UsageError if there is one of that name."""
        if not NAME.fullmatch(schedule.name):
            raise UsageError(f"{schedule.name!r}: a name has small letters, digits and hyphens, 41 at most.")
        make_directory(self.folder / "results")
        with self._held(self.folder / "lock"):
            if (file := self._file(schedule.name)).exists():
                raise UsageError(f"There is a schedule {schedule.name} already: sagent schedule remove {schedule.name}")
            put(file, json.dumps(asdict(schedule)).encode())

    def remove(self, name: str) -> None:
        """Remove one, damaged or not, with its history. Raises UsageError if there is none."""
        if not self._file(name).exists():
            self.get(name)
        for file in (self._file(name), self._runs(name), self.output(name), self.folder / f"{name}.lock"):
            file.unlink(missing_ok=True)

    def output(self, name: str) -> Path:
        """Return the file of the last run's result."""
        return self.folder / "results" / f"{name}.json"

    def runs(self, name: str) -> Sequence[ScheduledRun]:
        """Return the runs, oldest first. A cut last line is left out."""
        found: dict[str, ScheduledRun] = {}
        with suppress(FileNotFoundError):
            for line in read_given(self._runs(name)).splitlines():
                with suppress(ValueError, TypeError):
                    row = as_object(json.loads(line))
                    texts = {key: as_str(row.get(key)) for key in ("due", "began", "ended", "usd", "session")}
                    run = ScheduledRun(**texts, missed=as_int(row.get("missed")), code=as_int(row.get("code")))
                    found[run.due] = run
        return list(found.values())

    def missed(self, schedule: Schedule, now: datetime) -> tuple[datetime | None, int]:
        """Return the latest moment until now that had no run, with its offset, or None, and how many there were before
        it. Times in the future count for nothing: the clock was wrong."""
        if (latest := latest_due(schedule.cron, now)) is None:
            return None, 0
        come, due = now.astimezone(), moment_of(schedule.cron, latest, now)
        known = [at for at in (_moment(run.due) for run in self.runs(schedule.name)) if at <= come]
        if (created := _moment(schedule.since)) <= come + MAX_CLOCK_CHANGE:
            known.append(created)
        if not known:
            return due, 0
        if due <= (since := max(known)):
            return None, 0
        times = due_times(schedule.cron, since.replace(tzinfo=None), latest, MAX_MISSED)
        return due, max(len(times) - 1, 0)

    @contextmanager
    def claimed(self, schedule: Schedule, now: datetime, *, at_once: bool = False) -> Generator[ScheduledRun | None]:
        """Yield the run that is due now, recorded as begun; None if none is due, or another process carries it out.
        With `at_once`, one is due in any case."""
        with self._held(self.folder / f"{schedule.name}.lock", wait=False) as holds:
            due, missed = self.missed(schedule, now) if holds else (None, 0)
            if holds and due is None and at_once:
                due = now.astimezone()
            if due is None:
                yield None
                return
            run = ScheduledRun(due.isoformat(timespec="seconds"), now.isoformat(timespec="seconds"), missed)
            self.record(schedule.name, run)
            yield run

    def record(self, name: str, run: ScheduledRun) -> None:
        """Append the state of a run to the history, synced to disk."""
        file = self._runs(name)
        if len(runs := self.runs(name)) > 2 * MAX_RUNS:
            put(file, b"".join(_line(each) for each in runs[-MAX_RUNS:]))
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"\n" + _line(run))  # a line that was cut before it stays by itself
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextmanager
    def _held(self, lock: Path, *, wait: bool = True) -> Generator[bool]:
        """Hold a lock file; yield False if another process does and this one is not to wait."""
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                flock.lock(fd, wait=wait)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(fd)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _runs(self, name: str) -> Path:
        return self.folder / f"{name}.runs.jsonl"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


def _line(run: ScheduledRun) -> bytes:
    return json.dumps(asdict(run)).encode() + b"\n"
