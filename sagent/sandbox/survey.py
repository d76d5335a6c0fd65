"""What in a workspace a sandbox must know of: found once, and kept up to date at little cost before each command."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice

from sagent.lib.dataclass import dataclass

MOST = 50_000  # directories of one workspace
_NEAR = 300  # directories that are looked at every time, the first that were found
_FAR = 300  # of the others, as many at a time: a look at one takes 2 µs
_EVERY = 10_000  # of those where all count
_LONGEST = 0.2  # seconds for directories that nobody has looked into yet; the next look goes on from there
_UNSURE = 1_000_000_000  # ns since a directory has changed, within which its time of change may not show another
_PASSED_OVER = frozenset(
    {".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache", ".ruff_cache"}
)


@dataclass(frozen=True, slots=True)
class _Directory:
    """One as it was when it was looked into: what shows that it has changed, and directories to go into."""

    state: tuple[int, int]
    below: tuple[str, ...]


class Survey:
    """Paths below a directory that `counts` is true for. Links are not followed, nor are directories gone into that
    hold what was built or installed.

    The first look goes into everything, the nearest first. Later ones go into what has changed: at once in the nearest
    directories, after several looks in those of a large tree.
    """

    def __init__(self, root: str, counts: Callable[[str], bool], passed_over: frozenset[str] = _PASSED_OVER) -> None:
        self._counts, self._passed_over = counts, passed_over
        self._known: dict[str, _Directory] = {}
        self._found: dict[str, list[str]] = {}  # what counts, by the directory that it is in
        self._new = deque([root])
        self._at = 0

    @property
    def is_cut(self) -> bool:
        """Whether there are more directories than are looked into."""
        return len(self._known) >= MOST and bool(self._new)

    def look(self, *, every: bool = False) -> Iterator[str]:
        """What is there now, as far as it is known; with `every`, of directories that are far too, up to a limit."""
        size = len(self._known)
        far = islice(self._known, max(self._at, _NEAR), max(self._at, _NEAR) + (_EVERY if every else _FAR))
        self._at = self._at + _FAR if self._at + _FAR < size else _NEAR
        for path in [*islice(self._known, _NEAR), *far]:
            if path in self._known and self._known[path].state != _state(path):
                self._visit(path)
        end = time.monotonic() + _LONGEST
        while self._new and len(self._known) < MOST and time.monotonic() < end:
            self._visit(self._new.popleft())
        return chain.from_iterable([*self._found.values()])

    def _visit(self, path: str) -> None:
        """Look into a directory, and have those looked into that are new there."""
        before, state = self._known.get(path), _state(path)
        found, below = list[str](), list[str]()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if self._counts(entry.path):
                        found.append(entry.path)
                    if entry.name not in self._passed_over and entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
        except OSError:
            state = (0, 0)  # which is no directory's, so it is looked at again
        recent = time.time_ns() - state[1] < _UNSURE
        self._known[path] = _Directory((0, 0) if recent else state, tuple(below))
        self._found.pop(path, None)
        if found:
            self._found[path] = found
        were = frozenset(before.below if before else ())
        self._new += (each for each in below if each not in were)
        for gone in were.difference(below):
            self._forget(gone)

    def _forget(self, path: str) -> None:
        waiting = [path]
        while waiting:
            path = waiting.pop()
            self._found.pop(path, None)
            if directory := self._known.pop(path, None):
                waiting += directory.below


def _state(path: str) -> tuple[int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return 0, 1
    return found.st_ino, max(found.st_mtime_ns, found.st_ctime_ns)  # a command can set the first, not the second
