"""Protects paths that no mount can protect: changes by a command are undone when it has ended.

This code runs outside the wall, on files that commands may still be changing, so it follows no links.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections import Counter
from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.regular import identity
from sagent.sandbox.anchored import anchored, copy_tree, set_aside
from sagent.sandbox.scratch import COPY, PathState, before_for_others, share_states

_MAX_ENTRIES = 1000  # in one protected directory
_MAX_BYTES = 1 << 22  # of one path


@dataclass(frozen=True, slots=True)
class PathLook:
    """The state of a path: the target of a link, or a signature of a file or directory that shows changes."""

    link: str = ""
    entries: tuple[tuple[str, int, int, int, int], ...] = ()  # name, inode, size, time of change, mode


@dataclass(slots=True, eq=False)
class Watch:
    """The watch for one command: protected paths, and paths granted to it. `granted` is dropped for a command outside
    the sandbox as soon as another begins inside."""

    paths: tuple[str, ...]
    granted: tuple[str, ...] = ()
    outside: bool = False


class Guard:
    """Checks protected paths before a command, at intervals while it or a process it left runs, and after the last has
    ended, and restores changed ones. It does not take changes by another session's commands for the original state.

    If several commands run at the same time, it is unknown which one changed a path: the state before the first is
    restored, and each command is told once, when it ends.

    Files that a command created are moved to `quarantine`, so nothing is lost. Originals are kept in `copies`, next to
    those of other sessions: no command may write there.
    """

    def __init__(self, quarantine: Path, copies: Path | None = None) -> None:
        self._quarantine, self._copies = quarantine, copies or quarantine
        self._over: set[str] = set()  # sessions that have ended
        self._shared: dict[str, PathState] = {}  # earlier states as other sessions know them
        self._watched: Counter[str] = Counter()  # protected paths, by how many commands they are looked at for
        self._granted: Counter[str] = Counter()
        self._before: dict[str, dict[str, tuple[PathLook | None, Path | None]]] = {}
        self._spare: dict[str, tuple[PathLook | None, Path]] = {}  # reusable copies, with their state
        self._held: dict[str, tuple[str, tuple[int, int] | None]] = {}  # path and identity of mounted originals
        self._loose: list[str] = []
        self._closed: set[str] = set()  # what could not be looked at before
        self._undone: list[str] = []

    def begin(self, protected: Iterable[str], held: Container[str] = frozenset(), granted: Iterable[str] = ()) -> Watch:
        """Begin a watch before a command. At paths in `held`, a mount holds the real file, so only links on the way are
        watched. Changes of the command at `granted` paths stay."""
        watch, links = Watch(tuple(protected), tuple(granted)), dict[str, bool]()
        self._granted.update(watch.granted)
        self._watched.update(watch.paths)
        others = before_for_others(self._copies.parent, self._over) if watch.paths else {}
        self._watch_replaced()
        for path in watch.paths:
            if not self._before.get(path):
                self._before[path] = self._noted(path, held, links, others)
        self._share()
        later = before_for_others(self._copies.parent, self._over) if watch.paths else {}
        for path in later.keys() - others.keys():  # of a session that has just begun
            for noted in self._before.values():
                if path in noted and (adopted := self._adopted(path, later[path], links)) is not None:
                    _drop(noted[path][1])
                    noted[path] = adopted
        return watch

    @property
    def kept(self) -> frozenset[str]:
        """Paths that are unchanged, held by a mount or restored, but for those that did not exist before a command."""
        noted = (real for each in self._before.values() for real in each)
        return frozenset((*noted, *(real for real, _ in self._held.values())))

    def put_back(self) -> list[str]:
        """Restore the paths that have changed, and return them."""
        self._watch_replaced()
        links = dict[str, bool]()
        watched = (noted for path, noted in self._before.items() if path not in self._granted)
        found = {real: before for noted in watched for real, before in noted.items()}
        changed = [real for real, (state, copy) in found.items() if self._restored(real, state, copy, links)]
        self._undone += changed
        return changed

    def _watch_replaced(self) -> None:
        """Watch new files at the paths of held ones: a mount holds only the original file."""
        for path, (real, held) in [*self._held.items()]:
            if path not in self._granted and identity(real) != held:
                self._settle_one(path)
                self._loose.append(real)

    def take_replaced(self) -> list[str]:
        """Return the files that replaced held ones since the last call: commands could write them until now."""
        loose, self._loose = self._loose, []
        return loose

    @contextlib.contextmanager
    def changing(self, path: str) -> Generator[None]:
        """Accept the caller's changes at a protected path within the block."""
        self.put_back()  # but not earlier changes by a command
        mine = [each for each, noted in self._before.items() if any(_overlap(path, place) for place in (each, *noted))]
        self._granted.update(mine)
        try:
            yield
        finally:
            self._settle(mine)

    def end(self, watch: Watch, *, outlived: bool = False) -> list[str]:
        """End the watch for a command, and return the paths restored since the last report. If it was `outlived` by a
        process it started, the paths are watched until `leave` is called."""
        self.put_back()
        self._settle(watch.granted)
        if not outlived:
            self.leave(watch)
        undone, self._undone = list(dict.fromkeys(self._undone)), []
        return undone

    def withdraw(self, watch: Watch) -> None:
        """Keep a command's granted paths as they are now, and watch them from now on."""
        self._settle(watch.granted)
        watch.granted = ()

    def leave(self, watch: Watch) -> None:
        """Stop watching paths for one command."""
        self._watched -= Counter(watch.paths)
        for path in watch.paths:
            if path not in self._watched:
                for real, (state, copy) in self._forget(path).items():
                    if copy is not None:
                        _drop(self._spare.pop(real, (None, None))[1])
                        self._spare[real] = state, copy
        self._share()

    def close(self) -> None:
        """Restore changed paths and stop watching. Raises OSError."""
        self.put_back()
        self._before.clear()
        self._held.clear()
        self._share()
        for _, copy in self._spare.values():
            _drop(copy)
        self._spare.clear()

    def _share(self) -> None:
        states = (item for noted in self._before.values() for item in noted.items())
        known = {real: PathState(state.link if state else "", copy) for real, (state, copy) in states}
        if known != self._shared:
            self._shared = known
            share_states(self._copies.parent, known)

    def _settle(self, granted: Iterable[str]) -> None:
        """Keep the paths that were granted to one command only as they are now."""
        self._granted -= Counter(granted)
        for path in {*granted} - {*self._granted}:
            if path in self._before:
                self._settle_one(path)
        self._share()

    def _settle_one(self, path: str) -> None:
        for _, copy in self._forget(path).values():
            _drop(copy)
        self._before[path] = self._noted(path, (), {}, {})

    def _noted(
        self, path: str, held: Container[str], links: dict[str, bool], others: Mapping[str, PathState]
    ) -> dict[str, tuple[PathLook | None, Path | None]]:
        """Return the state of a path and of the first link on the way to it; or that before commands of `others`."""
        if path in others and (adopted := self._adopted(path, others[path], links)) is not None:
            return {path: adopted}  # whatever links are on the way by now
        noted: dict[str, tuple[PathLook | None, Path | None]] = {}
        if link := _link_above(path, links):
            adopted = self._adopted(link, others[link], links) if link in others else None
            noted[link] = adopted or (look_at(link), None)
        above, _, name = path.rpartition("/")
        real = os.path.join(os.path.realpath(above), name) if link else path  # noqa: PTH118 -- hundreds, before each
        if real != path and real in others and (adopted := self._adopted(real, others[real], links)) is not None:
            return {**noted, real: adopted}
        if real in held:
            self._held[path] = real, identity(real)
            return noted
        if not os.path.lexists(above):
            return noted
        state = look_at(real)
        (self._closed.add if _is_closed(real) else self._closed.discard)(real)
        if _is_small(state):
            try:
                noted[real] = state, self._copy_of(real, state) if state and not state.link else None
            except OSError:  # replaced by a command since our check
                noted[real] = None, None
        return noted

    def _copy_of(self, path: str, state: PathLook) -> Path:
        """Return a copy of a path; the copy from an earlier command if nothing has changed since."""
        known, copy = self._spare.pop(path, (None, None))
        if copy is not None and known == state:
            return copy
        _drop(copy)
        return _copied(path, self._copies / os.urandom(8).hex())

    def _adopted(
        self, path: str, before: PathState, links: dict[str, bool]
    ) -> tuple[PathLook | None, Path | None] | None:
        """Return the state that another session recorded; None if it is the current one or that session has ended."""
        if before.copy is None:
            return PathLook(before.link) if before.link else None, None
        with contextlib.suppress(OSError):
            if not _link_above(path, links) and contents(path) == contents(str(before.copy)):
                return None
        own = self._copies / os.urandom(8).hex()
        with contextlib.suppress(OSError):  # includes shutil.Error
            copy = _copied(str(before.copy), own)
            if before_for_others(self._copies.parent, self._over).get(path) == before:
                return look_at(str(copy)), copy
        shutil.rmtree(own, ignore_errors=True)
        return None

    def _restored(self, path: str, state: PathLook | None, copy: Path | None, links: dict[str, bool]) -> bool:
        """Return True if a path had changed. A deleted directory is not restored."""
        if path not in self._closed and _is_closed(path):
            with contextlib.suppress(OSError), anchored(path, opening=True):
                links.clear()
        astray = _link_above(path, links)
        if not astray and _is_same(path, state, copy):
            return False
        if astray:
            with contextlib.suppress(OSError), anchored(astray) as place:
                set_aside(place, self._quarantine)
            links.clear()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), anchored(path) as place:
            if _is_same(str(place), state, copy):
                return bool(astray)
            set_aside(place, self._quarantine)
            try:
                if state and state.link:
                    place.symlink_to(state.link)
                elif copy is not None:
                    copy_tree(copy, place)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ELOOP):
                    raise  # else a command was quicker: the next look finds that
            return True
        return bool(astray)

    def _forget(self, path: str) -> dict[str, tuple[PathLook | None, Path | None]]:
        """Forget a path and return its last state; its copies are no longer needed."""
        self._held.pop(path, None)
        return self._before.pop(path, {})


def changed(states: Mapping[str, PathState]) -> Iterator[str]:
    """Yield the paths whose state differs from the recorded one."""
    for path, before in states.items():
        with contextlib.suppress(OSError):
            state = PathLook(before.link) if before.link else look_at(str(before.copy)) if before.copy else None
            if not _is_same(path, state, before.copy):
                yield path


def _copied(path: str, place: Path) -> Path:
    place.mkdir(mode=0o700, parents=True)
    with anchored(path) as source:
        copy_tree(source, place / COPY)
    return place / COPY


def _drop(copy: Path | None) -> None:
    if copy is not None:
        shutil.rmtree(copy.parent, ignore_errors=True)


def _overlap(path: str, other: str) -> bool:
    return f"{path}/".startswith(f"{other}/") or other.startswith(f"{path}/")


def _link_above(path: str, known: dict[str, bool]) -> str:
    """Return the first parent directory of a path that is a link, or "". `known` caches answers during one check."""
    at, found = path.rpartition("/")[0], ""
    while at:
        if at not in known:
            known[at] = os.path.islink(at)  # noqa: PTH114 -- hundreds of them, before each command
        if known[at]:
            found = at
        at = at.rpartition("/")[0]
    return found


def _is_closed(path: str) -> bool:
    """Return True if a path cannot be read because a directory above was closed."""
    try:
        os.lstat(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def can_guard(path: str) -> bool:
    """Return True if a path is small enough to be restored."""
    return _is_small(look_at(path))


def _is_small(state: PathLook | None) -> bool:
    entries = state.entries if state else ()
    plain = all(stat.S_IFMT(mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) for *_, mode in entries)
    return plain and len(entries) < _MAX_ENTRIES and sum(size for _, _, size, _, _ in entries) < _MAX_BYTES


def look_at(path: str) -> PathLook | None:
    """Return the state of a path; None if there is nothing."""
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            return PathLook(os.readlink(path))  # noqa: PTH115 -- hundreds of them, before each command
    except OSError:
        return None
    place = Path(path)
    below = (Path(base, name) for base, inner, files in os.walk(place) for name in (*inner, *files))
    return PathLook(entries=tuple(_entry(each, path) for each in islice(chain([place], below), _MAX_ENTRIES)))


def _is_same(path: str, state: PathLook | None, copy: Path | None) -> bool:
    """Return True if a path is unchanged; one restored from a copy counts as unchanged if its contents are equal."""
    found = look_at(path)
    if found == state or copy is None or not found or found.link or not _is_small(found):
        return found == state
    return contents(path) == contents(str(copy))


def contents(path: str) -> dict[str, tuple[int, bytes]]:
    """Return mode and bytes of a file, or of each entry of a directory by name."""
    place = Path(path)
    below = (Path(base, name) for base, inner, files in os.walk(place) for name in (*inner, *files))
    found: dict[str, tuple[int, bytes]] = {}
    for each in islice(chain([place], below), _MAX_ENTRIES):
        mode = each.lstat().st_mode
        data = b""
        if stat.S_ISLNK(mode):
            data = os.fsencode(each.readlink())
        elif stat.S_ISREG(mode):
            with open(os.open(each, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 -- a descriptor
                data = file.read(_MAX_BYTES)
        found[str(each).removeprefix(path)] = mode, data
    return found


def _entry(place: Path, start: str) -> tuple[str, int, int, int, int]:
    name = str(place).removeprefix(start)
    try:
        found = place.lstat()
    except OSError:
        return name, 0, 0, 0, 0
    return name, found.st_ino, found.st_size, found.st_ctime_ns, found.st_mode
