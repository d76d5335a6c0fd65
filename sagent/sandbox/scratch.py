"""Directories for temporary files: a session's own, and others that end with their process.

Each is locked while its owner lives; a session's also while a detached box does. Later sessions remove the directories
of killed processes.
"""

import contextlib
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from sagent.lib import flock
from sagent.lib.process import system_path

PREFIX = "sagent-tmp-"
_NEW = ".sagent-new-"
ASIDE = "put-back"  # for paths that the guard moved away
COPY = "copy"  # of a protected path, in its own directory there
_BEFORE = "before"  # earlier states for running commands, by path
_STAYS = "stays"  # marks a directory used by a process without a lock
_REMOVAL_TIMEOUT_SECONDS = 10.0  # for one's own directory
_SWEEP_TIMEOUT_SECONDS = 1.0  # for directories of others
_MAX_SWEPT = 500  # of those at a time
_NEW_SECONDS = 60.0  # a new directory may not be locked yet
_UNSURE_NS = 1_000_000_000  # after a change of a directory, its time may not show another
_KEPT_SECONDS = 30 * 24 * 3600.0  # for the person to find files that the guard moved away
# Commands make trees deeper than our recursion limit, and directories without permissions.
_REMOVE = 'rm -rf -- "$@" || { chmod -R u+rwX -- "$@"; rm -rf -- "$@"; }'


class PathState(NamedTuple):
    """The state of a path before commands: a link's target, or a copy. Neither means that nothing was there."""

    link: str = ""
    copy: Path | None = None


class Scratch:
    """`lock` is a descriptor that processes which outlive the session inherit; None if directories cannot be locked. It
    is a temporary directory, or lies in `directory`."""

    def __init__(self, directory: Path | None = None) -> None:
        """Raises OSError."""
        made = Path(os.path.realpath(tempfile.mkdtemp(prefix=_NEW, dir=directory)))
        self.lock = _locked(made)  # lock it before others see it: looking for locks takes one for a moment
        self.path = made.rename(made.with_name(made.name.replace(_NEW, PREFIX, 1)))

    @property
    def marks(self) -> tuple[int, int]:
        """The marks of processes that no namespace separates: of commands, and of lasting processes."""
        return _marks(self.path)

    def stay(self) -> None:
        """Keep the directory while a process without a lock uses it."""
        (self.path / _STAYS).touch()

    def remove(self) -> None:
        _remove([self.path], _REMOVAL_TIMEOUT_SECONDS)
        self.close()

    def close(self) -> None:
        """Remove the directory, or leave it to processes that inherited the lock, and then to a later session."""
        if self.lock is not None:
            os.close(self.lock)


@contextlib.contextmanager
def temporary() -> Generator[Path]:
    """Yield a directory for the block, within a Scratch so that its files are not taken for ours. Raises OSError."""
    scratch = Scratch()
    try:
        (place := scratch.path / "tmp").mkdir(mode=0o700)
        yield place
    finally:
        scratch.remove()


def sweep(
    changed: Callable[[Mapping[str, PathState]], Iterable[str]] = lambda states: (), directory: Path | None = None
) -> list[str]:
    """Remove directories left by this user's processes, within a short time. Return what `changed` reports of earlier
    states, if commands were running when their session was killed."""
    left: dict[Path, int] = {}
    try:
        for path in islice(_candidates(directory or tempfile.gettempdir()), _MAX_SWEPT):
            if (lock := _locked(path)) is not None:
                left[path] = lock
        old = time.time() - _NEW_SECONDS
        ready = (path for path, lock in left.items() if (path / _BEFORE).exists() or os.fstat(lock).st_mtime < old)
        going = [path for path in ready if not _stays(path)]
        found = [each for path in going for each in changed(_states_in(path))]
        if going:
            from sagent.sandbox.tasks import end

            with contextlib.suppress(OSError):  # without /proc no process has a mark
                end(*(mark for path in going for mark in _marks(path)))
        _remove(going, _SWEEP_TIMEOUT_SECONDS)
        return found
    finally:
        for lock in left.values():
            os.close(lock)


def _candidates(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield this user's directories that may have been abandoned; old files are removed at once."""
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.startswith((PREFIX, _NEW)):
                continue
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if found.st_uid != os.geteuid():
                    continue
                if stat.S_ISREG(found.st_mode) and found.st_mtime < now - _KEPT_SECONDS:
                    Path(entry.path).unlink()
                elif stat.S_ISDIR(found.st_mode) and found.st_mtime < now - _NEW_SECONDS * entry.name.startswith(_NEW):
                    yield Path(entry.path)  # a new one may be about to be locked


def _stays(path: Path) -> bool:
    if not (path / _STAYS).exists():
        return False
    from sagent.sandbox.tasks import marked

    with contextlib.suppress(OSError):
        return bool(marked(*_marks(path)))
    return True


def _marks(path: Path) -> tuple[int, int]:
    """Numbers that follow from a directory's name."""
    number = 2 * int.from_bytes(path.name[-7:].encode())
    return number, number + 1


def share_states(directory: Path, states: Mapping[str, PathState]) -> None:
    """Tell other sessions the states before this session's commands, so that they do not keep these commands' changes.
    Copies are in ASIDE, each in its own directory."""
    with contextlib.suppress(OSError):
        if not states:  # taking the place of a file makes some disks write
            (directory / _BEFORE).unlink(missing_ok=True)
            return
        new = directory / f"{_BEFORE}.new"
        words = ((path, at.link, at.copy.parent.name if at.copy else "") for path, at in states.items())
        new.write_bytes(os.fsencode("\0".join(chain.from_iterable(words))))
        new.replace(directory / _BEFORE)


def before_for_others(scratch: Path, over: set[str]) -> dict[str, PathState]:
    """Return the states before the running commands of this user's other sessions. Ended sessions are added to `over`
    and not checked again."""
    found: dict[str, PathState] = {}
    with contextlib.suppress(OSError):
        state = os.stat(scratch.parent).st_mtime_ns  # noqa: PTH116 -- this is before every command
        sure = time.time_ns() - state > _UNSURE_NS
        for path in (_sessions if sure else _sessions.__wrapped__)(str(scratch.parent), state):
            with contextlib.suppress(OSError):
                if path != str(scratch) and path not in over:
                    if not _lives(Path(path)):
                        over.add(path)
                    elif states := _states_in(path):
                        found.update(states)
    return found


@lru_cache(maxsize=1)  # cached until the directory changes: it may hold thousands of files
def _sessions(directory: str, state: int) -> tuple[str, ...]:
    del state
    return tuple(entry.path for entry in os.scandir(directory) if entry.name.startswith(PREFIX))


def _states_in(directory: str | os.PathLike[str]) -> dict[str, PathState]:
    with contextlib.suppress(OSError), open(f"{os.fspath(directory)}/{_BEFORE}", "rb") as file:  # noqa: PTH123 -- of many
        if data := file.read():
            words = os.fsdecode(data).split("\0")
            copies = (Path(directory) / ASIDE / name / COPY if name else None for name in words[2::3])
            return dict(zip(words[::3], map(PathState, words[1::3], copies), strict=False))
    return {}


def _lives(path: Path) -> bool:
    """Return True if a session of this user has it, by the lock. Raises OSError."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flock.lock(lock, shared=True)
    except BlockingIOError:
        return os.fstat(lock).st_uid == os.geteuid()
    finally:
        os.close(lock)
    return False


def _locked(path: Path) -> int | None:
    """Return a lock on a directory of this user; None if another process has it."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        flock.lock(lock)
        if os.fstat(lock).st_uid == os.geteuid():
            return lock
    os.close(lock)
    return None


def _remove(directories: Collection[Path], seconds: float) -> None:
    """Remove all in these directories, except files that the guard moved away recently: their time says until when they
    stay, and each costs later sessions one check."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        places = [str(place) for directory in directories for place in _going(directory)]
        argv, null, env = ["sh", "-c", _REMOVE, "sh", *places], subprocess.DEVNULL, {"PATH": system_path()}
        if places:
            subprocess.run(argv, env=env, stdin=null, stdout=null, stderr=null, timeout=seconds, check=False)
        for directory in directories:
            with contextlib.suppress(OSError):
                if os.listdir(directory) == [ASIDE]:  # noqa: PTH208 -- names
                    until = (directory / ASIDE).stat().st_mtime + _KEPT_SECONDS
                    os.utime(directory, (until, until))


def _going(directory: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        aside = directory / ASIDE
        inside = list(aside.iterdir())
        undone = [path for path in inside if ".undone-" in path.name]
        if undone and aside.stat().st_mtime > time.time() - _KEPT_SECONDS:
            return [path for path in (*directory.iterdir(), *inside) if path != aside and path not in undone]
    return [directory]
