"""A survey of the paths in a workspace that a sandbox must know of: made once, then updated before each command."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice

from sagent.lib.dataclass import dataclass

MAX_DIRECTORIES = 50_000  # in one workspace
_NEAR_DIRECTORIES = 300  # the first found; checked every time
_FAR_DIRECTORIES = 300  # others to check each time: one takes 2 µs
_MAX_LOOK_SECONDS = 0.2  # for new directories; the next look continues there
_UNSURE_NS = 1_000_000_000  # after a change of a directory, its time may not show another
BUILT = frozenset({"node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache", ".ruff_cache"})
_PASSED_OVER = BUILT | {".git"}


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory as last read: a signature that shows changes, and its subdirectories."""

    state: tuple[int, int]
    below: tuple[str, ...]


class Survey:
    """Paths below a directory for which `counts` is true. Links are not followed, and directories with built or
    installed files are skipped: `passed_over` has their names, or names with that of the directory above.

    The first look visits everything, the nearest directories first. Later looks visit changed directories: the nearest
    at once, those of a large tree after several looks.
    """

    def __init__(
        self,
        root: str,
        counts: Callable[[str], bool],
        passed_over: frozenset[str] = _PASSED_OVER,
        limit: int | None = None,
        unlock: Callable[[str], None] = lambda path: None,
        follows: Callable[[os.DirEntry[str]], bool] = lambda entry: False,
    ) -> None:
        self._counts, self._passed_over, self._limit = counts, passed_over, limit or MAX_DIRECTORIES
        self._follows = follows  # true for an entry that counts under any name
        self._unlock = unlock  # is given a directory that cannot be read
        self._known: dict[str, _Directory] = {}
        self._found: dict[str, list[str]] = {}  # paths that count, by directory
        self._new = deque([root])
        self.arrived: set[str] = set()  # directories that may be new
        self._at = 0
        self._ring = deque[str]()  # all known directories, the next to check first
        self._left = 0  # how many of them are yet to be looked at

    @property
    def is_cut(self) -> bool:
        """True if the workspace has more directories than are visited."""
        return len(self._known) >= self._limit and bool(self._new)

    @property
    def is_done(self) -> bool:
        """True if all directories were looked at since `renew`."""
        return not self._left and not self._goes_deeper

    @property
    def _goes_deeper(self) -> bool:
        return bool(self._new) and len(self._known) < self._limit

    def renew(self) -> None:
        """Make `go_on` check all directories again."""
        if len(self._ring) > 2 * len(self._known):  # drop those that are gone
            self._ring = deque(self._known)
        self._left = len(self._ring)

    def go_on(self, until: float) -> list[str]:
        """Check directories until a time of `monotonic`; return paths that count in new or changed ones."""
        found: list[str] = []
        while time.monotonic() < until:
            if self._goes_deeper:
                path = self._new.popleft()
            elif self._left:
                path, self._left = self._ring.popleft(), self._left - 1
                if path not in self._known:
                    continue
                self._ring.append(path)
                if self._known[path].state == _state(path):
                    continue
            else:
                break
            self._visit(path)
            found += self._found.get(path, ())
        return found

    def look(self, seconds: float = _MAX_LOOK_SECONDS) -> Iterator[str]:
        """Yield the paths that are there now, as far as known."""
        size = len(self._known)
        far = islice(self._known, max(self._at, _NEAR_DIRECTORIES), max(self._at, _NEAR_DIRECTORIES) + _FAR_DIRECTORIES)
        self._at = self._at + _FAR_DIRECTORIES if self._at + _FAR_DIRECTORIES < size else _NEAR_DIRECTORIES
        for path in [*islice(self._known, _NEAR_DIRECTORIES), *far]:
            if path in self._known and self._known[path].state != _state(path):
                self._visit(path)
        end = time.monotonic() + seconds
        while self._goes_deeper and (len(self._known) < _NEAR_DIRECTORIES or time.monotonic() < end):
            self._visit(self._new.popleft())
        return chain.from_iterable([*self._found.values()])

    def _visit(self, path: str) -> None:
        """Read a directory, and queue its new subdirectories."""
        before, state = self._known.get(path), _state(path)
        found, below, name = list[str](), list[str](), path.rpartition("/")[2]
        try:
            if not os.access(path, os.R_OK):
                self._unlock(path)
            with os.scandir(path) as entries:
                for entry in entries:
                    if self._counts(entry.path) or self._follows(entry):
                        found.append(entry.path)
                    is_passed = entry.name in self._passed_over or f"{name}/{entry.name}" in self._passed_over
                    if not is_passed and entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
        except OSError:
            state = (0, 0)  # matches no directory, so it is read again
        recent = time.time_ns() - state[1] < _UNSURE_NS
        self._known[path] = _Directory((0, 0) if recent else state, tuple(below))
        self._found.pop(path, None)
        if found:
            self._found[path] = found
        were = frozenset(before.below if before else ())
        new = [each for each in below if each not in were]
        if before is None:
            self._ring.append(path)
            self._new += new
        else:
            self._new.extendleft(new)  # new directories are read first
        if before is not None or len(self._known) <= MAX_DIRECTORIES:  # beyond that, new directories are skipped
            self.arrived.update(new)
        for gone in were.difference(below):
            self._forget(gone)

    def _forget(self, path: str) -> None:
        waiting = [path]
        while waiting:
            path = waiting.pop()
            self._found.pop(path, None)
            self.arrived.discard(path)
            if directory := self._known.pop(path, None):
                waiting += directory.below


def _state(path: str) -> tuple[int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return 0, 1
    return found.st_ino, max(found.st_mtime_ns, found.st_ctime_ns)  # a command can set the first, not the second
