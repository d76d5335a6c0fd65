"""Protected paths that no mount can hold: what a command does to one is undone when it has ended.

We work outside of the wall, on what commands have made and may still be changing: no link on the way is followed.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Generator, Iterable
from itertools import chain, islice
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
    command has made is moved to `aside`, a directory that no command may write to, and nothing of it is lost.
    """

    def __init__(self, protected: Iterable[str], aside: Path, *, mounted: bool) -> None:
        self._aside = aside
        self._before: dict[str, tuple[_State | None, Path | None]] = {}
        for path in protected:
            if link := _link_above(path):
                self._before[link] = _look(link), None
            if not os.path.lexists(Path(path).parent) or (mounted and _is_held(path)):
                continue
            real = str(Path(os.path.realpath(Path(path).parent), Path(path).name))
            state = _look(real)
            if not _is_small(state):
                continue
            self._before[real] = state, self._copied(real) if state and not state.link else None

    def put_back(self) -> list[str]:
        """The paths that had changed; by now they are as they were."""
        return [path for path, (state, copy) in self._before.items() if self._restored(path, state, copy)]

    def _restored(self, path: str, state: _State | None, copy: Path | None) -> bool:
        """Whether a path had changed. Of a directory that is gone nothing is put back."""
        astray = _link_above(path)
        if astray:
            with contextlib.suppress(OSError), _anchored(astray) as place:
                self._take_away(place)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), _anchored(path) as place:
            if _look(str(place)) == state:
                return bool(astray)
            self._take_away(place)
            if state and state.link:
                place.symlink_to(state.link)
            elif copy is not None:
                _copy(copy, place)
            return True
        return bool(astray)

    def _take_away(self, place: Path) -> None:
        """Aside, or where that is another disk by another name: nothing is copied, for it may be large, or a pipe."""
        if os.path.lexists(place):
            name = f"{place.name}.undone-{os.urandom(4).hex()}"
            self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                place.rename(self._aside / name)
            except OSError:
                place.rename(place.with_name(name))

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


def _link_above(path: str) -> str:
    """The first directory on the way to a path that is a link; "" where none is."""
    return next((str(above) for above in reversed(Path(path).parents) if above.is_symlink()), "")


@contextlib.contextmanager
def _anchored(path: str) -> Generator[Path]:
    """A path that leads to the same place whatever becomes of the directories above, where the system has such. Raises
    OSError where one is gone or a link."""
    *above, name = Path(path).parts
    way = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    directory = os.open(above[0], way)
    try:
        for each in above[1:]:
            outer = directory
            directory = os.open(each, way, dir_fd=outer)
            os.close(outer)
        own = Path(f"/proc/self/fd/{directory}")
        yield (own if own.is_dir() else Path(path).parent) / name
    finally:
        os.close(directory)


def can_guard(path: str) -> bool:
    """Whether what lies at a path is small enough to be put back."""
    return _is_small(_look(path))


def _is_small(state: _State | None) -> bool:
    entries = state.entries if state else ()
    plain = all(stat.S_IFMT(mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) for *_, mode in entries)
    return plain and len(entries) < _MOST and sum(size for _, _, size, _, _ in entries) < _LARGEST


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


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
    below = (Path(base, name) for base, inner, files in os.walk(place) for name in (*inner, *files))
    return _State(entries=tuple(_entry(each, path) for each in islice(chain([place], below), _MOST)))


def _entry(place: Path, start: str) -> tuple[str, int, int, int, int]:
    name = str(place).removeprefix(start)
    try:
        found = place.lstat()
    except OSError:
        return name, 0, 0, 0, 0
    return name, found.st_ino, found.st_size, found.st_ctime_ns, found.st_mode
