"""What an agent did, entry by entry: on disk, or in memory where nothing is to be kept."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from sagent.errors import SessionCorrupt
from sagent.session.blobs import BlobDirectory, sync_path
from sagent.session.entries import Entry, forked, parse_line, seal
from sagent.session.names import log_file, new_session_id


class Log(Protocol):
    """One agent's log. Append from one thread; `sync` may run in another.

    An entry whose append has returned is there after this process is killed, and after `sync` also when the machine is.
    """

    @property
    def session_id(self) -> str:
        """The same for all agents of a tree."""
        ...

    @property
    def path(self) -> str:
        """The session's directory; "" where nothing is kept."""
        ...

    @property
    def agent(self) -> str:
        """Whose log it is: "root", "root/review"."""
        ...

    @property
    def head(self) -> str:
        """The id of the last entry, "" before the first. It vouches for every entry before it."""
        ...

    @property
    def blobs(self) -> BlobDirectory:
        """Where the session's large payloads are."""
        ...

    def append(self, kind: str, body: Mapping[str, object]) -> Entry:
        """Add an entry after the last one. Raises OSError when it could not be written; then it is not there at all,
        and the log can go on. Raises ValueError or TypeError for what JSON cannot say."""
        ...

    def fork(self, at: str) -> Entry:
        """Go on from an earlier entry: the next ones follow from it. Raises ValueError where there is none."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Every entry, in the order written, those of abandoned branches too. Raises SessionCorrupt."""
        ...

    def child(self, agent: str) -> "Log":
        """The log of another agent of the tree; the same one each time. Raises ValueError for an impossible path."""
        ...

    def sync(self) -> None:
        """Have it all on the disk. Raises OSError."""
        ...

    def close(self) -> None:
        """End it. What was appended stays."""
        ...


class FileLog:
    """A log in a file, verified from end to end when it is opened.

    A last line without its end, as a killed process leaves it, is cut off: it was never acknowledged. `torn` says how
    many bytes that were. Raises SessionCorrupt for a line that is not what was written, and OSError. Whoever opens one
    holds the session's lock.
    """

    def __init__(
        self, session: Path, agent: str = "root", *, blobs: BlobDirectory, family: "dict[str, FileLog] | None" = None
    ) -> None:
        self._session = session
        self._agent = agent
        self._blobs = blobs
        self._family = {} if family is None else family
        self._file = log_file(session, agent)
        make_directory(self._file.parent)
        self._unsynced_name = not self._file.exists()
        self._fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._ragged = False  # a failed append left bytes that could not be cut off yet
        self._end: tuple[str, int] = ("", 0)  # head and size, changed together
        try:
            self.torn = self._verify()
        except BaseException:
            self.close()
            raise
        self._family[agent] = self

    @property
    def session_id(self) -> str:
        """The session's directory is named by it."""
        return self._session.name

    @property
    def path(self) -> str:
        """The session's directory."""
        return str(self._session)

    @property
    def agent(self) -> str:
        """Whose log it is."""
        return self._agent

    @property
    def file(self) -> Path:
        """The file of this log."""
        return self._file

    @property
    def head(self) -> str:
        """The id of the last entry."""
        return self._end[0]

    @property
    def blobs(self) -> BlobDirectory:
        """The session's, shared by all its logs."""
        return self._blobs

    def append(self, kind: str, body: Mapping[str, object]) -> Entry:
        """Write one entry with one write."""
        return self._write(self.head, kind, body)

    def fork(self, at: str) -> Entry:
        """Write an entry whose parent is an earlier one."""
        _require(at, self.entries())
        return self._write(at, "forked", forked(self.head))

    def entries(self) -> Iterator[Entry]:
        """Read the file, verifying it again."""
        return read_log(self._file)

    def child(self, agent: str) -> "FileLog":
        """The log of another agent of this session."""
        return self._family.get(agent) or FileLog(self._session, agent, blobs=self._blobs, family=self._family)

    def sync(self) -> None:
        """Blobs first, so that no entry on the disk names one that is not there."""
        self._blobs.sync()
        os.fsync(self._fd)
        if self._unsynced_name:
            for directory in (self._file.parent, self._session, self._session.parent):
                sync_path(directory)
            self._unsynced_name = False

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._family.pop(self._agent, None)
            os.close(fd)

    def _write(self, parent: str, kind: str, body: Mapping[str, object]) -> Entry:
        entry = seal(parent, kind, body)
        if self._ragged:
            self._cut()
        try:
            rest = memoryview(entry.line)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            self._end = (entry.id, self._end[1] + len(entry.line))
        except BaseException:  # an interrupt between the write and the line after it too
            self._ragged = True
            with contextlib.suppress(OSError):
                self._cut()
            raise
        return entry

    def _cut(self) -> None:
        os.ftruncate(self._fd, self._end[1])
        self._ragged = False

    def _verify(self) -> int:
        head, size = "", 0
        for entry in read_log(self._file):
            head, size = entry.id, size + len(entry.line)
        self._end = (head, size)
        torn = os.fstat(self._fd).st_size - size
        if torn:
            self._cut()
        return torn


class MemoryLog:
    """A log that ends with its process. Blobs go to a private temporary directory, if there are any."""

    def __init__(
        self,
        agent: str = "root",
        *,
        session_id: str = "",
        blobs: BlobDirectory | None = None,
        family: "dict[str, MemoryLog] | None" = None,
    ) -> None:
        self._agent = agent
        self._session_id = session_id or new_session_id()
        self._blobs = blobs or BlobDirectory()
        self._owns_blobs = blobs is None
        self._entries: list[Entry] = []
        self._family = {} if family is None else family
        self._family[agent] = self

    @property
    def session_id(self) -> str:
        """Made up; nothing can be found by it later."""
        return self._session_id

    @property
    def path(self) -> str:
        """Nowhere."""
        return ""

    @property
    def agent(self) -> str:
        """Whose log it is."""
        return self._agent

    @property
    def head(self) -> str:
        """The id of the last entry."""
        return self._entries[-1].id if self._entries else ""

    @property
    def blobs(self) -> BlobDirectory:
        """Temporary, shared by all logs of the tree."""
        return self._blobs

    def append(self, kind: str, body: Mapping[str, object]) -> Entry:
        """Keep one entry."""
        return self._keep(self.head, kind, body)

    def fork(self, at: str) -> Entry:
        """Keep an entry whose parent is an earlier one."""
        _require(at, self.entries())
        return self._keep(at, "forked", forked(self.head))

    def entries(self) -> Iterator[Entry]:
        """What was kept."""
        return iter(tuple(self._entries))

    def child(self, agent: str) -> "MemoryLog":
        """The log of another agent of this tree."""
        log_file(Path(), agent)
        if agent in self._family:
            return self._family[agent]
        return MemoryLog(agent, session_id=self._session_id, blobs=self._blobs, family=self._family)

    def sync(self) -> None:
        """There is nothing to sync."""

    def close(self) -> None:
        """The root's end is the end of the blobs; what was said can still be read."""
        if self._owns_blobs:
            self._blobs.close()

    def _keep(self, parent: str, kind: str, body: Mapping[str, object]) -> Entry:
        entry = seal(parent, kind, body)
        self._entries.append(entry)
        return entry


def read_log(file: Path) -> Iterator[Entry]:
    """The entries of a log's file; needs no lock. A last line without its end is passed over.

    Each is verified before it is given out: its content matches its id, and it follows from the entry before. Raises
    SessionCorrupt and OSError.
    """
    previous = ""
    seen: set[str] = set()
    with file.open("rb", buffering=1 << 18) as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                return
            try:
                entry = parse_line(line)
                if entry.parent != previous and not _forks(entry, previous, seen):
                    raise ValueError("the entry does not follow from the one before: lines are missing or in disorder")
            except ValueError as error:
                raise _corrupt(file, number, str(error)) from error
            seen.add(entry.id)
            previous = entry.id
            yield entry


def session_of(file: Path) -> Path:
    """The session directory in which a log's file lies, children's files included."""
    for directory in file.parents:
        if (directory / "root.jsonl").exists():
            return directory
    return file.parent


def make_directory(directory: Path) -> None:
    """Make a directory, and those above it, for this user alone."""
    if not directory.is_dir():
        make_directory(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def _forks(entry: Entry, previous: str, seen: set[str]) -> bool:
    """Whether an entry takes up an earlier one and says which line was the last before."""
    return entry.kind == "forked" and entry.parent in seen and entry.body.get("left") == previous


def _require(entry_id: str, entries: Iterable[Entry]) -> None:
    if not any(entry.id == entry_id for entry in entries):
        raise ValueError(f"no entry {entry_id!r} in this log")


def _corrupt(file: Path, number: int, reason: str) -> SessionCorrupt:
    session = session_of(file)
    return SessionCorrupt(
        f"{file}, line {number}: {reason}. `sagent sessions repair {session}` moves the file aside and keeps the "
        f"{number - 1} entries before that line."
    )
