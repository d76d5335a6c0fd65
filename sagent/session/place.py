"""Byte ranges of log files, and a search for entries in them without parsing the rest."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sagent.errors import SagentError
from sagent.session.contents import Returned, Spawned
from sagent.session.entries import parse_line
from sagent.session.view import ID

_CHILD = re.compile(rb',"kind":"(?:spawned|returned)","parent":"')


class Place(NamedTuple):
    """A file, or a part of one. `start` and `size` are in bytes."""

    path: Path
    start: int
    size: int

    def pieces(self, size: int = 1 << 20) -> Iterator[bytes]:
        """Yield the place's bytes. Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            left = self.size
            while left and (piece := file.read(min(size, left))):
                left -= len(piece)
                yield piece

    def read(self) -> bytes:
        """Return all its bytes. Raises OSError."""
        return b"".join(self.pieces())

    def sha256(self) -> str:
        """Return the sha256 of all of it, as hex digits. Raises OSError."""
        found = hashlib.sha256()
        for piece in self.pieces():
            found.update(piece)
        return found.hexdigest()


def find_ids(place: Place, ids: set[str], stop: str = "") -> set[str]:
    """Return the ids among `ids` that a log's entries have, up to the entry `stop`. Raises OSError."""
    names, last = {name.encode() for name in ids}, stop.encode()
    found: set[bytes] = set()
    with place.path.open("rb", buffering=1 << 18) as file:
        file.seek(place.start)
        for line in lines_of(file, place.size):
            if (name := line[ID]) in names:
                found.add(name)
            if len(found) == len(names) or name == last:
                break
    return {name.decode() for name in found}


def find_children(log: Path) -> dict[str, set[str]]:
    """Return the agents that a log has started or taken an answer from, with the entries of their logs that it names.
    Entries that do not follow the line before them are ignored. Raises OSError."""
    found: dict[str, set[str]] = {}
    with log.open("rb", buffering=1 << 18) as file:
        before = b""
        for line in file:
            if _CHILD.search(line, max(0, len(line) - 110)):
                with suppress(ValueError, SagentError):  # of a damaged line whoever reads it says so
                    entry = parse_line(line)
                    content = entry.content
                    if entry.parent.encode() == before and isinstance(content, Spawned | Returned):
                        found.setdefault(content.agent, set()).add(content.entry)
            before = line[ID]
    return found


def has_entries(log: Path, names: set[str]) -> bool:
    """Return True if a log has entries of all these ids, undamaged. Raises OSError."""
    left = {name.encode() for name in names}
    with log.open("rb", buffering=1 << 18) as file:
        for line in file:
            if line[ID] in left:
                with suppress(ValueError):
                    left.discard(parse_line(line).id.encode())
            if not left:
                break
    return not left


def lines_of(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the lines in a number of bytes of a file; the last one may be cut."""
    while size > 0 and (line := file.readline(size)):
        size -= len(line)
        yield line
