"""What git would obey in repositories that commands have made: it is found by its layout, and taken out.

A command may make a repository anywhere that it can write, with whatever name, and whoever runs git there later obeys
its configuration, its hooks and what an interrupted rebase is to do. Those of repositories that were there before are
read-only; this is about all others.
"""

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from sagent.lib.git import git_directories, git_places, harmless_config, is_git_directory, read_config
from sagent.sandbox.anchored import anchored
from sagent.sandbox.survey import Survey

MAX_WINDOWS = 100  # times in which commands ran that are told apart
_SLACK = 10_000_000  # ns by which a file system's clock may be behind
_CONFIGURATIONS = ("config", "config.worktree")
_TODO_LISTS = ("rebase-merge/git-rebase-todo", "rebase-merge/git-rebase-todo.backup")
_EXEC = re.compile(rb"(?m)^[ \t]*(?:exec|x)[ \t][^\n]*(?:\n|\Z)")


class Plants:
    """Looks for repositories below the directories that commands can write.

    What changed while no command ran is the person's and stays, and so does what is `excluded`: protected in another
    way, or granted. What is taken out is kept in the directory `aside`.
    """

    def __init__(self, aside: Path) -> None:
        self._aside = aside
        self._surveys: dict[str, Survey] = {}
        self._windows: list[tuple[int, int]] = []
        self._since: int | None = None
        self._settled: dict[str, tuple[int, int]] = {}  # files that were looked at, as they are
        self._planned: dict[str, frozenset[bytes]] = {}  # what a todo list of the person's runs

    def begin(self, roots: Iterable[str], excluded: AbstractSet[str], protected: Iterable[str] = ()) -> list[str]:
        """Begin to watch for a command, within which `protected` is read-only; return what those that run planted."""
        for root in roots:
            self._surveys.setdefault(root, Survey(root, _is_sign, passed_over=frozenset({".git"})))
        for path in protected:
            if path.endswith("/commondir"):  # of each repository that was there
                for name in _TODO_LISTS:
                    self._note(f"{path.removesuffix('commondir')}{name}")
        found = self.look(excluded, every=False) if self._since else []
        self._since = self._since or time.time_ns() - _SLACK
        return found

    def end(self, excluded: AbstractSet[str], *, goes_on: bool) -> list[str]:
        """Return what commands have planted, by now taken out; `goes_on` where something still runs."""
        found = self.look(excluded)
        if not goes_on and self._since is not None:
            self._windows = [*self._windows, (self._since, time.time_ns())][-MAX_WINDOWS:]
            self._since = None
        return found

    def look(self, excluded: AbstractSet[str], *, every: bool = True) -> list[str]:
        """Take out what git would obey, and return where it was."""
        found: list[str] = []
        for place in dict.fromkeys(self._repositories(every=every)):
            with contextlib.suppress(OSError):
                found += self._disarm(place, excluded)
        return found

    def _repositories(self, *, every: bool) -> Iterator[str]:
        for survey in self._surveys.values():
            for path in survey.look(every=every):
                above, _, name = path.rpartition("/")
                if name.lower() == ".git":
                    starts = {os.path.realpath(place) for place in git_places(Path(above))}
                    yield from (str(place) for start in starts for place in git_directories(Path(start)))
                elif is_git_directory(above):
                    yield from map(str, git_directories(Path(above)))

    def _disarm(self, place: str, excluded: AbstractSet[str]) -> Iterator[str]:
        for name in _CONFIGURATIONS:
            if self._is_new(path := f"{place}/{name}", excluded) and self._clean(path):
                yield path
        for path in self._hooks(place):
            if self._is_new(path, excluded):
                self._take(path)
                yield path
        if self._is_new(path := f"{place}/commondir", excluded) and not _is_linked(place):
            self._take(path)
            yield path
        for name in _TODO_LISTS:
            if self._is_new(path := f"{place}/{name}", excluded) and self._unplan(path):
                yield path

    def _hooks(self, place: str) -> Iterator[str]:
        hooks = f"{place}/hooks"
        if os.path.islink(hooks):  # noqa: PTH114 -- a text path, as below
            yield hooks
            return
        with contextlib.suppress(OSError):
            yield from (f"{hooks}/{name}" for name in os.listdir(hooks) if not name.endswith(".sample"))  # noqa: PTH208

    def _is_new(self, path: str, excluded: AbstractSet[str]) -> bool:
        """Return whether a command may have made or changed a file, or its name, since it was looked at."""
        try:
            found = os.lstat(path)
        except OSError:
            return False
        state = found.st_ino, found.st_ctime_ns
        if self._settled.get(path) == state:
            return False
        self._settled[path] = state
        return self._is_of_command(found.st_ctime_ns) and not _lies_in(path, excluded)

    def _is_of_command(self, changed: int) -> bool:
        windows = [*self._windows, *([(self._since, time.time_ns())] if self._since else ())]
        return any(start <= changed <= end for start, end in windows)

    def _note(self, path: str) -> None:
        """Remember what a todo list runs that no command has changed."""
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            if self._settled.get(path) != (found.st_ino, found.st_ctime_ns) and not self._is_of_command(
                found.st_ctime_ns
            ):
                self._settled[path] = found.st_ino, found.st_ctime_ns
                self._planned[path] = frozenset(_EXEC.findall(read_config(path) or b""))

    def _clean(self, path: str) -> bool:
        """Leave of a configuration what names no program; return whether there was more."""
        text = None if os.path.islink(path) else read_config(path)  # noqa: PTH114 -- as above
        kept = b"" if text is None else harmless_config(text, path)
        return kept != text and self._replace(path, kept)

    def _unplan(self, path: str) -> bool:
        """Leave out of a todo list what it would have git run, but for what was to be run before."""
        text = None if os.path.islink(path) else read_config(path)  # noqa: PTH114 -- as above
        planned = self._planned.get(path, frozenset())
        kept = _EXEC.sub(lambda line: line[0] if line[0] in planned else b"", text or b"")
        return kept != text and self._replace(path, kept)

    def _replace(self, path: str, text: bytes) -> bool:
        self._take(path)
        with anchored(path) as place:
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor
                file.write(text)
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            self._settled[path] = found.st_ino, found.st_ctime_ns
        return True

    def _take(self, path: str) -> None:
        with anchored(path) as place:
            name = f"{place.name}.undone-{os.urandom(4).hex()}"
            try:
                self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
                place.rename(self._aside / name)
            except OSError:  # another disk
                place.parent.chmod(place.parent.stat().st_mode | stat.S_IRWXU)
                place.rename(place.parent.parent / name if place.parent.name == "hooks" else place.with_name(name))


def _is_sign(path: str) -> bool:
    return path[-5:].lower() in ("/head", "/.git")  # in any case: a file system may ignore it


def _is_linked(place: str) -> bool:
    """Return whether a directory is that of a linked work tree, where its repository keeps these."""
    named = os.fsdecode(read_config(f"{place}/commondir") or b"").strip()
    shared = os.path.realpath(os.path.join(place, named))  # noqa: PTH118 -- a text path
    return os.path.realpath(place).rpartition("/")[0] == f"{shared}/worktrees"


def _lies_in(path: str, places: AbstractSet[str]) -> bool:
    while path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False
