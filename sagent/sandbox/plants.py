"""Removes files that commands have made and that git, an editor or a shell would obey, found by layout or name.

A command may make a repository under any name anywhere it can write, and whoever runs git there later obeys its
configuration, its hooks and the steps of an interrupted rebase. Other programs obey files with certain names in any
directory. Files that existed before are read-only; this module deals with new ones.
"""

import contextlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sagent.lib.git import (
    files_named,
    foreign_settings,
    git_directories,
    harmless_config,
    is_git_directory,
    lost_settings,
    path_in,
    read_config,
    work_tree_directories,
)
from sagent.lib.names import lies_in
from sagent.sandbox.anchored import anchored, set_aside
from sagent.sandbox.guard import PathLook, contents, look_at
from sagent.sandbox.obeyed import Obeyed, files_of, harmless_lines, is_obeyed, names_program, obeyed_at
from sagent.sandbox.places import known_places
from sagent.sandbox.survey import BUILT, Survey

MAX_DIRECTORIES = 200_000  # below one directory that commands can write
MAX_WINDOWS = 10_000  # separate periods in which commands ran
_SLICE_SECONDS = 0.01  # of checking directories before other tasks run
_SAME_TIME_NS = 1_000_000_000  # after a change, another may get the same time
_TICK_SECONDS = 0.02  # for a file system's clock, the kernel's timer, to advance
_FUTURE_NS = 1 << 63
_LAYOUT = ("HEAD", "objects", "refs", "commondir")
_CONFIGURATIONS = ("config", "config.worktree")
_PASSED_OVER = frozenset({".git/objects"})
# Directories whose names are branches or fetched objects: nobody works there.
_NOT_WORKED_IN = (
    BUILT
    | {".git", "vendor", "Pods", "bower_components", "site-packages", ".terraform", ".yarn", ".direnv", ".gradle"}
    | {".bundle", ".pixi", ".nox", ".eggs", "elm-stuff"}
)
_TODO_LISTS = ("rebase-merge/git-rebase-todo", "rebase-merge/git-rebase-todo.backup")
_PROGRAM = re.compile(rb"(?i)(?:\A|\bstrategy[ \t]*=)[^\n\[]*(?:/|\\\n)")
# Other files of interrupted work, and when one names a program: git runs `git-merge-STRATEGY`, a path too, and before
# 2.34 a shell reads the names of a bisection.
_STATES = {
    **dict.fromkeys(("rebase-merge/strategy", "sequencer/opts"), _PROGRAM),
    "BISECT_NAMES": re.compile(rb"\A(?!(?:[\w./ \n-]|'[^']*'|\\['!])*\Z)"),
}
_REMOTES = ("remotes", "branches")  # addresses, each in a file: gitrepository-layout(5)
_HELPER = re.compile(rb"::")  # followed by an address that names the program
_HOLD_STATES = ("rebase-merge", "sequencer", "sl", *_REMOTES)
_EXEC = re.compile(rb"(?m)^[ \t]*(?:exec|x)[ \t][^\n]*(?:\n|\Z)")


class ProtectedPaths(NamedTuple):
    """Protected paths, whose changes by commands are undone or impossible, and paths that commands were granted."""

    kept: AbstractSet[str] = frozenset()
    granted: AbstractSet[str] = frozenset()


class Plants:
    """Finds new repositories, and new files that programs obey, below the directories that commands can write.

    Changes made while no command ran are the person's and stay, like paths that were `granted` or are `kept` in another
    way; except files that a process left by a command may still have open. Removed files are kept in the directory
    `quarantine`.

    Below `caches` only repositories are looked for. In a large tree the nearest directories are checked for each
    command, the others from time to time.
    """

    def __init__(self, quarantine: Path, caches: AbstractSet[str] = frozenset()) -> None:
        self._quarantine, self._caches = quarantine, caches
        self._surveys: dict[str, Survey] = {}
        self._windows: list[tuple[int, int]] = []
        self._since: int | None = None
        self._open: set[str] = set()  # files that running processes may still write
        self._settled: dict[str, tuple[int, int]] = {}  # files that were looked at, as they are
        self._answers: dict[str, bool] = {}  # whether a path is new, for one check
        self._planned: dict[str, frozenset[bytes]] = {}  # commands in the person's own todo lists
        self._protected: set[str] = set()  # all that ever was, and was looked at before
        self._inodes: set[tuple[int, int]] = set()  # of these
        self._doubted: set[str] = set()  # those that a command may have made: protected as they were, never trusted
        self._allowed: dict[str, tuple[int, int]] = {}  # files that a tool of ours wrote, as they were then
        self._made: dict[str, PathLook | None] = {}  # protected paths that commands made, as they were last checked
        self._entered: set[str] = set()  # link targets outside the directories checked for all names

    def begin(self, roots: Iterable[str], places: ProtectedPaths, protected: Collection[str] = ()) -> list[str]:
        """Begin to watch for a command, in which `protected` is read-only; return files planted by running commands."""
        for root in roots:
            if root not in self._surveys:
                self._surveys[root] = self._survey(root)
        new = {*protected} - self._protected
        for path in new:
            with contextlib.suppress(OSError):
                if self._is_of_command(os.lstat(path).st_ctime_ns):  # or another session protected it before we checked
                    self._doubted.add(path)
        for path in (*protected, *places.granted):
            with contextlib.suppress(OSError):
                if path not in self._doubted and self._is_worked_in(path.partition("/.git/")[0]):
                    self._inodes.add(_inode(path))
            if path.endswith("/commondir"):  # of each known repository
                for name in _TODO_LISTS:
                    self._note(f"{path.removesuffix('commondir')}{name}")
        found = self.look(places) if self._since else []
        if self._windows:
            found += self._disarmed(dict.fromkeys(_signs_at(filter(os.path.lexists, new))), places)
        self._protected |= new
        if self._since is None:
            self._since = min(before for before, _ in self._moments())
        return found

    def end(self, places: ProtectedPaths, *, goes_on: bool) -> list[str]:
        """Return and remove the files that commands have planted; `goes_on` if a process still runs."""
        for survey in self._surveys.values():
            survey.renew()
        sure = (path for path in (*places.kept, *places.granted) if self._is_kept(path, places))
        for path in filter(os.path.lexists, sure):  # they stay as they are now, for good
            for each in (path, *(file.path for file in files_of(Obeyed(path, "")))):
                self.allow(each)
        found = self.look(places)
        if not goes_on and self._since is not None:
            self._windows.append((self._since, max(now for _, now in self._moments())))
            self._since = None
            self._open.clear()
        while len(self._windows) > MAX_WINDOWS:  # merge two, with the time between them
            (start, _), (_, end) = self._windows[:2]
            self._windows[:2] = [(start, end)]
        return found

    def look(self, places: ProtectedPaths) -> list[str]:
        """Remove files that git would obey, near earlier finds and elsewhere; return where they were."""
        signs = [path for survey in self._surveys.values() for path in survey.look(_SLICE_SECONDS)]
        return [*self._disarmed(signs, places), *self.go_on(places)]

    def go_on(self, places: ProtectedPaths, seconds: float | None = None) -> list[str]:
        """Take it out of directories that were not looked at since a command, for so long at most."""
        end = time.monotonic() + (_SLICE_SECONDS if seconds is None else seconds)
        signs = [path for survey in self._surveys.values() for path in survey.go_on(end)]
        found = self._disarmed(signs, places)
        if self.is_done:
            for survey in self._surveys.values():
                survey.arrived.clear()
        return found

    @property
    def is_done(self) -> bool:
        """True if all directories were looked at since the last command."""
        return all(survey.is_done for survey in self._surveys.values())

    @property
    def partly_known(self) -> list[str]:
        """Directories that were not checked completely since the last command."""
        return [root for root, survey in self._surveys.items() if survey.is_cut or not survey.is_done]

    def _disarmed(self, signs: Iterable[str], places: ProtectedPaths) -> list[str]:
        signs = list(signs)
        self._answers.clear()
        found = [*self._follow(signs, places)]
        for place, ways in _repositories(signs).items():
            with contextlib.suppress(OSError):
                found += self._disarm(place, ways, places)
        for sign in dict.fromkeys(filter(self._is_own, signs)):
            with contextlib.suppress(OSError):
                found += self._disobey(sign, places)
        for path in dict.fromkeys(_named_files(signs, self._surveys.keys())):
            with contextlib.suppress(OSError):
                if self._is_new(path, places) and (_is_hook(path) or self._clean(path)):
                    found.append(path)
                    if _is_hook(path):
                        self._take(path)
        return found

    def _survey(self, root: str) -> Survey:
        return Survey(root, _is_sign, _PASSED_OVER, MAX_DIRECTORIES, self._unlock, self._leads_on)

    def _leads_on(self, entry: os.DirEntry[str]) -> bool:
        return entry.is_symlink() and self._is_worked_in(entry.path) and os.path.isdir(entry.path)  # noqa: PTH112 -- no error for one in a circle

    def _is_own(self, sign: str) -> bool:
        """Return True if programs obey a file of this name in a place where somebody may work."""
        return is_obeyed(sign) and self._is_worked_in(sign)

    def _is_worked_in(self, path: str) -> bool:
        root = max((root for root in self._surveys if path.startswith(f"{root}/")), key=len, default="")
        is_in = root in self._entered or not lies_in(path, self._caches)
        return bool(root) and is_in and _NOT_WORKED_IN.isdisjoint(path[len(root) :].split("/")[:-1])

    def _follow(self, signs: list[str], places: ProtectedPaths) -> Iterator[str]:
        """Check the targets of links outside the checked directories, and add to `signs`: a person who follows a link
        works there.

        A new link to a file that names programs is removed: the file may be the person's, or of an earlier session.
        """
        for link in signs:  # they grow
            if _is_sign(link) or not os.path.islink(link):  # noqa: PTH114 -- a text path
                continue
            real, is_first = os.path.realpath(link), False
            if not (lies_in(real, self._caches) or lies_in(real, self._surveys.keys())):
                continue
            if real not in self._surveys and (is_first := not self._is_worked_in(f"{real}/x")):
                self._surveys[real] = self._survey(real)
                self._entered.add(real)
            inner = [*_signs_above(real, self._caches), *(self._surveys[real].look() if is_first else ())]
            with contextlib.suppress(OSError):
                if self._is_new(link, places) and any(map(_names_program, inner)):
                    self._take(link)
                    yield link
                    if is_first:
                        del self._surveys[real]
                        self._entered.remove(real)
                    continue
            signs += inner

    def allow(self, path: str) -> None:
        """Accept a file as it is now, until it is changed."""
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            self._allowed[path] = found.st_ino, found.st_ctime_ns

    def made_by_commands(self, paths: Iterable[str]) -> frozenset[str]:
        """Return those of these paths that only commands have made and changed, and that name no program. Later
        commands may go on with them, as with all else that they made: they are looked at again afterwards."""
        return frozenset(path for path in paths if path in self._made and look_at(path) == self._made[path])

    def _note_made(self, path: str, places: ProtectedPaths) -> None:
        config = f"{path.rpartition('/')[0]}/config"  # in a repository of commands, what is missing may come
        files = (path, *(each.path for each in files_of(Obeyed(path, ""))))
        is_new = not os.path.islink(path) and all(self._is_new(each, places) for each in files)  # noqa: PTH114 -- a text path
        if is_new or (not os.path.lexists(path) and self.made_by_commands([config])):
            self._made[path] = look_at(path)

    def _disobey(self, sign: str, places: ProtectedPaths) -> Iterator[str]:
        """Remove a file that other programs than git obey, unless it is a copy of one of the person's."""
        for there, name in obeyed_at(sign):
            link = next((way for way in _way(sign, there) if os.path.islink(way)), "")  # noqa: PTH114 -- a text path
            if link and self._is_new(link, places):
                self._take(link)
                yield link
                continue
            above, _, last = there.rpartition("/")
            path = os.path.join(os.path.realpath(above), last)  # noqa: PTH118 -- a text path
            if not os.path.lexists(path) or self._is_kept(path, places):
                continue
            # Renamed, its files are as before.
            is_new = any(self._is_new(each, places) for each in (sign, path)) or self._has_arrived(sign)
            has_grown = is_new and not self._is_known(path, places)
            files = files_of(Obeyed(path, name))
            new = (file for file in files if has_grown or self._is_new(file.path, places))
            spoilt = {file.path: left for file in new if (left := harmless_lines(file)) is not None}
            for allowed in filter(self._is_allowed, [*spoilt]):
                del spoilt[allowed]
            if not spoilt or self._is_copy(path, name):
                self._note_made(path, places)
                continue
            if len(spoilt) == len(files) and not any(map(bytes.strip, spoilt.values())):
                self._take(path)
            else:
                for each, left in spoilt.items():
                    if left.strip():
                        self._replace(each, left)
                    else:
                        self._take(each)
            yield path

    def _has_arrived(self, path: str) -> bool:
        """Return True if a command may have moved this here, with its contents."""
        root = max((root for root in self._surveys if path.startswith(f"{root}/")), key=len, default="")
        arrived = frozenset[str]().union(*(survey.arrived for survey in self._surveys.values()))
        if not BUILT.isdisjoint(path[len(root) :].split("/")):  # build output changes constantly
            return False
        while len(path) > len(root):
            with contextlib.suppress(OSError):
                if path in arrived and self._is_of_command(os.lstat(path).st_ctime_ns):
                    return True
            path = path.rpartition("/")[0]
        return False

    def _is_allowed(self, path: str) -> bool:
        found = os.lstat(path)
        return self._allowed.get(path) == (found.st_ino, found.st_ctime_ns)

    def _is_copy(self, path: str, name: str) -> bool:
        """Return True if an obeyed file equals the person's file of this name in another directory."""
        doubtful = self._open | self._doubted
        theirs = (each for each in self._protected if each.endswith(f"/{name}") and each not in doubtful)
        others = filter(self._is_worked_in, theirs)
        found = contents(path)
        return any(os.path.lexists(each) and contents(each) == found for each in others)

    def _disarm(self, place: str, ways: Iterable[str], places: ProtectedPaths) -> Iterator[str]:
        parts = (*(f"{place}/{name}" for name in _LAYOUT), *ways)  # existing files may have been made into a repository
        has_grown = any(self._is_new(part, places) for part in parts) or self._has_arrived(place)
        suspect = partial(self._is_suspect, places=places, has_grown=has_grown)
        for name in _CONFIGURATIONS:
            if suspect(f"{place}/{name}") and (lost := self._clean(path := f"{place}/{name}")):
                yield f"{path} ({lost})"
        links = filter(os.path.islink, (f"{place}/{name}" for name in _HOLD_STATES))
        for path in filter(suspect, (*links, *self._hooks(place))):
            self._take(path)
            yield path
        if suspect(path := f"{place}/sl/config") and (left := harmless_lines(Obeyed(path, ".sl/config"))) is not None:
            self._replace(path, left)  # of Sapling, in a repository of git
            yield path
        if suspect(path := f"{place}/commondir") and not _is_linked(place):
            self._take(path)
            yield path
        for path in filter(suspect, (f"{place}/{name}" for name in _TODO_LISTS)):
            if self._unplan(path):
                yield path
        remotes = (entry for name in _REMOTES for entry in _entries(f"{place}/{name}"))
        states = [(f"{place}/{name}", program) for name, program in _STATES.items()]
        for path, program in (*states, *((remote, _HELPER) for remote in remotes)):
            if suspect(path) and program.search(read_config(path) or b"::/"):
                self._take(path)
                yield path
        for path in (*ways, *(f"{place}/{name}" for name in (*_CONFIGURATIONS, "commondir", "gitdir", "hooks"))):
            self._note_made(path, places)

    def _hooks(self, place: str) -> Iterator[str]:
        hooks = f"{place}/hooks"
        if os.path.islink(hooks):  # noqa: PTH114 -- a text path, as below
            yield hooks
            return
        self._unlock(hooks)
        yield from (path for path in _entries(hooks) if not path.endswith(".sample"))

    def _unlock(self, path: str) -> None:
        """Make a command's directory readable, because git enters one that cannot be listed."""
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            if (
                stat.S_ISDIR(found.st_mode)
                and not found.st_mode & stat.S_IRUSR
                and self._is_of_command(found.st_ctime_ns)
            ):
                with anchored(path) as place:
                    place.chmod(found.st_mode | stat.S_IRWXU, follow_symlinks=False)

    def _is_suspect(self, path: str, places: ProtectedPaths, *, has_grown: bool) -> bool:
        is_new = self._is_new(path, places)
        return is_new or (has_grown and os.path.lexists(path) and not self._is_known(path, places))

    def _is_known(self, path: str, places: ProtectedPaths) -> bool:
        """Return True if a file was protected before it became part of a repository, so that its own time counts."""
        inodes = (_inode(path), _inode(path.rpartition("/")[0]))
        return self._is_kept(path, places) or lies_in(path, self._protected) or not self._inodes.isdisjoint(inodes)

    def _is_new(self, path: str, places: ProtectedPaths) -> bool:
        """Return True if a command may have made, changed or renamed a file since the last check."""
        if path not in self._answers:
            self._answers[path] = self._has_changed(path, places)
        return self._answers[path]

    def _has_changed(self, path: str, places: ProtectedPaths) -> bool:
        try:
            found = os.lstat(path)
        except OSError:
            return False
        state = found.st_ino, found.st_ctime_ns
        if self._settled.get(path) == state:
            return False
        if time.time_ns() - found.st_ctime_ns > _SAME_TIME_NS:
            self._settled[path] = state
        if self._allowed.get(path) == state or self._is_kept(path, places):
            self._settled[path] = state
            return False
        if is_new := self._is_of_command(found.st_ctime_ns):
            self._open.add(path)
        return is_new

    def _is_kept(self, path: str, places: ProtectedPaths) -> bool:
        is_sure = path not in self._open and path not in self._doubted
        return lies_in(path, places.granted) or (is_sure and lies_in(path, places.kept))

    def _is_of_command(self, changed: int) -> bool:
        windows = [*self._windows, *([(self._since, _FUTURE_NS)] if self._since is not None else ())]
        return any(start < changed <= end for start, end in windows)

    def _moments(self) -> Iterator[tuple[int, int]]:
        """Yield `moment` of each file system that commands can write to, and wait until all of them have passed."""
        self._quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield moment(str(self._quarantine))
        for root in self._surveys if hasattr(os, "O_TMPFILE") else ():
            with contextlib.suppress(OSError):  # such a file system is not written
                yield moment(root)

    def _note(self, path: str) -> None:
        """Remember the commands in a todo list that no command has changed."""
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            if self._settled.get(path) != (found.st_ino, found.st_ctime_ns) and not self._is_of_command(
                found.st_ctime_ns
            ):
                self._settled[path] = found.st_ino, found.st_ctime_ns
                self._planned[path] = frozenset(_EXEC.findall(read_config(path) or b""))

    def _clean(self, path: str) -> str:
        """Remove program names from a configuration; return the removed parts."""
        text = None if os.path.islink(path) else read_config(path)  # noqa: PTH114 -- as above
        kept = b"" if text is None else harmless_config(text, path)
        if kept == text:
            self._detach(path, kept)
            return ""
        self._replace(path, kept)
        return lost_settings(text or b"", kept) or "all of it"

    def _detach(self, path: str, text: bytes) -> None:
        """Give a file its only name, so that commands cannot change it later through another."""
        if os.lstat(path).st_nlink > 1:
            self._replace(path, text)

    def _unplan(self, path: str) -> bool:
        """Remove commands from a todo list, except those that were in it before."""
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
        return True

    def _take(self, path: str) -> None:
        with anchored(path) as place:
            set_aside(place, self._quarantine)


def moment(directory: str) -> tuple[int, int]:
    """Return two times of the clock that stamps changes in a directory: earlier changes have at most the second, later
    changes more than the first. They are equal unless the clock is coarser than `_TICK_SECONDS`."""
    descriptor = _unnamed(directory)
    try:
        now, end = os.fstat(descriptor).st_ctime_ns, time.monotonic() + _TICK_SECONDS
        while True:
            os.fchmod(descriptor, 0o600)  # a change of a file that was looked at is stamped exactly by newer kernels
            if os.fstat(descriptor).st_ctime_ns != now:
                return now, now
            if time.monotonic() > end:
                return now - 1, now
            time.sleep(_TICK_SECONDS / 20)
    finally:
        os.close(descriptor)


def _unnamed(directory: str) -> int:
    with contextlib.suppress(OSError, AttributeError):
        return os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    path = f"{directory}/.sagent-{os.urandom(8).hex()}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.unlink(path)  # noqa: PTH108 -- a text path
    return descriptor


def _inode(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _repositories(signs: Iterable[str]) -> dict[str, set[str]]:
    """Return the directories of repositories, each with the files that lead git to it."""
    starts, found = dict[str, set[str]](), dict[str, set[str]]()
    for path in signs:
        above, _, name = path.rpartition("/")
        if name.lower() == ".git":
            own = os.path.realpath(work_tree_directories(Path(above))[0])
        elif is_git_directory(above):
            own = above
        else:
            continue
        ways = {path} if own != path and own != above else set[str]()
        shared = os.path.realpath(os.path.join(own, path_in(read_config(f"{own}/commondir") or b"")))  # noqa: PTH118 -- text
        starts.setdefault(own, set()).update(ways)
        starts.setdefault(shared, set()).update(ways, {f"{own}/commondir"})
    for start, ways in starts.items():
        for place in git_directories(Path(start)):
            found.setdefault(str(place), set()).update(ways)
    return found


def _names_program(sign: str) -> bool:
    """Return True if programs may be run in a directory of this name."""
    above, _, name = sign.rpartition("/")
    if name.lower() == ".git" or is_git_directory(above):
        return bool(foreign_settings(above))
    return names_program(sign)


def _signs_above(path: str, tops: AbstractSet[str]) -> Iterator[str]:
    while lies_in(path := path.rpartition("/")[0], tops):
        yield from filter(_is_sign, _entries(path))


def _entries(directory: str) -> list[str]:
    try:
        return [f"{directory}/{name}" for name in os.listdir(directory)]  # noqa: PTH208 -- text paths
    except OSError:
        return []


def _named_files(signs: Iterable[str], roots: AbstractSet[str]) -> Iterator[str]:
    """Yield files that the configurations of work trees below `roots` name: included files and hooks."""
    for path in signs:
        above, _, name = path.rpartition("/")
        for named in files_named(above) if name.lower() == ".git" else ():
            if not lies_in(named, roots):
                continue
            if os.path.isdir(named):  # noqa: PTH112 -- a text path
                yield from (f"{named}/{hook}" for hook in known_places().hooks if os.path.lexists(f"{named}/{hook}"))
            else:
                yield named


def _is_hook(path: str) -> bool:
    return path.rpartition("/")[2] in known_places().hooks


def _is_sign(path: str) -> bool:
    return path[-5:].lower() in ("/head", "/.git") or is_obeyed(path)  # in any case: a file system may ignore it


def _way(sign: str, path: str) -> Iterator[str]:
    """Yield a path and those above it, down from a name."""
    if path.startswith(sign):
        parts = path[len(sign) :].split("/")
        yield from (sign + "/".join(parts[: count + 1]) for count in range(len(parts)))


def _signs_at(protected: Iterable[str]) -> Iterator[str]:
    """Yield paths that may be signs of protected paths."""
    for path in protected:
        for _ in range(4):  # as deep as a listed name is
            yield from (path, f"{path}/HEAD")
            path = path.rpartition("/")[0]  # noqa: PLW2901 -- up from it


def _is_linked(place: str) -> bool:
    """Return True if a directory is that of a linked work tree inside its repository."""
    named = path_in(read_config(f"{place}/commondir") or b"")
    shared = os.path.realpath(os.path.join(place, named))  # noqa: PTH118 -- a text path
    return os.path.realpath(place).rpartition("/")[0] == f"{shared}/worktrees"
