"""Repair of a damaged session: every intact entry is kept, with a mark where others are lost.

A line with a single flipped bit is restored exactly: its id proves it. Otherwise the remaining entries follow a
`repaired` entry, so they are chained anew and get other ids. Entries that refer to them, also in other agents' logs,
are updated.
"""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from sagent.errors import SessionCorrupt, SessionNotFound
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_str
from sagent.lib.text import count
from sagent.messages import user
from sagent.plugins.audit.segment import REST
from sagent.plugins.audit.signature import SIGNATURE
from sagent.session.blobs import link, sync_path
from sagent.session.contents import Compacted, Content, Forked, MessageEntry, Opened, Repaired, Returned, StoredMessage
from sagent.session.entries import Entry, parse_line, read_body, seal, seal_again
from sagent.session.folds import history
from sagent.session.lock import Lock
from sagent.session.log import make_directory, read_log
from sagent.session.names import agent_of, log_file
from sagent.session.place import find_children, has_entries
from sagent.session.statement import STATEMENT
from sagent.session.store import REPAIRED, is_proven, is_session, log_files, repaired
from sagent.session.view import ID, first_id, session_of

MAX_HASHED_BYTES = 8 << 30  # most bytes to hash when searching flipped bits: enough for a line of 46 kB
BURST = 64  # consecutive damaged lines; beyond that more than one bit was flipped
MAX_LINE_BYTES = 32 << 20  # of a line that is looked at at all: zeros can be in the place of a million of them
MAX_NAMED_KINDS = 100  # kinds of lost lines listed in one mark
MAX_FILLED = 10_000  # lost messages replaced by fillers, so that later ones keep their numbers

_DRAFT = "draft"  # suffix of the directory's name while logs are being written there
_LOST = "[From sagent: the log was damaged here and repaired; what was said at this point is lost.]"
_LOST_SUMMARY = "[From sagent: the log was damaged and repaired; a summary of what was said before this is lost.]"
_REFERENCES: Mapping[str, tuple[str, ...]] = {
    "message": ("received",),
    "received": ("of",),
    "sent": ("of",),
    "reserved": ("of",),
    "spent": ("reserved",),
    "advice": ("of",),
    "spawned": ("entry",),
    "returned": ("entry",),
    "forked": ("left",),
}
"""Members that refer to other entries, by kind."""
_Fillers: TypeAlias = Mapping[int, Sequence[Content]]


@dataclass(frozen=True, slots=True)
class Repair:
    """A repaired log: `kept` entries, `mended` lines among them, remaining `gaps`, `dropped` bytes. `original` is the
    original file."""

    file: Path
    kept: int
    mended: int
    gaps: int
    dropped: int
    original: Path


def repair(path: Path) -> tuple[Repair, ...]:
    """Keep the intact entries of every damaged log of a session, move the damaged files aside, and record in the logs
    what is lost.

    `path` is the session or one of its files. Raises SessionBusy, SessionNotFound and OSError. If killed, it leaves the
    logs unchanged, or a session that cannot be opened until the repair is repeated.
    """
    session = path if path.is_dir() else session_of(path)
    if not (is_session(session) and is_proven(session)):
        raise SessionNotFound(f"no session at {session}")
    with closing(Lock(session)):
        shutil.rmtree(session / f"{REPAIRED}{_DRAFT}", ignore_errors=True)  # of a repair that was killed: not whole
        done = [each for ready in repaired(session) for each in _install(session, ready)]
        ready = session / f"{REPAIRED}{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        if _rewrite(session, f".damaged-{ready.name.removeprefix(REPAIRED)}"):
            (session / f"{REPAIRED}{_DRAFT}").rename(ready)
            sync_path(session)  # from here on it is only ever finished
            done += _install(session, ready)
        return tuple(done)


def _install(session: Path, ready: Path) -> Iterator[Repair]:
    """Put every rewritten log in the place of the damaged one, which stays beside it."""
    mark = f".damaged-{ready.name.removeprefix(REPAIRED)}"
    for fresh in sorted(ready.rglob("*.jsonl")):
        file = session / fresh.relative_to(ready)
        aside = file.with_name(file.name + mark)
        link(str(file), str(aside))
        found = [entry.content for entry in read_log(fresh) if entry.kind == "repaired"]
        repairs = [each for each in found if isinstance(each, Repaired) and each.aside == aside.name]
        if any(each.is_gap for each in repairs):
            for name in (STATEMENT, SIGNATURE):  # the signed data no longer exist
                with suppress(FileNotFoundError):
                    (session / name).rename(session / f"{name}{mark}")
        fresh.replace(file)
        sync_path(file.parent)
        kept, dropped = repairs[-1].kept, sum(each.dropped_bytes for each in repairs)
        gaps = sum(each.is_gap for each in repairs)
        yield Repair(file, kept, sum(each.mended for each in repairs), gaps, dropped, aside)
    shutil.rmtree(ready)
    sync_path(session)


def _rewrite(session: Path, mark: str) -> bool:
    """Rewrite the damaged logs and those that refer to their entries; return True if there are any."""
    draft = session / f"{REPAIRED}{_DRAFT}"
    files = {agent_of(session, file): file for file in log_files(session)}
    anew: dict[str, _Copy] = {}
    named: dict[str, set[str]] = {}
    for file in files.values():
        for child, entries in find_children(file).items():
            named.setdefault(child, set()).update(entries)
    for agent in sorted(files, key=lambda agent: -agent.count("/")):  # children first: their new ids are named above
        file = files[agent]
        known = named.get(agent, set())
        known = known if first_id(file) in known else set[str]()  # else another log is in its place
        damaged = _is_damaged(file) or not has_entries(file, known)
        if not (damaged or anew):
            continue
        out = log_file(draft, agent)
        make_directory(out.parent)
        out.touch(mode=0o600)
        copy, reader = _copy(file, out, mark, anew, known)
        if not (damaged or copy.renamed):
            out.unlink()
            continue
        below = {child for child in files if child.rpartition("/")[0] == agent} if copy.may_have_named else set[str]()
        with out.open("ab") as copy.out:
            for child in sorted(below - find_children(out).keys()):
                if head := anew[child].head if child in anew else _head(files[child], child):
                    copy.add(Returned(child, head))  # what named it is lost
            copy.add(Repaired(copy.entries, reader.junk, file.name + mark, _reason(copy, reader), (), reader.mended))
        sync_path(out)
        sync_path(out.parent)
        anew[agent] = copy
    return bool(anew)


def _reason(copy: "_Copy", reader: "_Reader") -> str:
    done = [count(copy.gaps, "gap")] if copy.gaps else []
    done += [f"{count(reader.mended, 'line')} put back as written"] if reader.mended else []
    return ", ".join(done) or ("nothing is lost" if reader.junk else "it names entries of logs that were repaired")


def _head(file: Path, agent: str) -> str:
    """Return the last entry of a child's log; "" if the child did nothing, or it is no child's."""
    first = last = None
    for last in read_log(file):
        first = first or last
    content = first.content if first and first is not last else None
    return last.id if last and isinstance(content, Opened) and content.agent == agent else ""


def _is_damaged(file: Path) -> bool:
    try:
        for _ in read_log(file):
            pass
    except SessionCorrupt:
        return True
    return False


# -- what is intact ----------------------------------------------------------------------------------------------------


class _Gap(NamedTuple):
    """Lines lost at a place: their kinds, and their bytes."""

    lost: tuple[str, ...]
    size: int


_INNER = re.compile(rb'(?<=.)\{"id":"[0-9a-f]{64}","at":"', re.DOTALL)  # within an entry's text each " has a \
_SHAPE = re.compile(rb'\{"id":"([0-9a-f]{64})",.*,"kind":"(\w{1,40})","parent":"([0-9a-f]{64}|)"\}\n', re.DOTALL)


class _Reader:
    """Reads the intact parts of a log. `mended` lines were restored; `junk` is the number of bytes between consecutive
    entries."""

    def __init__(self, file: Path) -> None:
        self._file, self._left = file, MAX_HASHED_BYTES
        self._tried: dict[bytes, Entry | None] = {}
        self.mended = self.junk = 0

    def read(self) -> Iterator[Entry | _Gap]:
        """Yield each entry once, and marks of lost ones. An incomplete last line is left out."""
        self.mended = self.junk = 0
        previous, seen = "", set[str]()
        damaged: list[bytes] = []  # the first of consecutive ones
        size = 0
        for item in self._items():
            if isinstance(item, bytes):
                size += len(item)
                damaged += [item] if len(damaged) < MAX_NAMED_KINDS else []
                continue
            if item.id in seen:
                self.junk += len(item.line)
                continue
            if previous not in (item.parent, _before(item)):
                yield _Gap(_kinds(damaged, previous, item), size)
            else:
                self.junk += size
            damaged, size = [], 0
            yield item
            seen.add(item.id)
            previous = item.id
        if damaged:
            yield _Gap(_kinds(damaged, previous, None), size)

    def _items(self) -> Iterator[Entry | bytes]:
        """Yield entries, and lines that are none."""
        damaged: list[bytes] = []
        burst = False
        with self._file.open("rb") as stream:
            for line in stream:
                pieces = list(_split(line))
                self.mended += any(isinstance(piece, Entry) and piece.line != line for piece in pieces)  # its end
                for piece in pieces:
                    if not isinstance(piece, bytes):
                        yield from self._mend(damaged)
                        damaged, burst = [], False
                        yield piece
                    elif burst or len(damaged) == BURST:
                        yield from (*damaged, piece)
                        damaged, burst = [], True
                    else:
                        damaged.append(piece)
        yield from self._mend(damaged)

    def _mend(self, damaged: Sequence[bytes]) -> Iterator[Entry | bytes]:
        whole = self._restore(b"".join(damaged)) if len(damaged) == 2 else None  # a flipped bit may end a line
        for item in damaged if whole is None else (whole,):
            found = self._restore(item) if isinstance(item, bytes) else item
            self.mended += found is not None
            yield item if found is None else found

    def _restore(self, line: bytes) -> Entry | None:
        """Return the entry of a line with one flipped bit, proved by its id."""
        if len(line) > MAX_LINE_BYTES:
            return None
        if line in self._tried:
            return self._tried[line]
        self._tried[line] = found = self._search(line)
        return found

    def _search(self, line: bytes) -> Entry | None:
        head, rest = line[:REST], line[REST:-1]
        right = b'{"id":"%b",' % hashlib.sha256(b"{" + rest).hexdigest().encode()
        if sum((one ^ other).bit_count() for one, other in zip(head, right, strict=False)) <= 1:
            return _entry(right + rest + b"\n")
        wanted = head[ID].decode("ascii", "replace")
        if head != b'{"id":"%b",' % wanted.encode() or 4 * len(rest) ** 2 > self._left:
            return None
        self._left -= 4 * len(rest) ** 2
        text, before = bytearray(rest), hashlib.sha256(b"{")
        for place, byte in enumerate(rest):
            for bit in range(8):
                text[place] = byte ^ 1 << bit
                found = before.copy()
                found.update(memoryview(text)[place:])
                if found.hexdigest() == wanted:
                    return _entry(head + text + b"\n")
            text[place] = byte
            before.update(rest[place : place + 1])
        return None


def _split(line: bytes) -> Iterator[Entry | bytes]:
    """Yield the entry of a line, whatever its end, or several if line ends are lost; anything else unchanged."""
    if (whole := _entry(line) or _entry(line.removesuffix(b"\r\n") + b"\n")) is not None:
        yield whole
        return
    cuts = [0, *(found.start() for found in _INNER.finditer(line)), len(line)]
    for start, stop in pairwise(cuts):
        piece = line[start:stop]
        if stop == len(line):
            found = _entry(piece)
        else:
            found = _entry(piece[:-1] + b"\n") or _entry(piece + b"\n")
            piece = piece[:-1] + b"\n"
        if found or piece.endswith(b"\n"):
            yield found or piece


def _entry(line: bytes) -> Entry | None:
    try:
        return parse_line(line)
    except ValueError:
        return None


def _before(entry: Entry) -> str:
    """Return the id of the line before."""
    content = entry.content if entry.kind == "forked" else None
    return content.left if isinstance(content, Forked) else entry.parent


def _kinds(damaged: Sequence[bytes], previous: str, following: Entry | None) -> tuple[str, ...]:
    """Return the kinds of lost lines, if they are readable and nothing is missing between them."""
    kinds: list[str] = []
    for line in damaged[:MAX_NAMED_KINDS]:
        shape = _SHAPE.fullmatch(line)
        if shape is None or shape[3].decode() != previous:
            kinds.append("?")
        if shape is not None:
            kinds.append(shape[2].decode("ascii", "replace"))
        previous = shape[1].decode() if shape else "?"
    if following is not None and _before(following) != previous and kinds[-1:] != ["?"]:
        kinds.append("?")
    return tuple(kinds)


# -- the log anew ------------------------------------------------------------------------------------------------------


class _Count(NamedTuple):
    """Message count after a gap: the gap's number from 0, the id of its mark, and the messages to assume in it by
    default."""

    gap: int
    mark: str
    usual: int
    messages: int = 0


class _Copy:
    """A log being rewritten. `fillers` are the messages inserted at its gaps, by gap number from 0, so that later
    entries, which count messages, keep their meaning. `counting` has the message counts of the first entries after
    gaps, by id."""

    def __init__(self, out: BinaryIO, original: str, others: "Mapping[str, _Copy]", fillers: _Fillers) -> None:
        self.out, self._aside, self._others, self._fillers = out, original, others, fillers
        self._ids: dict[str, str] = {}
        self._gap = self._first = self.head = ""
        self.entries = self.gaps = 0
        self.renamed = self.may_have_named = False  # for entries after gaps; for children in lost lines
        self._open: _Count | None = None
        self.counting: dict[str, _Count] = {}

    def write(self, item: Entry | _Gap) -> None:
        """Append the next entry or gap of the damaged log."""
        if isinstance(item, _Gap):
            self._leave(item)
            return
        body = self._said(item)
        parent = self._ids.get(item.parent) or self._gap or self.head if item.kind == "forked" else self.head
        same = body is None and parent == item.parent
        fresh = item if same else seal_again(parent, item, body)
        self.renamed |= not same
        if self._open is not None and item.kind == "compacted" and (messages := _messages_before(item)):
            self.counting[fresh.id] = self._open._replace(messages=messages)
            self._open = None
        self._ids[item.id] = fresh.id
        self.entries += 1
        self._put(fresh)

    def has(self, names: set[str]) -> bool:
        """Return True if there were entries with these ids."""
        return names <= self._ids.keys()

    def add(self, content: Content) -> None:
        """Append a new entry."""
        self._put(seal(self.head, content))

    def _leave(self, gap: _Gap) -> None:
        lines = f"{count(len(gap.lost), 'line')} or more" if "?" in gap.lost else count(len(gap.lost), "line")
        self.add(Repaired(self.entries, gap.size, self._aside, f"damaged: {lines} lost here", gap.lost))
        usual = int(bool({"?", "message"} & set(gap.lost)))
        self._open = _Count(self.gaps, self.head, usual)
        for filler in self._fillers.get(self.gaps, (_said_lost(),) * usual):
            self.add(filler)
        self._gap = self.head  # entries after a lost one continue from here
        self.gaps += 1
        self.may_have_named |= bool({"?", "spawned", "returned"} & set(gap.lost))

    def _put(self, entry: Entry) -> None:
        self.out.write(entry.line)
        self._first, self.head = self._first or entry.id, entry.id

    def _said(self, entry: Entry) -> Mapping[str, object] | None:
        """Return the body with new ids in place of changed ones; None if none changed."""
        names = _REFERENCES.get(entry.kind, ()) if self.renamed or self._gap or self._others else ()
        try:
            body = read_body(entry) if names else EMPTY
        except SessionCorrupt:
            return None
        changed: dict[str, object] = {}
        for name in names:
            old = as_str(body.get(name))
            match entry.kind:
                case "forked":
                    new = self.head
                case "spawned" | "returned":
                    new = self._elsewhere(as_str(body.get("agent")), old, entry.kind)
                case _:
                    new = self._ids.get(old, old)
            if new != old:
                changed[name] = new
        return {**body, **changed} if changed else None

    def _elsewhere(self, agent: str, name: str, kind: str) -> str:
        """Return the present id of an entry in another log; of a lost one, its replacement's."""
        other = self._others.get(agent)
        if other is None:
            return name
        lost = other._first if kind == "spawned" else other._gap  # noqa: SLF001 -- of its own class
        return other._ids.get(name) or (lost if other._gap else name)  # noqa: SLF001


def _messages_before(entry: Entry) -> int:
    """Count the messages at a compaction, which always keeps the last one."""
    try:
        compacted = entry.content
    except SessionCorrupt:
        return 0
    if isinstance(compacted, Compacted) and compacted.summary is not None and compacted.kept:
        return max(compacted.kept) + 1
    return 0


def _said_lost() -> Content:
    return MessageEntry(StoredMessage.of(user(_LOST, sender="sagent"), None))


def _copy(file: Path, out: Path, mark: str, others: Mapping[str, _Copy], named: set[str]) -> tuple[_Copy, _Reader]:
    """Rewrite the intact parts of a log, with the ids of entries that others have `named`."""
    reader, fillers = _Reader(file), dict[int, Sequence[Content]]()
    while True:
        with out.open("wb") as stream:
            copy = _Copy(stream, file.name + mark, others, fillers)
            for item in reader.read():
                copy.write(item)
            if not copy.gaps and not copy.has(named):  # its end is lost
                copy.write(_Gap(("?",), len(file.read_bytes().rpartition(b"\n")[2])))
        if not _fit(out, copy, fillers):
            return copy, reader


def _fit(out: Path, copy: _Copy, fillers: dict[int, Sequence[Content]]) -> bool:
    """Determine the fillers of gaps so that later entries refer to the same messages; return True if they changed."""
    for entry, (number, mark, usual, messages) in copy.counting.items():
        if number in fillers:
            continue
        lost = messages - _count_messages(out, entry) + usual
        if lost > MAX_FILLED:  # the summary after them is kept, but not which messages stayed
            fillers[number] = (_said_lost(),)
        elif lost >= 0:
            fillers[number] = (_said_lost(),) * lost
        else:  # not messages are lost, but what took the place of many
            before = _count_messages(out, mark)
            kept = tuple(range(min(1 - lost, before), before))
            fillers[number] = (Compacted((), 0, 0, "damaged", kept, (0, _LOST_SUMMARY)),)
        if lost != usual:
            return True
    return False


def _count_messages(file: Path, before: str) -> int:
    """Count the messages of the conversation before an entry."""
    try:
        return len(history(takewhile(lambda entry: entry.id != before, read_log(file)), lambda _: b""))
    except SessionCorrupt:
        return 0
