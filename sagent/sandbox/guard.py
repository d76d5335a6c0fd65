"""Protected paths that no mount can hold: what a command does to one is undone when it has ended."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from sagent.lib.dataclass import dataclass

_MOST = 1000  # entries of one protected directory
_LARGEST = 1 << 22  # bytes of one


@dataclass(frozen=True, slots=True)
class _State:
    """What lay at a path: where a link leads, or what tells that a file or something in a directory has changed."""

    link: str = ""
    entries: tuple[tuple[str, int, int, int, int], ...] = ()  # name, inode, size, time of change, mode


class Guard:
    """Looks at protected paths before a command, and when it has ended puts those back that are not as they were.

    With `mounted` those that lie there are held by mounts, and only what is missing or a link is looked at. What a
    command has made is moved to `aside`, a directory, and nothing of it is lost.
    """

    def __init__(self, protected: Iterable[str], aside: Path, *, mounted: bool) -> None:
        self._aside = aside
        self._before: dict[str, tuple[_State | None, Path | None]] = {}
        for path in protected:
            if not os.path.lexists(Path(path).parent) or (mounted and _is_held(path)):
                continue
            state = _look(path)
            if not _is_small(state):
                continue
            self._before[path] = state, self._copied(path) if state and not state.link else None

    def put_back(self) -> list[str]:
        """The paths that had changed; by now they are as they were."""
        changed = [path for path, (state, _) in self._before.items() if _look(path) != state]
        for path in changed:
            state, copy = self._before[path]
            if os.path.lexists(path):
                self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.move(path, self._aside / f"{os.urandom(4).hex()}-{Path(path).name}")
            if state and state.link:
                Path(path).symlink_to(state.link)
            elif copy is not None:
                _copy(copy, Path(path))
        return changed

    def close(self) -> None:
        """Remove the copies."""
        for _, copy in self._before.values():
            if copy is not None:
                shutil.rmtree(copy.parent, ignore_errors=True)

    def _copied(self, path: str) -> Path:
        place = self._aside / os.urandom(8).hex()
        place.mkdir(mode=0o700, parents=True)
        _copy(Path(path), place / "copy")
        return place / "copy"


def can_guard(path: str) -> bool:
    """Whether what lies at a path is small enough to be put back."""
    return _is_small(_look(path))


def _is_small(state: _State | None) -> bool:
    entries = state.entries if state else ()
    return len(entries) < _MOST and sum(size for _, _, size, _, _ in entries) < _LARGEST


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def _is_held(path: str) -> bool:
    """Whether a mount can lie there."""
    place = Path(path)
    return os.path.lexists(place) and not place.is_symlink()


def _look(path: str) -> _State | None:
    """What lies at a path; None for nothing."""
    place = Path(path)
    if place.is_symlink():
        return _State(str(place.readlink()))
    if not os.path.lexists(place):
        return None
    found = [place, *(Path(base, name) for base, below, files in os.walk(place) for name in (*below, *files))]
    return _State(entries=tuple(map(_entry, found[:_MOST])))


def _entry(place: Path) -> tuple[str, int, int, int, int]:
    try:
        stat = place.lstat()
    except OSError:
        return str(place), 0, 0, 0, 0
    return str(place), stat.st_ino, stat.st_size, stat.st_ctime_ns, stat.st_mode
