"""Snapshots of a directory before and after a command, at a cost that depends only on the changes.

In a git work tree, files that git calls unchanged are not read: git has their contents if a command changes them.
Contents that git does not have (changed and new files) are held in memory, within limits. Nothing of git's is written,
and no lock taken.
"""

import errno
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.git import git_call, work_tree_directories
from sagent.lib.regular import open_regular, real_directory
from sagent.rewind.watch import Changed
from sagent.session.touches import ABSENT, DIRECTORY, Snapshot, unknown

Keep: TypeAlias = Callable[[bytes], str]
"""Keeps a content and returns its sha256."""

MAX_FILE_BYTES = 1 << 20  # of a file that a command changed
MAX_FILES = 20_000
MAX_WATCHED_FILES = 100_000  # in a git work tree with change notification, which avoids checking each file
MAX_HELD_BYTES = 32 << 20  # per directory, and kept of one command's changes
SEARCH_TIMEOUT_SECONDS = 10.0  # for git or a directory walk
SETTLED_NS = 50_000_000  # old enough for another change to show in a file's times, whatever the clock's precision
_MAX_STRAYS = 2_000  # directories looked into without a file that is covered
PASSED_OVER = frozenset(
    b".git .hg .svn .jj node_modules __pycache__ .venv venv .tox .mypy_cache .ruff_cache .pytest_cache .cache .direnv "
    b".gradle .terraform".split()
)

_LOG = b'{"id":"'  # start of a log file

TOO_LARGE = f"it is larger than {MAX_FILE_BYTES >> 20} MiB"
TOO_MUCH = f"together with others it is more than {MAX_HELD_BYTES >> 20} MiB"
TOO_LONG = f"it could not be searched within {SEARCH_TIMEOUT_SECONDS:g} s"
NO_CONTENT = "git did not give back its content"
OTHER_FORM = "git keeps it in another form (a filter, an encoding)"


class StoppedError(Exception):
    """Nobody waits for this any more."""


class Stop:
    """Ends work in a thread, and the program that it waits for."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def set(self) -> None:
        with self._guard:
            self._event.set()
            if self._process is not None:
                self._process.kill()

    def check(self) -> None:
        """Raise StoppedError if it was stopped."""
        if self._event.is_set():
            raise StoppedError

    def git(self, root: bytes, *arguments: str, data: bytes = b"") -> bytes | None:
        """Run git and return its output; None if it fails, is missing, takes too long, or may not be used."""
        if (call := git_call(os.fsdecode(root), *arguments)) is None:
            return None
        with self._guard:
            self.check()
            try:
                pipe, null = subprocess.PIPE, subprocess.DEVNULL
                process = subprocess.Popen(call.argv, env=call.environment, stdin=pipe, stdout=pipe, stderr=null)
            except OSError:
                return None
            self._process = process
        try:
            out = process.communicate(data, timeout=SEARCH_TIMEOUT_SECONDS)[0]
        except subprocess.TimeoutExpired:
            return None
        finally:
            with self._guard:
                self._process = None
            if process.returncode is None:
                process.kill()
                process.communicate()
        self.check()
        return out if process.returncode == 0 else None


class FileState(NamedTuple):
    """A file or link: its identity, and its content if it is held here or git has it."""

    signature: tuple[int, ...]  # mtime and ctime in nanoseconds, size, inode, mode, hard links
    settled: bool
    data: bytes | None = None  # of a link its target
    oid: str = ""
    why: str = ""

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.signature[2]

    @property
    def inode(self) -> int:
        return self.signature[3]

    @property
    def mode(self) -> int:
        return self.signature[4]

    @property
    def links(self) -> int:
        """Number of names of the file."""
        return self.signature[5]


class Listing(NamedTuple):
    """The names in a directory."""

    signature: tuple[int, ...]
    settled: bool
    names: frozenset[bytes]
    below: frozenset[bytes]  # the directories among them


@dataclass(slots=True)
class TreeSnapshot:
    """The files of a directory at one moment. Paths are absolute. With a `why` the directory was not read.

    The states in `reported` come from other calls: the next snapshot checks whether they are covered.
    """

    root: bytes
    started: int  # nanoseconds since the epoch
    git: bool = False
    slow: bool = False  # git timed out, for example on an ignore file that is a FIFO, and is not asked again
    why: str = ""
    index: tuple[tuple[int, ...], ...] = ()  # identity of git's index, () if unknown
    tracked: Sequence[bytes] = ()  # the files in git's index
    files: dict[bytes, FileState] = field(default_factory=dict[bytes, FileState])
    listings: dict[bytes, Listing] = field(default_factory=dict[bytes, Listing])
    reported: set[bytes] = field(default_factory=set[bytes])

    def was_there(self, path: bytes) -> bool | None:
        """Return True if a path existed, False if not; None if it was not checked."""
        asked = path
        while len(above := path.rpartition(b"/")[0] or b"/") >= len(self.root) and path != above:
            if above in self.files:
                return False  # it was a file
            listing = self.listings.get(above)
            if listing is not None:
                if path.rpartition(b"/")[2] not in listing.names:
                    return False  # neither it nor its directory existed
                return True if path == asked else None
            path = above
        return None


def read_state(path: bytes, keep: Keep, largest: int = MAX_FILE_BYTES) -> Snapshot:
    """Read the state of a path. Never waits for a FIFO or a device, and never follows a link: a path below a link
    counts as missing."""
    try:
        try:
            with real_directory(path) as (above, name):
                found = os.stat(name, dir_fd=above, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.ELOOP:
                return ABSENT
            raise
        if stat.S_ISDIR(found.st_mode):
            return DIRECTORY
        if stat.S_ISLNK(found.st_mode):
            return Snapshot("link", target=os.fsdecode(os.readlink(path)))  # noqa: PTH115 -- bytes
        if not stat.S_ISREG(found.st_mode):
            return unknown("it is neither a file nor a link")
        if found.st_size > largest:
            return unknown(f"it is larger than {largest >> 20} MiB")
        data, opened = _read(path, largest)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError as error:
        return unknown(f"it could not be read: {error.strerror or error}")
    try:
        return Snapshot("file", keep(data), stat.S_IMODE(opened.st_mode))
    except OSError as error:
        return unknown(f"it could not be kept: {error.strerror or error}")


def take_snapshot(
    directory: bytes,
    last: TreeSnapshot | None,
    skip: tuple[bytes, ...],
    stop: Stop,
    *,
    relist: bool = True,
    changed: Changed | None = None,
    watched: bool = False,
) -> TreeSnapshot:
    """Take a snapshot of a directory, or of the whole work tree that contains it. Files unchanged since `last` are not
    read again, and not even checked if `changed` is known. Paths below `skip` do not count. Without `relist` git is not
    asked again while its index and all directories are unchanged. If a work tree is `watched`, more files are covered.
    Raises StoppedError and OSError."""
    started = time.time_ns()
    top = _work_tree(directory)
    made = TreeSnapshot(directory, started, index=_index(top, started))
    as_before = None if relist or last is None else _listed_before(made, top, last, changed)
    listed, known = as_before, True
    made.slow = last is not None and last.slow
    if listed is None and top is not None and not made.slow:
        end = time.monotonic() + SEARCH_TIMEOUT_SECONDS
        if changed is not None and last is not None and _has_same_index(made, top, last):
            listed = _others_by_git(made, top, last, stop)
        if listed is None:
            listed, known = _listed_by_git(made, top, stop), False
        if directory != top and not any(path.startswith(_join(directory, b"")) for path in listed or ()):
            ignored = stop.git(top, "check-ignore", "-q", "--", os.fsdecode(directory)) is not None
            listed = None if ignored else listed  # or it is empty
        made.slow = listed is None and time.monotonic() >= end
    if top is not None and listed is not None:
        made.root, made.git = top, True
    else:
        listed = dict.fromkeys(_walk(made, last, changed, stop), "")
    most = MAX_WATCHED_FILES if made.git and watched else MAX_FILES
    if len(listed) > most:
        made.why = f"it has more than {most:,} files"
    if made.why:
        return made
    logs = [path for path in listed if path.endswith(b"/root.jsonl")]
    sessions = tuple(path.removesuffix(b"root.jsonl") for path in logs if _is_log(path))
    skip = (*(_join(each, b"") for each in skip), *sessions)
    _look_at_files(made, listed, None if last is None else last.files, skip, stop, changed, known=known)
    if made.git and as_before is None:
        _list_directories(made, last, skip, changed, stop)
    return made


def _look_at_files(
    snapshot: TreeSnapshot,
    listed: Mapping[bytes, str],
    last: Mapping[bytes, FileState] | None,
    skip: tuple[bytes, ...],
    stop: Stop,
    changed: Changed | None,
    *,
    known: bool,
) -> None:
    """Read the listed files, each with git's id of its content; reuse the states from the last snapshot."""
    before = last or {}
    to_read: list[tuple[bytes, FileState]] = []
    if changed is not None and known and not changed.directories:
        snapshot.files = dict(before)
        for path in before.keys() - listed.keys():
            del snapshot.files[path]
        to_look = [*(listed.keys() - before.keys()), *filter(snapshot.files.__contains__, changed.paths)]
    else:
        kept = (path for path in listed if changed is not None and path in before and not _is_named(path, changed))
        snapshot.files = {path: before[path] for path in kept}
        to_look = [path for path in listed if path not in snapshot.files]
    for number, path in enumerate(to_look):
        if not number % 500:
            stop.check()
        old = before.get(path)
        oid = listed[path] if not known else old.oid if old is not None else ""
        state = None if path.startswith(skip) else _file_state(path, oid, snapshot.started, old)
        if state is None:
            snapshot.files.pop(path, None)
            continue
        if state.oid and known and (old is None or state.signature != old.signature or not old.settled):
            state = state._replace(oid="")  # changed since git looked at it
        if state.data is None and not state.oid and not state.why:
            to_read.append((path, state))
        snapshot.files[path] = state
    looked = (files[path] for path in to_look for files in (before, snapshot.files) if path in files)
    if changed is not None and len(to_look) < len(listed) and any(each.links > 1 for each in looked):
        # a change through one hard link is not reported for the others
        _look_at_files(snapshot, listed, last, skip, stop, None, known=known)
        return
    held = sum(len(state.data) for state in snapshot.files.values() if state.data is not None)
    for path, state in sorted(to_read, key=lambda pair: pair[1].size):
        stop.check()
        full, held = _with_content(path, state, held)
        if full is None:
            del snapshot.files[path]
        else:
            snapshot.files[path] = full


def _is_named(path: bytes, changed: Changed) -> bool:
    return path in changed.paths or (bool(changed.directories) and path.rpartition(b"/")[0] in changed.directories)


def _file_state(path: bytes, oid: str, started: int, before: FileState | None) -> FileState | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    signature = _signature(found)
    settled = max(found.st_mtime_ns, found.st_ctime_ns) < started - SETTLED_NS
    if stat.S_ISLNK(found.st_mode):
        try:
            return FileState(signature, settled, os.readlink(path))  # noqa: PTH115 -- bytes
        except OSError:
            return None
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_size > MAX_FILE_BYTES:
        return FileState(signature, settled, why=TOO_LARGE)
    if oid:
        return FileState(signature, settled, oid=oid)
    if before is not None and before.signature == signature and before.settled and before.data is not None:
        return before
    return FileState(signature, settled)


def read_file_state(path: bytes) -> FileState | None:
    """Return a file, or a link, with its content."""
    state = _file_state(path, "", time.time_ns(), None)
    return state if state is None or state.data is not None or state.why else _with_content(path, state, 0)[0]


def _with_content(path: bytes, state: FileState, total: int) -> tuple[FileState | None, int]:
    """Return a file with its content, if there is room; None if its directory is reached through a link."""
    if total + state.size > MAX_HELD_BYTES:
        return state._replace(why=TOO_MUCH), total
    try:
        data, found = _read(path, MAX_FILE_BYTES)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None, total
        return state._replace(why=f"it cannot be read: {error.strerror or error}"), total
    signature = _signature(found)
    return FileState(signature, state.settled and signature == state.signature, data), total + len(data)


def _is_log(path: bytes) -> bool:
    """Return True if a file is the root log of a session: by its name, the lock beside it, and its first bytes."""
    if not os.path.lexists(path.removesuffix(b"root.jsonl") + b"lock"):
        return False
    try:
        with open_regular(path) as file:
            return (file.read(len(_LOG)) or _LOG) == _LOG  # a new log is empty
    except OSError:
        return False


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode, status.st_nlink)


def _read(path: bytes, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return the content of a regular file at a path without links. Raises OSError for all else and larger files."""
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(f"it is larger than {max_bytes >> 20} MiB")
    return data, found


# -- what there is -----------------------------------------------------------------------------------------------------


def _listed_by_git(snapshot: TreeSnapshot, top: bytes, stop: Stop) -> dict[bytes, str] | None:
    """Return the files that git tracks or does not ignore, with git's ids for those equal to the index; None if git
    cannot tell."""
    out = stop.git(top, "ls-files", "-z", "-s", "-v", "-c", "-o", "-m", "--exclude-standard")
    if out is None:
        return None
    found: dict[bytes, str] = {}
    others: dict[bytes, str] = {}
    skipped: set[bytes] = set()
    base = _join(top, b"")
    for record in out.split(b"\0"):
        tag, rest = record[:2], record[2:]
        if tag == b"? ":
            if not rest.endswith(b"/"):  # a nested repository
                others[base + rest] = ""
            continue
        facts, _, name = rest.partition(b"\t")
        path = base + name
        if not name or facts.startswith(b"160000") or path in skipped:
            skipped.add(path)
        elif tag == b"H " and facts.endswith(b" 0") and path not in found:
            found[path] = facts.split(b" ")[1].decode()
        else:  # changed, in conflict, or marked to be skipped by git
            found[path] = ""
    snapshot.tracked = tuple(found)
    return found | others


def _others_by_git(snapshot: TreeSnapshot, top: bytes, last: TreeSnapshot, stop: Stop) -> dict[bytes, str] | None:
    """List the files as above, with an index that has not changed since the last time."""
    out = stop.git(top, "ls-files", "-z", "-o", "--exclude-standard")
    if out is None:
        return None
    base = _join(top, b"")
    snapshot.tracked = last.tracked
    return dict.fromkeys(last.tracked, "") | {
        base + name: "" for name in out.split(b"\0") if name and not name.endswith(b"/")
    }


def _has_same_index(snapshot: TreeSnapshot, top: bytes | None, last: TreeSnapshot) -> bool:
    return bool(snapshot.index) and snapshot.index == last.index and last.git and last.root == top


def _index(top: bytes | None, started: int) -> tuple[tuple[int, ...], ...]:
    """Return a signature of git's index and its exclude file; () if there is none."""
    if top is None:
        return ()
    found: list[tuple[int, ...]] = []
    own, shared = work_tree_directories(Path(os.fsdecode(top)))
    for path in (own / "index", shared / "info" / "exclude"):
        try:
            status = path.lstat()
        except (OSError, ValueError):  # a path with a NUL in it
            return ()
        if max(status.st_mtime_ns, status.st_ctime_ns) >= started - SETTLED_NS:
            return ()
        found.append(_signature(status))
    return tuple(found)


def _listed_before(
    snapshot: TreeSnapshot, top: bytes | None, last: TreeSnapshot, changed: Changed | None
) -> dict[bytes, str] | None:
    """Return the files that git listed last time, if nothing suggests a different list now."""
    if not _has_same_index(snapshot, top, last):
        return None
    for path, listing in last.listings.items():
        now = _listing(path, last, snapshot.started, changed)
        if now is None or now.names != listing.names or now.below != listing.below:
            return None
        snapshot.listings[path] = now
    if changed is not None and any(path.endswith(b"/.gitignore") for path in changed.paths):
        return None
    for path, state in last.files.items() if changed is None or changed.directories else ():
        if state.oid and not state.settled and changed is None:
            return None
        if path.endswith(b"/.gitignore") and not _is_as_it_was(path, state):
            return None
    snapshot.tracked = last.tracked
    return dict.fromkeys(last.files, "")


def _is_as_it_was(path: bytes, state: FileState) -> bool:
    try:
        return state.settled and _signature(os.lstat(path)) == state.signature
    except OSError:
        return False


def _work_tree(directory: bytes) -> bytes | None:
    """Return the top of a directory's work tree; the directory itself if that top is the home directory."""
    home = os.fsencode(os.path.expanduser("~")) + b"/"  # noqa: PTH111 -- bytes
    top = directory
    while not os.path.lexists(top + b"/.git"):
        above = top.rpartition(b"/")[0]
        if above == top or not above:
            return None
        top = above
    return directory if home.startswith(_join(top, b"")) else top


def _walk(snapshot: TreeSnapshot, last: TreeSnapshot | None, changed: Changed | None, stop: Stop) -> Iterator[bytes]:
    """Yield the files below a directory, without caches and other files of programs."""
    stack = [snapshot.root]
    count = 0
    end = time.monotonic() + SEARCH_TIMEOUT_SECONDS
    while stack and max(count, len(snapshot.listings)) <= MAX_FILES:
        stop.check()
        directory = stack.pop()
        listing = _listing(directory, last, snapshot.started, changed)
        if listing is None:
            continue
        snapshot.listings[directory] = listing
        stack += [_join(directory, name) for name in listing.below if name not in PASSED_OVER]
        for name in listing.names - listing.below:
            yield _join(directory, name)
            count += 1
        if time.monotonic() > end:
            snapshot.why = TOO_LONG
            return


def _listing(directory: bytes, last: TreeSnapshot | None, started: int, changed: Changed | None) -> Listing | None:
    before = None if last is None else last.listings.get(directory)
    if before is not None and changed is not None and directory not in changed.listings:
        return before
    try:
        found = os.lstat(directory)
        signature = _signature(found)
        if before is not None and before.signature == signature and before.settled:
            return before
        if not stat.S_ISDIR(found.st_mode):
            return None
        names: list[bytes] = []
        below: list[bytes] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                names.append(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
    except OSError:
        return None
    settled = max(found.st_mtime_ns, found.st_ctime_ns) < started - SETTLED_NS
    return Listing(signature, settled, frozenset(names), frozenset(below))


def _list_directories(
    snapshot: TreeSnapshot, last: TreeSnapshot | None, skip: tuple[bytes, ...], changed: Changed | None, stop: Stop
) -> None:
    """Read the directories of files, so that their new files are not mistaken for uncovered old ones."""
    known = {snapshot.root}
    before = last if last is not None and last.root == snapshot.root and last.git else TreeSnapshot(snapshot.root, 0)
    known.update(before.listings)
    for path in snapshot.files.keys() - before.files.keys():
        above = path.rpartition(b"/")[0]
        while above not in known and len(above) > len(snapshot.root):
            known.add(above)
            above = above.rpartition(b"/")[0]
    strays: list[bytes] = []
    for directory in known:
        stop.check()
        if (listing := _listing(directory, last, snapshot.started, changed)) is not None:
            snapshot.listings[directory] = listing
            strays += [_join(directory, name) for name in listing.below]
    count = 0
    while strays and count < _MAX_STRAYS:  # empty directories, or without covered files
        path = strays.pop()
        if path in snapshot.listings or path.endswith(b"/.git") or _join(path, b"").startswith(skip):
            continue
        count += 1
        if (listing := _listing(path, last, snapshot.started, changed)) is not None:
            snapshot.listings[path] = listing
            if listing.names == listing.below:
                strays += [_join(path, name) for name in listing.below]


def _join(directory: bytes, name: bytes) -> bytes:
    return directory + name if directory.endswith(b"/") else directory + b"/" + name
