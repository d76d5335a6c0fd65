"""Log of an agent, entry by entry: on disk, or in memory if nothing is to be saved."""

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from sagent.errors import SessionCorrupt
from sagent.lib.regular import read_regular, special_kind
from sagent.session.blobs import BlobDirectory, sync_path
from sagent.session.contents import Content, Forked
from sagent.session.entries import Entry, parse_line, scan_line, seal
from sagent.session.names import log_file, new_session_id
from sagent.session.view import FileLogView, Index, LogView, MemoryLogView, branch, damaged

if TYPE_CHECKING:
    from sagent.session.place import Place

_L = TypeVar("_L")
_HEX = frozenset(b"0123456789abcdef")


class Log(Protocol):
    """Log of one agent. Append from one thread; `sync` may run in another. An appended entry survives the end of this
    process, and after `sync` also that of the machine."""

    @property
    def session_id(self) -> str: ...  # shared by all agents of a tree

    @property
    def path(self) -> str: ...  # the session's directory; "" if it is not saved

    @property
    def agent(self) -> str: ...  # path of its agent: "root", "root/review"

    @property
    def head(self) -> str: ...  # the id of the last entry, "" before the first; it vouches for every entry before it

    @property
    def blobs(self) -> BlobDirectory: ...  # the session's large payloads

    def append(self, content: Content) -> Entry:
        """Add an entry after the last one. Raises OSError if it could not be written; then the log does not contain it
        and can still be used. Raises ValueError or TypeError for values that JSON cannot express."""
        ...

    def fork(self, at: str) -> Entry:
        """Continue from an earlier entry, which the next one follows. Raises ValueError if there is no such entry."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Return all entries in the order written, including those of abandoned branches. Raises SessionCorrupt."""
        ...

    def contents(self) -> LogView:
        """Return a view of the entries, all or those of some kinds, that can be read repeatedly."""
        ...

    def child(self, agent: str) -> "Log":
        """Return another agent's log, always as the same object. Raises ValueError for an impossible path."""
        ...

    def sync(self) -> None:
        """Write everything to the disk. Raises OSError."""

    def close(self) -> None:
        """Close the log. Its entries remain."""


class _Chain(ABC):
    """Base of logs: their owner, and the rule that each entry follows an earlier one."""

    session_id: str
    path: str
    agent: str
    blobs: BlobDirectory

    def __init__(self, session_id: str, path: str, agent: str, blobs: BlobDirectory) -> None:
        self.session_id, self.path, self.agent, self.blobs = session_id, path, agent, blobs

    @property
    @abstractmethod
    def head(self) -> str: ...

    def append(self, content: Content) -> Entry:
        return self._write(self.head, content)

    def fork(self, at: str) -> Entry:
        if not any(entry.id == at for entry in self.entries()):
            raise ValueError(f"no entry {at!r} in this log")
        return self._write(at, Forked(self.head))

    @abstractmethod
    def entries(self) -> Iterator[Entry]: ...

    @abstractmethod
    def _write(self, parent: str, content: Content) -> Entry: ...


class Family(dict[str, _L]):
    """The open logs of one session by agent. After each append, `follow` is called with the agent and the entry, in the
    appending thread. `latest` is the time of the last entry in any log: the next gets a later one, so that times show
    the order across agents."""

    follow: Callable[[str, Entry], None] | None = None
    latest = ""


class FileLog(_Chain):
    """A log in a file, verified from end to end when it is opened.

    An incomplete last line, left by a killed process, is cut off: it was never acknowledged. `torn` is the number of
    its bytes. Raises OSError, and SessionCorrupt for a changed line. The session's lock must be held to open one.
    """

    file: Path

    def __init__(
        self, session: Path, agent: str = "root", *, blobs: BlobDirectory, family: "Family[FileLog] | None" = None
    ) -> None:
        super().__init__(session.name, str(session), agent, blobs)
        self._session = session
        self._family: Family[FileLog] = Family() if family is None else family
        self.file = log_file(session, agent)
        if agent != "root":
            log_file(session, "root").stat()  # a child must not recreate a deleted session
        make_directory(self.file.parent)
        self._unsynced_name = not _is_there(self.file)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self.file, flags, 0o600)
        self._owner = os.getpid()
        self._ragged = False  # a failed append left bytes that could not be cut off yet
        self.failed = False  # an append has failed, since when nothing may have been logged
        self._index = Index()
        self._end: tuple[str, int] = ("", 0)  # head and size, changed together
        try:
            self.torn = self._verify()
        except BaseException:
            self.close()
            raise
        self._family[agent] = self

    @property
    def head(self) -> str:
        return self._end[0]

    def entries(self) -> Iterator[Entry]:
        return read_log(self.file)

    def contents(self) -> LogView:
        return FileLogView(self.file, self._index)

    def child(self, agent: str) -> "FileLog":
        return self._family.get(agent) or FileLog(self._session, agent, blobs=self.blobs, family=self._family)

    def sync(self) -> None:
        """Sync blobs first, so that no entry on disk names a missing one."""
        self.blobs.sync()
        os.fsync(self._fd)
        if self._unsynced_name:
            for directory in (self.file.parent, self._session, self._session.parent):
                sync_path(directory)
            self._unsynced_name = False

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._family.pop(self.agent, None)
            os.close(fd)

    def _write(self, parent: str, content: Content) -> Entry:
        entry = seal(parent, content, self._family.latest)
        if os.fstat(self._fd).st_nlink == 0:  # the file was deleted: new entries would be lost
            raise FileNotFoundError(errno.ENOENT, "it was deleted while it was in use", str(self.file))
        if os.getpid() != self._owner:
            raise PermissionError(
                errno.EPERM, "this process was forked, and the one before it writes here", str(self.file)
            )
        if self._ragged:
            self._cut()
        try:
            rest = memoryview(entry.line)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            self._index.add(len(entry.line), parent, entry.kind)
            self._end = (entry.id, self._index.size)
            self._family.latest = entry.at
        except BaseException:  # an interrupt between the write and the lines after it too
            self._ragged = self.failed = True
            with suppress(OSError):
                self._cut()
            raise
        if self._family.follow is not None:
            self._family.follow(self.agent, entry)
        return entry

    def _cut(self) -> None:
        self._index.cut(self._end[1])
        os.ftruncate(self._fd, self._end[1])
        self._ragged = False

    def _verify(self) -> int:
        if last := _fill(self._index, self.file):
            entry = parse_line(last)
            self._end = (entry.id, self._index.size)
            self._family.latest = max(self._family.latest, entry.at)
        torn = os.fstat(self._fd).st_size - self._index.size
        if torn:
            self._cut()
        return torn


class MemoryLog(_Chain):
    """A log that ends with its process. Its blobs go to a private temporary directory."""

    def __init__(
        self,
        agent: str = "root",
        *,
        session_id: str = "",
        blobs: BlobDirectory | None = None,
        family: "Family[MemoryLog] | None" = None,
    ) -> None:
        super().__init__(session_id or new_session_id(), "", agent, blobs or BlobDirectory())
        self._owns_blobs = blobs is None
        self._entries: list[Entry] = []
        self._family: Family[MemoryLog] = Family() if family is None else family
        self._family[agent] = self

    @property
    def head(self) -> str:
        return self._entries[-1].id if self._entries else ""

    def entries(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    def contents(self) -> LogView:
        return MemoryLogView(tuple(self._entries))

    def child(self, agent: str) -> "MemoryLog":
        log_file(Path(), agent)
        if agent in self._family:
            return self._family[agent]
        return MemoryLog(agent, session_id=self.session_id, blobs=self.blobs, family=self._family)

    def sync(self) -> None:
        """Do nothing: memory needs no sync."""

    def close(self) -> None:
        """Closing the root's log removes the blobs; the entries can still be read."""
        if self._owns_blobs:
            self.blobs.close()

    def _write(self, parent: str, content: Content) -> Entry:
        entry = seal(parent, content, self._family.latest)
        self._entries.append(entry)
        self._family.latest = entry.at
        return entry


def read_agent(log: Log, agent: str) -> Iterable[Entry]:
    """Return the log of an agent in the same session, also an ended one; empty if it has none."""
    if agent == log.agent:
        return log.entries()
    if not log.path:
        return log.child(agent).entries()
    file = log_file(Path(log.path), agent)
    return read_log(file) if _is_there(file) else ()


def read_log(file: Path) -> Iterator[Entry]:
    """Return the entries of a log's file; needs no lock. An incomplete last line is skipped.

    Each entry is verified before it is returned: its content matches its id, and it follows from the entry before.
    Raises SessionCorrupt and OSError.
    """
    return (parse_line(line, (entry_id, parent, kind)) for line, entry_id, parent, kind in _scan(file))


def read_lines(file: Path) -> Iterator[bytes]:
    """Return the lines of a log's file, as they are."""
    return (line for line, _, _, _ in _scan(file))


def read_end(file: Path, size: int = 1 << 20) -> Sequence[Entry]:
    """Return the entries in the last bytes of a log, without those of abandoned branches; needs no lock. Each is
    verified separately, not the chain. Raises ValueError and OSError."""
    with _open(file) as stream:
        start = max(os.fstat(stream.fileno()).st_size - size, 0)
        stream.seek(start)
        if start:
            stream.readline()
        return branch([parse_line(line) for line in stream if line.endswith(b"\n")])


def read_contents(file: Path) -> LogView:
    """Return a view of a log's file for repeated reading, of some kinds or all; all entries are verified first."""
    index = Index()
    _fill(index, file)
    return FileLogView(file, index)


def _is_there(file: Path) -> bool:
    """Return False if the file does not exist. Raises SessionCorrupt for one that is not a regular file of its own."""
    try:
        mode = os.lstat(file).st_mode
    except FileNotFoundError:
        return False
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):  # a link is refused when it is opened
        raise SessionCorrupt(f"{file} is {special_kind(mode)}, not a log: put the log back in its place.")
    return True


def _open(file: Path) -> BinaryIO:
    """Open a log for reading, without waiting. Raises OSError, and SessionCorrupt if it is no regular file."""
    opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(mode := os.fstat(opened).st_mode):
        return os.fdopen(opened, "rb", buffering=1 << 18)
    os.close(opened)
    raise SessionCorrupt(f"{file} is {special_kind(mode)}, not a log: put the log back in its place.")


def begins_log(file: Path) -> bool:
    """Return True for a file that begins as our logs do, whole or torn, or that is empty."""
    with suppress(OSError):
        start = read_regular(file, max_bytes=79, cut=True)
        is_id = b'{"id":"'.startswith(start[:7]) and _HEX.issuperset(start[7:71])
        return is_id and b'","at":"'.startswith(start[71:])
    return False


def cut_torn(file: Path) -> int:
    """Cut off the incomplete last line of a log that nobody has open; returns its bytes. Other files, and
    files that cannot be written, stay as they are."""
    import mmap

    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError, ValueError), os.fdopen(os.open(file, flags), "r+b") as log:  # one that is empty has no map
        with mmap.mmap(log.fileno(), 0, access=mmap.ACCESS_READ) as data:
            size, end = len(data), data.rfind(b"\n") + 1
        return size - log.truncate(end) if end < size and begins_log(file) else 0
    return 0


def make_directory(directory: Path) -> list[Path]:
    """Create a directory and its parents, for this user alone; return those that were missing, the innermost first.
    None of them stays if one cannot be created."""
    made: list[Path] = []
    try:
        for each in (*reversed(directory.parents), directory):
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)
                made.insert(0, each)
    except OSError:
        with suppress(OSError):
            for each in made:
                each.rmdir()
        raise
    return made


def _fill(index: Index, file: Path) -> bytes:
    """Verify a log and index its entries; return the last line."""
    line = b""
    for line, _, parent, kind in _scan(file):
        index.add(len(line), parent, kind)
    return line


def _scan(file: Path) -> Iterator[tuple[bytes, str, str, str]]:
    """Yield the lines that a log has now, verified, each with its id, parent and kind."""
    previous, place = "", 0
    forks: _Forks | None = None  # a log without forks keeps no ids
    with _open(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        for number, line in enumerate(stream, 1):
            if place + len(line) > size or not line.endswith(b"\n"):
                return
            try:
                entry_id, parent, kind = scan_line(line)
                if parent != previous:
                    forks = forks or _Forks(file, place, size)
                    forks.check(parse_line(line), previous)
            except (ValueError, SessionCorrupt) as error:
                raise damaged(file, number, str(error)) from error
            if forks is not None:
                forks.see(entry_id)
            place += len(line)
            previous = entry_id
            yield line, entry_id, parent, kind


class _Forks:
    """The entries of a log that forks can continue, from a place on."""

    def __init__(self, file: Path, place: int, size: int) -> None:
        from sagent.session.place import Place, find_ids  # few logs have any

        self._wanted = _taken_up(Place(file, place, size - place))
        self._seen = find_ids(Place(file, 0, place), self._wanted)

    def see(self, entry_id: str) -> None:
        """Record an entry that a fork may continue."""
        if entry_id in self._wanted:
            self._seen.add(entry_id)

    def check(self, entry: Entry, previous: str) -> None:
        """Reject an entry that continues no earlier one or misnames the previous line. Raises ValueError."""
        if entry.parent not in self._seen or entry.content != Forked(previous):
            raise ValueError("the entry does not follow from the one before: lines are missing or in disorder")


def _taken_up(place: "Place") -> set[str]:
    """Return the ids that the forks of a segment name."""
    mark = b',"kind":"forked","parent":"'
    end = len(b'"}\n')
    with place.path.open("rb", buffering=1 << 18) as stream:
        stream.seek(place.start)
        return {
            line[-64 - end : -end].decode("ascii", "replace")
            for line in stream
            if line[-64 - end - len(mark) : -64 - end] == mark
        }
