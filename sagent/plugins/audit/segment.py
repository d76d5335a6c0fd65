"""Verification of one segment of a log, with the facts that only its neighbours can check.

Segments of a log may be verified in any order and in several processes; the caller checks the seams.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str
from sagent.session.contents import (
    Forked,
    MessageEntry,
    MessagePosted,
    MessageReceived,
    Opened,
    Repaired,
    ResultEntry,
    Returned,
    Spawned,
)
from sagent.session.entries import decode
from sagent.session.place import Place, lines_of
from sagent.session.touches import Touched
from sagent.session.view import ID

SEGMENT_BYTES = 4 << 20  # bytes of a segment, up to the end of a line
MAX_PROBLEMS = 20  # reported per segment

ASTRAY = "the entry does not follow from the one before: lines are missing or in disorder"
UNKNOWN = "?"  # in place of a damaged entry's id

REST = ID.stop + len(b'",')  # start of the hashed part in a line
_BEGINNING = re.compile(rb'\{"at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z","body":\{')


@dataclass(slots=True)
class LogSegment:
    """Findings in one segment of a log. `problems` have their line number in the segment, from 1.

    `begins` is its first entry's kind, `parent` that entry's parent, `left` the previous line if it is a fork; `forks`
    are the entries continued again; `named` are references to children: entry, kind, agent, child's entry; `blobs` are
    names of blobs with the entries that name them; `spilled` are the session, blob and entry of long texts stored as
    blobs; `torn` are the bytes of an incomplete last line; `repairs` are repair entries with line and time.
    """

    parent: str = ""
    left: str | None = None
    begins: str = ""
    first: str = ""
    last: str = ""
    lines: int = 0
    torn: int = 0
    redacted: int = 0
    damaged: int = 0
    forks: list[str] = field(default_factory=list[str])
    named: list[tuple[str, str, str, str]] = field(default_factory=list[tuple[str, str, str, str]])
    blobs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    spilled: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    session: str = ""
    repairs: list[tuple[int, str, Repaired]] = field(default_factory=list[tuple[int, str, Repaired]])
    problems: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def named_blobs(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the blobs that entries of a session, which has had these names, refer to, and the entries."""
        yield from self.blobs
        yield from ((name, entry) for of, name, entry in self.spilled if of in names)


class _Line(NamedTuple):
    """Fields of a line of a log."""

    id: str
    parent: str
    at: str
    kind: str
    body: Mapping[str, object]
    own: bool  # its content matches its id


def split(place: Place, size: int = SEGMENT_BYTES) -> Iterator[Place]:
    """Yield the segments of a log, each up to the end of a line. Raises OSError."""
    start, end = place.start, place.start + place.size
    with place.path.open("rb") as file:
        while start < end:
            stop = min(start + size, end)
            if stop < end:
                file.seek(stop)
                file.readline()
                stop = min(file.tell(), end)
            yield Place(place.path, start, stop - start)
            start = stop


def check(place: Place, redacted: frozenset[str] = frozenset()) -> LogSegment:
    """Check every byte of a segment: each line's id, form, and parent.

    Entries named in `redacted` need not match their ids. Raises OSError.
    """
    from sagent.plugins.audit.canonical import parse  # slow to import

    found = LogSegment()
    previous: str | None = None  # None if unknown
    with place.path.open("rb", buffering=1 << 18) as file:
        file.seek(place.start)
        for line in lines_of(file, place.size):
            if not line.endswith(b"\n"):
                found.torn = len(line)
                break
            found.lines += 1
            try:
                read = _read(line, redacted, parse)
            except ValueError as error:
                _report(found, str(error))
                found.damaged += 1
                found.last, previous = UNKNOWN, None
                if found.lines == 1:
                    found.parent = UNKNOWN
                continue
            _follow(found, read, previous)
            found.last = previous = read.id
            found.redacted += not read.own
            if read.kind in _NOTED or b'"blob":"' in line:
                _note(found, read)
            if b"/blobs/" in line and (read.kind in ("result", "compacted") or b'"sender":"sagent' in line):
                found.spilled.extend((*name, read.id) for name in _spilled(line))
    return found


_SPILLED = re.compile(  # as it is written now, and by earlier versions
    rb"(?:[Tt]he (?:whole|full text) is|is kept|All of it is) in "
    rb'((?:[^"\\]{0,4000}?/blobs/[0-9a-f]{64}(?: and )?)+)'
)
_BLOB = re.compile(rb"([^/]+)/blobs/([0-9a-f]{64})")
_NOTED = frozenset({"opened", "spawned", "returned", "repaired"})


def _read(line: bytes, redacted: frozenset[str], parse: Callable[[bytes], object]) -> _Line:
    """Parse a line's bytes. Raises ValueError for an invalid one."""
    rest = b"{" + line[REST:-1]
    name = hashlib.sha256(rest).hexdigest()
    own = line.startswith(b'{"id":"%b",' % name.encode())
    if not own:
        name = line[ID].decode("ascii", "replace")
        if name not in redacted or not line.startswith(b'{"id":"%b",' % name.encode()):
            raise ValueError("the content does not match its id")
    said = as_object(parse(rest))
    kind, parent = as_str(said.get("kind")), as_str(said.get("parent"))
    if len(said) == 4 and _BEGINNING.match(rest) and "parent" in said and kind.isascii() and kind.isidentifier():
        return _Line(name, parent, as_str(said["at"]), kind, as_object(said.get("body")), own)
    raise ValueError("this is not the line of an entry")


def _follow(segment: LogSegment, line: _Line, previous: str | None) -> None:
    if segment.lines == 1:
        segment.begins, segment.first, segment.parent, segment.left = line.kind, line.id, line.parent, _left(line)
    elif previous is not None and line.parent != previous:
        if _left(line) == previous:
            segment.forks.append(line.parent)
        else:
            _report(segment, ASTRAY)


def _left(line: _Line) -> str | None:
    content = decode(line.kind, line.body) if line.kind == "forked" else None
    return content.left if isinstance(content, Forked) else None


def _note(segment: LogSegment, line: _Line) -> None:
    blobs: Iterable[str] = ()
    match decode(line.kind, line.body):
        case Spawned(agent, entry) | Returned(agent, entry):
            segment.named.append((line.id, line.kind, agent, entry))
        case Opened(session):
            segment.session = segment.session or session
        case Repaired() as repaired:
            segment.repairs.append((segment.lines, line.at, repaired))
        case MessageEntry(message) | MessageReceived(message) | MessagePosted(message=message):
            blobs = message.blobs
        case ResultEntry(result):
            blobs = result.blobs
        case Touched() as touched:
            blobs = touched.blobs
        case _:
            pass
    segment.blobs.extend((name, line.id) for name in blobs)


def _spilled(line: bytes) -> Iterator[tuple[str, str]]:
    """Yield session and name of blobs that a text for the model points to because it was too long."""
    for said in _SPILLED.finditer(line):
        for session, name in _BLOB.findall(said[1]):
            yield session.decode("utf-8", "replace"), name.decode()


def _report(segment: LogSegment, problem: str) -> None:
    if len(segment.problems) < MAX_PROBLEMS:
        segment.problems.append((segment.lines, problem))
