"""Glances at sessions, by the two ends of their logs."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.session.entries import Entry
from sagent.session.folds import origin, readable, title, title_source
from sagent.session.store import log_files, sessions

HEAD_BYTES = 1 << 18  # bytes of a log's beginning in which its prompt is looked for
TAIL_BYTES = 1 << 16  # bytes of its end in which its last entry is


@dataclass(frozen=True, slots=True)
class Glance:
    """A session by the two ends of its root's log, unverified. `last` is UTC, ISO 8601; `used` in seconds since
    the epoch, by the files' times; `size` in bytes, all files included."""

    path: Path
    used: float
    size: int
    cwd: str = ""
    title: str = ""
    last: str = ""

    @property
    def id(self) -> str:
        return self.path.name


def glances(state: Path, cwd: Path | None = None) -> list[Glance]:
    """List sessions, last used first. Reads two pieces of each session's root log; unreadable ones are left out."""
    found: list[Glance] = []
    room = bytearray(HEAD_BYTES + TAIL_BYTES)  # allocated once: a new one takes longer than reading
    for path in sessions(state, cwd):
        try:
            found.append(glance(path, room))
        except OSError:
            continue  # deleted just now, or not ours to read
    return sorted(found, key=lambda each: (each.used, each.id), reverse=True)


def glance(path: Path, room: bytearray | None = None) -> Glance:
    """One session. Raises OSError."""
    root = path / "root.jsonl"
    first, last = _ends(root, room or bytearray(HEAD_BYTES + TAIL_BYTES))
    labels = [entry for entry in last if entry.kind == "label"]
    return Glance(
        path=path,
        used=max(file.stat().st_mtime for file in log_files(path)),
        size=size_of(path),
        cwd=origin(first).cwd,
        title=title([*first, *labels]),
        last=max((entry.at for entry in (*first, *last)), default=""),
    )


def _ends(file: Path, room: bytearray) -> tuple[list[Entry], list[Entry]]:
    """Read a log's descriptive entries from its start and end; damaged ones are skipped."""
    with file.open("rb", buffering=0) as stream, memoryview(room) as view:
        head = stream.readinto(view[:HEAD_BYTES]) or 0
        size = os.fstat(stream.fileno()).st_size
        end = head
        if size > head:
            stream.seek(max(head, size - TAIL_BYTES))
            end += stream.readinto(view[head : head + TAIL_BYTES]) or 0
    first = [*_opening(room, head), *readable(_labels(room, 0, head))]
    later = _lines(room, head, end) if end > head else _lines(room, 0, end)
    return first, [*readable(_labels(room, head, end)), *islice(readable(later), 1)]


def _opening(room: bytearray, end: int) -> Iterator[Entry]:
    """Yield the first entries, up to the first request."""
    start = 0
    while (stop := room.find(b"\n", start, end) + 1) > 0:
        for entry in readable([bytes(room[start:stop])]):
            yield entry
            if entry.kind == "message" and title_source([entry]):
                return
        start = stop


def _lines(room: bytearray, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines, last one first."""
    stop = room.rfind(b"\n", start, end) + 1
    while stop > start:
        begin = max(room.rfind(b"\n", start, stop - 1) + 1, start)
        yield bytes(room[begin:stop])
        stop = begin


_LABEL = b',"kind":"label","parent":"'


def _labels(room: bytearray, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines that may give it a name."""
    while (found := room.find(_LABEL, start, end)) >= 0:
        stop = room.find(b"\n", found, end) + 1 or end
        yield bytes(room[max(room.rfind(b"\n", start, found) + 1, start) : stop])
        start = stop


def size_of(directory: Path) -> int:
    """Return the bytes of all files below a directory, hard-linked ones once. Symlinks are not followed."""
    size, seen = 0, set[int]()
    for above, _, names in os.walk(directory):
        for name in names:
            try:
                found = os.lstat(os.path.join(above, name))  # noqa: PTH118 -- of very many
            except FileNotFoundError:
                continue
            if found.st_nlink == 1 or found.st_ino not in seen:
                size += found.st_size
                seen.update([found.st_ino] if found.st_nlink > 1 else ())
    return size
