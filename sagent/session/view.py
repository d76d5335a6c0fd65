"""The entries of a log, read from its file on demand, so that a log of a million entries needs little memory.

Memory only holds each entry's end and kind: a dozen bytes each.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.session.entries import Entry, parse_line

ID = slice(len(b'{"id":"'), len(b'{"id":"') + 64)
"""Position of the id in a line."""


def first_id(file: Path) -> str:
    """Return the id of a log's first entry, "" if it is empty. Raises OSError."""
    with file.open("rb") as stream:
        return stream.readline()[ID].decode("ascii", "replace")


class LogView(ABC):
    """The entries that a log had when the view was made, in the order written, including those of abandoned branches.
    They can be iterated repeatedly. Iterating raises OSError, and SessionCorrupt for a changed line."""

    def __iter__(self) -> Iterator[Entry]:
        return self.of()

    @abstractmethod
    def of(self, *kinds: str) -> Iterator[Entry]:
        """Yield the entries of some kinds; all if none is given."""

    @abstractmethod
    def branch(self, *kinds: str) -> Iterator[Entry]:
        """Yield the entries of some kinds, without those of abandoned branches."""

    @abstractmethod
    def latest(self, *kinds: str) -> Iterator[Entry]:
        """Yield the entries of some kinds, or all, last one first."""


class MemoryLogView(LogView):
    """Entries that are in memory."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def of(self, *kinds: str) -> Iterator[Entry]:
        return (entry for entry in self._entries if not kinds or entry.kind in kinds)

    def branch(self, *kinds: str) -> Iterator[Entry]:
        return (entry for entry in branch(self._entries) if not kinds or entry.kind in kinds)

    def latest(self, *kinds: str) -> Iterator[Entry]:
        return (entry for entry in reversed(self._entries) if not kinds or entry.kind in kinds)


class Index:
    """Index of a file's entries: their ends, their kinds, and the entries that continue an earlier one."""

    def __init__(self) -> None:
        self._ends = array("Q")
        self._kinds = array("I")
        self._names: dict[str, int] = {}
        self._forks: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def size(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def forks(self) -> Sequence[tuple[int, str]]:
        """The entries that continue an earlier one: their numbers, from 0, and that one's id."""
        return self._forks

    def add(self, size: int, parent: str, kind: str) -> None:
        """Add an entry of a size in bytes after the last one."""
        if kind == "forked":
            self._forks.append((len(self._ends), parent))
        self._kinds.append(self._names.setdefault(kind, len(self._names)))
        self._ends.append(self.size + size)

    def cut(self, size: int) -> None:
        """Forget all entries after a position in bytes."""
        while self.size > size:
            self._ends.pop()
        del self._kinds[len(self._ends) :]
        while self._forks and self._forks[-1][0] >= len(self._ends):
            self._forks.pop()

    def place(self, number: int) -> tuple[int, int]:
        """Return an entry's position and size, in bytes."""
        start = self._ends[number - 1] if number else 0
        return start, self._ends[number] - start

    def choose(self, numbers: Iterable[int], kinds: Sequence[str]) -> Iterator[int]:
        """Return those of some entries that are of some kinds."""
        wanted, found = {self._names[kind] for kind in kinds if kind in self._names}, self._kinds
        return (number for number in (numbers if wanted or not kinds else ()) if not kinds or found[number] in wanted)


class FileLogView(LogView):
    """Entries in a file; each is verified again when it is read."""

    def __init__(self, file: Path, index: Index) -> None:
        self.file = file
        self._index = index
        self.count = len(index)  # later entries are not included
        self._taken_up: dict[str, int] = {}  # numbers of entries that forks continue

    def of(self, *kinds: str) -> Iterator[Entry]:
        return self._read(self._index.choose(range(self.count), kinds))

    def branch(self, *kinds: str) -> Iterator[Entry]:
        for segment in self._ranges():
            yield from self._read(self._index.choose(segment, kinds))

    def latest(self, *kinds: str) -> Iterator[Entry]:
        return self._read(self._index.choose(range(self.count - 1, -1, -1), kinds))

    def _read(self, numbers: Iterable[int]) -> Iterator[Entry]:
        here = -1
        with self.file.open("rb", buffering=1 << 16) as stream:
            for number in numbers:
                start, size = self._index.place(number)
                if start != here:
                    stream.seek(start)
                here = start + size
                try:
                    yield parse_line(stream.read(size))
                except ValueError as error:
                    raise damaged(self.file, number + 1, str(error)) from error

    def _ranges(self) -> list[range]:
        """Return the numbers of the entries of the last branch."""
        found: list[range] = []
        stop = self.count
        for fork, parent in reversed(self._index.forks):
            if fork < stop:
                found.append(range(fork, stop))
                stop = self._number(parent) + 1
        found.append(range(stop))
        return found[::-1]

    def _number(self, taken_up: str) -> int:
        """Return the number of an entry that a fork continues; its id is read from the file once."""
        if taken_up not in self._taken_up:
            wanted = {parent.encode(): parent for _, parent in self._index.forks}
            with self.file.open("rb", buffering=1 << 18) as stream:
                for number, line in enumerate(stream):
                    if (name := wanted.get(line[ID])) is not None:
                        self._taken_up[name] = number
        return self._taken_up[taken_up]


def branch(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries from the first to the last one, without abandoned branches."""
    every = tuple(entries)
    by_id = {entry.id: entry for entry in every}
    path: list[Entry] = []
    entry = every[-1] if every else None
    while entry is not None:
        path.append(entry)
        entry = by_id.get(entry.parent)
    return tuple(reversed(path))


def session_of(file: Path) -> Path:
    """Return the session directory of a log's file, also of a child's."""
    found = file.parent
    for directory in file.parents:
        inside = directory == file.parent or directory / "root" in file.parents
        if inside and (directory / "root.jsonl").exists():
            found = directory  # the outermost: a child may be called root too
    return found


def damaged(file: Path, number: int, reason: str) -> SessionCorrupt:
    """Return the error for a damaged line, counted from 1."""
    session = session_of(file)
    return SessionCorrupt(
        f"{file}, line {number}: {reason}. `sagent sessions repair {session}` keeps every entry that is intact, "
        "and the damaged file next to them."
    )
