"""The notes of a benchmark, from which it can be continued: one line for each ended trial."""

import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from sagent.errors import SessionBusy, UsageError
from sagent.lib.json import JsonObject, as_object, json_dump, json_load, wire_bytes
from sagent.lib.regular import read_given
from sagent.plugins.lab.trials import ARMS, Arm, Task, Trial, decode_trial, encode_trial
from sagent.session.blobs import sync_path
from sagent.session.lock import Lock
from sagent.session.log import make_directory

PREFIX = "sagent-bench-"


class Notes:
    """Trials kept in memory. `lost` are runs that were begun and have no result, for example because their process was
    killed: each as its possible arms."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.lost: Sequence[Sequence[Arm]] = ()
        self.workplace = self._make_workplace()

    def _make_workplace(self) -> Path:
        """Make a private directory for the runs to work in."""
        return Path(mkdtemp(prefix=PREFIX))

    def session(self, task: str, arm: str, number: int) -> Path | None:
        """Return the directory for the session of a new run; None if none is saved."""
        del task, arm, number
        return None

    def keep(self, trial: Trial) -> None:
        """Add a trial. Raises OSError."""
        self.trials.append(trial)

    def close(self) -> None:
        """Remove the workplace."""
        shutil.rmtree(self.workplace, ignore_errors=True)


class Notebook(Notes):
    """Notes in a directory: `setup.json`, `runs.jsonl`, the runs' sessions, locked for one process. Its workplace is
    elsewhere, because a project above this directory would affect the runs.

    An incomplete last line of a killed process is cut off. `flag` named the directory. Raises UsageError for a
    directory with other contents, of another setup, or in use; and OSError.
    """

    def __init__(
        self,
        directory: Path,
        setup: Mapping[str, object],
        tasks: Sequence[Task],
        arms: Collection[Arm] = ARMS,
        *,
        flag: str = "--out",
    ) -> None:
        self._directory, self._flag = directory.absolute(), flag
        self._file, self._setup = self._directory / "runs.jsonl", self._directory / "setup.json"
        self._left = self._directory / "workplace"
        # left by a process that was killed before there was a setup
        strangers = (path for path in self._directory.glob("*") if path.name not in ("lock", "setup.partial"))
        if not self._setup.exists() and any(strangers):
            raise UsageError(f"{flag} {directory}: it has other files in it: choose a new directory.")
        make_directory(self._directory)
        try:
            self._lock = Lock(self._directory)
        except SessionBusy as error:
            who = str(error).partition(". ")[0]
            rest = f"another benchmark is running there: {who}. Wait for it, or name another directory."
            raise UsageError(f"{flag} {directory}: {rest}") from error
        try:
            self._check(setup)
            self.trials = self._read(tasks, arms)
            self._fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except BaseException:
            self._lock.close()
            raise
        self.workplace = self._make_workplace()
        self._begun = _sessions(self._directory)
        self.lost = lost_runs(self._directory, self.trials, arms)

    def session(self, task: str, arm: str, number: int) -> Path | None:
        """Return an unused directory, named after the run."""
        slug, way = _slug(task)[:40] or "task", _slug(arm)[:80]
        name, tries = f"{slug}-{number}-{way}", 1
        while name in self._begun:
            tries += 1
            name = f"{slug}-{number}-{way}.{tries}"
        self._begun.add(name)
        return self._directory / "sessions" / name

    def keep(self, trial: Trial) -> None:
        """Write one line, synced to disk."""
        size = os.fstat(self._fd).st_size
        try:
            rest = memoryview(encode_trial(trial))
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, size)
            raise
        super().keep(trial)

    def close(self) -> None:
        """Close the file, remove the workplace and free the directory."""
        os.close(self._fd)
        super().close()
        self._lock.close()

    def _make_workplace(self) -> Path:
        """Make the workplace, if possible at the same path in each process, and remove a killed one's files. Models are
        told their directory, so the same task is asked again in the same words."""
        if self._left.exists():
            left = Path(read_given(self._left).decode(errors="replace"))
            if left.parent == Path(gettempdir()) and left.name.startswith(PREFIX):
                if left.is_dir() and not left.is_symlink() and left.stat().st_uid == os.getuid():
                    shutil.rmtree(left, ignore_errors=True)
                with suppress(OSError):  # another process has taken the name
                    left.mkdir(mode=0o700)
                    return left
        place = super()._make_workplace()
        self._left.write_text(str(place), "utf-8")
        return place

    def _check(self, setup: Mapping[str, object]) -> None:
        given = as_object(json_load(json_dump(setup)))
        if not self._setup.exists():
            partial = self._setup.with_suffix(".partial")
            partial.write_bytes(wire_bytes(setup) + b"\n")
            partial.replace(self._setup)
            sync_path(self._directory)
            return
        try:
            known = as_object(json_load(read_given(self._setup)))
        except ValueError as error:
            other = f"Name another directory with {self._flag}."
            raise UsageError(f"{self._setup} cannot be read: {error}. {other}") from error
        if differing := _differing(known, given):
            name, *values = differing
            before, now = (f"without {name}" if each is None else f"with {name} = {json_dump(each)}" for each in values)
            raise UsageError(
                f"{self._flag} {self._directory}: its runs were made {before}, not {now}: compared runs must have "
                "the same settings. Choose another directory."
            )

    def _read(self, tasks: Sequence[Task], arms: Collection[Arm]) -> list[Trial]:
        digests = {task.name: task.digest for task in tasks}
        found: list[Trial] = []
        data = read_given(self._file) if self._file.exists() else b""
        lines = data.splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("it has no end")
                trial = decode_trial(line, arms)
            except ValueError as error:
                if number == len(lines):
                    os.truncate(self._file, len(data) - len(line))
                    break
                raise UsageError(f"{self._file}, line {number}: not what was written: {error}. Remove it.") from error
            if digests.get(trial.task, trial.digest) != trial.digest:
                raise UsageError(
                    f"{self._flag} {self._directory}: task {trial.task!r} has changed since its runs were "
                    "made: rename it, or name another directory."
                )
            found.append(trial)
        return found


def lost_runs(directory: Path, trials: Sequence[Trial], arms: Collection[Arm]) -> Sequence[Sequence[Arm]]:
    """Return the runs that were begun and left no line: for each its possible arms, just one if the directory's name
    tells it."""
    slugs = {arm: _slug(arm)[:80] for arm in arms}
    found: list[Sequence[Arm]] = []
    for name in sorted(_sessions(directory) - {Path(trial.session).name for trial in trials}):
        way = re.sub(r"\.\d+$", "", name)  # number of the try
        found.append([arm for arm, slug in slugs.items() if re.search(rf"-\d+-{re.escape(slug)}$", way)] or list(arms))
    return found


def _sessions(directory: Path) -> set[str]:
    return {path.name for path in (directory / "sessions").glob("*") if path.is_dir()}


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")


def _differing(known: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, object, object] | None:
    """Return the first member that differs: its path, its old and its new value; None if all are equal."""
    for name in {**known, **now}:
        one, other = known.get(name), now.get(name)
        if one != other:
            inner = _differing(one, other) if isinstance(one, JsonObject) and isinstance(other, JsonObject) else None
            return (name, one, other) if inner is None else (f"{name}.{inner[0]}", *inner[1:])
    return None
