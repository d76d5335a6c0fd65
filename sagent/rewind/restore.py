"""Restores files to an earlier entry, with a preview. Changes by others are left alone."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

from sagent.errors import SessionCorrupt, UsageError
from sagent.lib.atomic import replace_link, replacing
from sagent.lib.dataclass import dataclass
from sagent.lib.regular import real_directory
from sagent.lib.text import same_ends
from sagent.rewind.plan import ELSE, REWIND, Plan, plan, settle, since
from sagent.rewind.recorder import Checkpoints, Recorder, in_thread, read_snapshot
from sagent.rewind.snapshot import FileState, Stop, read_file_state
from sagent.session.log import Log, read_agent
from sagent.session.touches import Omission, Snapshot, Touch, Touched

Fetch = Callable[[str], bytes]
_MAX_COMPARED_STEPS = 50_000_000  # in comparing two texts line by line: pairs of equal lines, for each line
ASTRAY = "its directory is now reached through a link"
UNRECORDED = (
    "The files stay as they are: the log cannot be written, so it could not be undone. Free some space or fix the "
    "directory, then start again with --continue."
)


_LINKED = "it was a hard link: under its other names the content stays"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that a rewind changes: how, and how many lines are added and removed (0 and 0 if it is not text)."""

    path: str
    how: Literal["written", "created", "deleted"]
    added: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The outcome of a rewind of files: its changes, changed files that it leaves alone, and files that it does not
    cover, each with the reason. `commands` is True if a command ran since: then only the working tree is covered,
    without files that git ignores."""

    changed: tuple[FileChange, ...] = ()
    left: tuple[Omission, ...] = ()
    omitted: tuple[Omission, ...] = ()
    commands: bool = False


async def preview(log: Log, entry: str) -> FileChanges:
    """Return the changes that a rewind of files to an entry would make. Raises UsageError if there is no such entry."""
    work = await in_thread(lambda stop: _prepare(log, entry, stop))
    return FileChanges(work.changes, work.left, work.plan.omitted, work.plan.commands)


async def restore_files(recorder: Recorder, checkpoints: Checkpoints, entry: str, path: str = "") -> FileChanges:
    """Restore all files, or one, to their state at an entry, and return the outcome. Raises UsageError if there is no
    such entry, if that file has not changed since, or if the log cannot be written."""
    async with checkpoints.turn:
        work = await in_thread(lambda stop: _prepare(recorder.journal.log, entry, stop, path))
        if not (work.steps or work.plan.made or work.plan.gone):
            return FileChanges((), work.left, work.plan.omitted, work.plan.commands)
        call = f"{REWIND}-{os.urandom(6).hex()}"
        if not recorder.journal.record(Touched(call, REWIND, ended=False, files=work.steps)):
            raise UsageError(UNRECORDED)
        writer = _Writer(recorder.journal.log.blobs.get)
        try:
            await in_thread(lambda stop: writer.write(work, stop))
        finally:
            recorder.journal.record(writer.record(call))
        checkpoints.report(None, writer.states, writer.made, writer.gone)
    done = {touch.path for touch in writer.done}
    changed = tuple(change for change in work.changes if change.path in done)
    omitted = (*work.plan.omitted, *writer.linked)
    return FileChanges(changed, (*work.left, *writer.left), omitted, work.plan.commands)


@dataclass(frozen=True, slots=True)
class _Work:
    """The prepared work of a rewind."""

    plan: Plan
    steps: tuple[Touch, ...]
    left: tuple[Omission, ...]
    changes: tuple[FileChange, ...]


def _prepare(log: Log, entry: str, stop: Stop, path: str = "") -> _Work:
    """Return a plan, for all files or one, and the present state of the files."""
    found = plan(since(partial(read_agent, log), log.agent, entry))
    if path:
        found = _only(found, path)
    now: dict[str, Snapshot] = {}
    for item in found.items:
        stop.check()
        now[item.path] = read_snapshot(item.path)
    planned, kept = settle(found, now)
    left = list(kept)
    steps: list[Touch] = []
    changes: list[FileChange] = []
    for step in planned:
        stop.check()
        try:
            changes.append(_change(step, log.blobs.get))
            steps.append(step)
        except SessionCorrupt as error:
            left.append(Omission(step.path, str(error)))
    return _Work(found, tuple(steps), tuple(left), tuple(changes))


def _only(plan: Plan, path: str) -> Plan:
    """Reduce a plan to one file and the directories that were made for it."""
    items = tuple(item for item in plan.items if item.path == path)
    if not items:
        raise UsageError(f"{path} was not changed in this session.")
    made = tuple(each for each in plan.made if path.startswith(f"{each}/"))
    return Plan(items, made, omitted=tuple(each for each in plan.omitted if each.path == path))


def _change(step: Touch, fetch: Fetch) -> FileChange:
    """Return the change that a step makes. Raises SessionCorrupt if its content is missing."""
    now, target = _content(step.before, fetch), _content(step.after, fetch)
    how = "deleted" if target is None else "created" if now is None else "written"
    if b"\0" in (now or b"") or b"\0" in (target or b""):
        return FileChange(step.path, how)
    old, new = (now or b"").splitlines(), (target or b"").splitlines()
    added, removed = _count_lines(old, new)
    return FileChange(step.path, how, added, removed)


def _content(snapshot: Snapshot, fetch: Fetch) -> bytes | None:
    match snapshot.kind:
        case "file":
            return fetch(snapshot.blob)
        case "link":
            return os.fsencode(snapshot.target)
        case "absent" | "directory" | "unknown":
            return None


def _count_lines(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """Lines that come, and lines that go."""
    head, tail = same_ends(old, new)
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    before, after = Counter(old), Counter(new)
    pairs = sum(count * after[line] for line, count in before.items())
    if not 0 < pairs * min(len(old), len(new)) <= _MAX_COMPARED_STEPS:  # what only moved is not counted then
        return (after - before).total(), (before - after).total()
    import difflib

    added = removed = 0
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            removed, added = removed + j - i, added + m - k
    return added, removed


class _Writer:
    """Carries out the steps of a plan; `done`, `made` and `gone` always show its progress."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self.done: list[Touch] = []
        self.made: list[str] = []
        self.gone: list[str] = []
        self.left: list[Omission] = []
        self.linked: list[Omission] = []  # files that had other hard links
        self.states: dict[bytes, FileState | None] = {}

    def record(self, call: str) -> Touched:
        return Touched(call, REWIND, ended=True, files=tuple(self.done), made=tuple(self.made), gone=tuple(self.gone))

    def write(self, work: _Work, stop: Stop) -> None:
        """Do them: deletions, the deepest first, then directories, then contents."""
        steps = sorted(work.steps, key=lambda step: step.path.count("/"), reverse=True)
        vacated = [step for step in steps if step.after.kind in ("absent", "directory")]
        for step in vacated:
            if step.before.kind != "directory":
                self._try(step, self._delete, stop)
        for path in work.plan.made:
            stop.check()
            with suppress(OSError):  # it has new contents, or is gone already
                _remove(path)
                self.gone.append(path)
        for step in vacated:
            if step.before.kind == "directory":
                self._try(step, self._remove_directory, stop)
        for path in work.plan.gone:
            stop.check()
            with suppress(OSError):
                self._make(path)
        for step in reversed(steps):
            if step.after.kind in ("file", "link"):
                self._try(step, self._put, stop)

    def _try(self, step: Touch, act: Callable[[Touch], None], stop: Stop) -> None:
        """Take one step, if its file has not changed since a moment ago."""
        stop.check()
        name = os.fsencode(step.path)
        try:
            emptied = step.before.kind == "directory" and step.path in self.gone  # as it was to be
            if read_snapshot(step.path) != step.before and not emptied:
                self.left.append(Omission(step.path, ELSE))
                return
            act(step)
        except (OSError, SessionCorrupt) as error:
            astray = isinstance(error, OSError) and error.errno == errno.ELOOP
            why = ASTRAY if astray else getattr(error, "strerror", None) or str(error)
            self.left.append(Omission(step.path, why))
            return
        self.done.append(step)
        self.states[name] = read_file_state(name)

    def _delete(self, step: Touch) -> None:
        with real_directory(step.path) as (above, name):
            os.unlink(name, dir_fd=above)
            if step.after.kind == "directory":
                os.mkdir(name, dir_fd=above)

    def _remove_directory(self, step: Touch) -> None:
        if step.path not in self.gone:
            _remove(step.path)

    def _make(self, path: str) -> None:
        if not os.path.isdir(path):  # noqa: PTH112
            self._make(os.path.dirname(path))  # noqa: PTH120
            with real_directory(path) as (above, name):
                os.mkdir(name, dir_fd=above)
            self.made.append(path)

    def _put(self, step: Touch) -> None:
        """Put content or a link in its place, in one atomic step."""
        self._make(os.path.dirname(step.path))  # noqa: PTH120
        if step.before.kind == "directory":
            self._remove_directory(step)
        with real_directory(step.path) as (above, name):
            if step.after.kind == "link":
                replace_link(name, above, step.after.target)
            else:
                self._write(step, above, name)

    def _write(self, step: Touch, parent_fd: int, name: bytes) -> None:
        data = self._fetch(step.after.blob)
        with replacing(name, parent_fd) as file:
            file.write(data)
            if step.before.kind == "file":
                there = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
                if there.st_nlink > 1:
                    self.linked.append(Omission(step.path, _LINKED))
                if (there.st_uid, there.st_gid) != (os.geteuid(), os.getegid()):
                    with suppress(PermissionError):  # only root may give files away
                        os.fchown(file.fileno(), there.st_uid, there.st_gid)
            os.fchmod(file.fileno(), step.after.mode)


def _remove(directory: str) -> None:
    with real_directory(directory) as (above, name):
        os.rmdir(name, dir_fd=above)
