"""Logs as a proof carries them: the entries that it needs, and of the others the ids alone.

A sealed entry keeps its place in the chain: its id, parent, time and kind, without its content. That the id belongs to
these is the signer's word; whoever has the log can open the entry.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cached_property
from typing import NamedTuple

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str, canonical_bytes, json_load, sha256_hex
from sagent.plugins.blame import APPROVED
from sagent.plugins.proofs.lines import gained, is_text, split_lines
from sagent.session.contents import Forked, MessageEntry, Opened, ResultEntry, Returned, Spawned, StoredCall, Unknown
from sagent.session.entries import Entry, parse_line
from sagent.session.folds import charges
from sagent.session.touches import Snapshot, Touched
from sagent.usage import Charge

NEEDED = frozenset({
    *("opened", "reserved", "spent", "request", "forked", "repaired", "spawned", "returned", "handoff"),
    APPROVED,
})  # fmt: skip
"""Kinds of entries that are never sealed: without them costs, models, answers and logs could be missing."""
_SEALED = b'{"at":"'
_NAME = re.compile(r"(?:logs/[A-Za-z0-9_-]{1,80}/[A-Za-z0-9_/-]{1,400}\.jsonl|blobs/[0-9a-f]{64})")


def is_evidence(name: str) -> bool:
    """Return True for the name of a log or a content in a proof."""
    return _NAME.fullmatch(name) is not None and "//" not in name


def log_name(session: str, agent: str) -> str:
    """Return the name of a log in a proof."""
    return f"logs/{session}/{agent}.jsonl"


def blob_name(sha256: str) -> str:
    """Return the name of a content in a proof."""
    return f"blobs/{sha256}"


def seal_entry(entry: Entry) -> bytes:
    """Return the line of an entry without its content."""
    members = {"at": entry.at, "id": entry.id, "kind": entry.kind, "parent": entry.parent, "sealed": True}
    return canonical_bytes(members) + b"\n"


@dataclass(slots=True)
class CarriedLog:
    """A log of a proof: the ids of all entries, those that are open, and the number of sealed ones."""

    ids: set[str] = field(default_factory=set[str])
    open: list[Entry] = field(default_factory=list[Entry])
    head: str = ""
    sealed: int = 0
    redacted: set[str] = field(default_factory=set[str])


def read_carried(data: bytes, redacted: frozenset[str]) -> CarriedLog:
    """Read a log of a proof and check its chain. Entries among `redacted` need not match their ids. Raises ValueError
    for a changed line, and for one that does not follow."""
    log = CarriedLog()
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        try:
            entry, is_sealed = _read_line(line, redacted)
            if entry.parent != log.head:
                _check_fork(entry, log, is_sealed=is_sealed)
        except (ValueError, SessionCorrupt) as error:
            raise ValueError(f"line {number}: {error}") from error
        log.ids.add(entry.id)
        log.head = entry.id
        if is_sealed:
            log.sealed += 1
        else:
            log.open.append(entry)
            log.redacted |= {entry.id} & redacted
    return log


def _check_fork(entry: Entry, log: CarriedLog, *, is_sealed: bool) -> None:
    is_fork = not is_sealed and entry.parent in log.ids and entry.content == Forked(log.head)
    if not is_fork:
        raise ValueError("the entry does not follow from the one before: lines are missing or in disorder")


def _read_line(line: bytes, redacted: frozenset[str]) -> tuple[Entry, bool]:
    """Return the entry of a line, and True if it is sealed. Raises ValueError."""
    if not line.endswith(b"\n"):
        raise ValueError("the line is cut")
    if not line.startswith(_SEALED):
        try:
            return parse_line(line), False
        except ValueError:
            return _read_redacted(line, redacted), False
    members = as_object(json_load(line))
    entry = _entry_of(members, line)
    if seal_entry(entry) != line:
        raise ValueError("this is not a sealed entry as sagent writes it")
    if entry.kind in NEEDED:
        raise ValueError(f"an entry of kind {entry.kind!r} may not be sealed")
    return entry, True


def _entry_of(members: Mapping[str, object], line: bytes) -> Entry:
    name, parent, at, kind = (as_str(members.get(member)) for member in ("id", "parent", "at", "kind"))
    return Entry(name, parent, at, kind, line)


def _read_redacted(line: bytes, redacted: frozenset[str]) -> Entry:
    """Return a redacted entry, which does not match its id. Raises ValueError."""
    members = as_object(json_load(line))
    entry = _entry_of(members, line)
    rest = canonical_bytes({name: members.get(name) for name in ("at", "body", "kind", "parent")})
    if entry.id not in redacted or line != b'{"id":"%b",%b\n' % (entry.id.encode(), rest[1:]):
        raise ValueError("the content does not match its id")
    return entry


class Written(NamedTuple):
    """A change of a file by a call: the entry with it, its time, the call, and the path in the repository."""

    entry: str
    at: str
    call: str
    path: str
    before: Snapshot
    after: Snapshot


class Ran(NamedTuple):
    """A result of a call: its entry, time, text and outcome; `command` is what a shell was given."""

    entry: str
    at: str
    command: str
    text: str
    outcome: str


@dataclass(slots=True)
class LogFacts:
    """Facts in the open entries of a log."""

    session: str
    agent: str
    roots: Sequence[str]
    entries: Sequence[Entry]
    written: list[Written] = field(default_factory=list[Written])
    ran: dict[str, Ran] = field(default_factory=dict[str, Ran])
    named: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    denied: int = 0
    allowed: set[str] = field(default_factory=set[str])
    opened: str | None = None
    original: str = ""
    _commands: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, session: str, agent: str, roots: Sequence[str], entries: Sequence[Entry]) -> "LogFacts":
        """Read the facts. Raises SessionCorrupt for an unreadable entry."""
        facts = cls(session, agent, roots, entries)
        for entry in entries:
            facts._read(entry)
        return facts

    def charges(self, known: AbstractSet[str]) -> Iterator[Charge]:
        """Yield the charges of this log, except those in known entries. A call without a known end counts in full."""
        return charges(entry for entry in self.entries if entry.id not in known)

    def _read(self, entry: Entry) -> None:
        match entry.content:
            case Touched(call=call, ended=True, files=files):
                for touch in files:
                    if (path := inside(touch.path, self.roots)) is not None:
                        self.written.append(Written(entry.id, entry.at, call, path, touch.before, touch.after))
            case Unknown(kind=kind, body=body) if kind == APPROVED:
                self.allowed.add(as_str(body.get("call")))
            case Opened(session, agent) if self.opened is None:
                self.opened, self.original = agent, session
            case MessageEntry(message):
                self._commands |= {call.id: _command(call) for call in message.calls}
            case ResultEntry(result) as content:
                self.denied += result.denied
                command = self._commands.get(result.call_id, "")
                self.ran[entry.id] = Ran(entry.id, entry.at, command, result.text, content.summary)
            case Spawned(agent, named) | Returned(agent, named):
                self.named.append((agent, named))
            case _:
                pass


def _command(call: StoredCall) -> str:
    try:
        return as_str(as_object(json_load(call.arguments)).get("command"))
    except ValueError:
        return ""


def inside(path: str, roots: Iterable[str]) -> str | None:
    """Return a path relative to the innermost of some directories; None if it is below none of them."""
    above = max((root for root in roots if path.startswith(f"{root}/")), key=len, default=None)
    relative = None if above is None else path[len(above) + 1 :]
    return relative if relative and is_plain(relative) else None


def is_plain(path: str) -> bool:
    """Return True for a relative path without `.`, `..` and empty parts, as git has them."""
    return all(part not in ("", ".", "..") for part in path.split("/"))


class Source:
    """A change of a file by a call, with both contents; `contents` has them by session and sha256."""

    def __init__(
        self, session: str, agent: str, written: Written, contents: Callable[[str, str], bytes | None]
    ) -> None:
        self.session, self.agent, self.written = session, agent, written
        self._contents = contents

    @cached_property
    def added(self) -> Counter[bytes]:
        """The lines that it added, and how often."""
        return Counter[bytes]() if self._sides is None else gained(*self._sides)

    @cached_property
    def removed(self) -> Counter[bytes]:
        """The lines that it removed, and how often."""
        return Counter[bytes]() if self._sides is None else gained(*reversed(self._sides))

    @cached_property
    def _sides(self) -> tuple[list[bytes], list[bytes]] | None:
        before, after = (self._data(side) for side in (self.written.before, self.written.after))
        if before is None or after is None or not (is_text(before) and is_text(after)):
            return None
        return split_lines(before), split_lines(after)

    def _data(self, side: Snapshot) -> bytes | None:
        match side.kind:
            case "absent":
                return b""
            case "file":
                return self._contents(self.session, side.blob)
            case "link" | "directory" | "unknown":
                return None

    def leads_to(self, sha256: str, mode: str) -> bool:
        """Return True if it left a file, or a link, with this content and this right to be executed."""
        after = self.written.after
        match after.kind:
            case "file":
                return after.blob == sha256 and mode == ("100755" if after.mode & 0o100 else "100644")
            case "link":
                return mode == "120000" and sha256_hex(after.target.encode("utf-8", "surrogateescape")) == sha256
            case "absent":
                return not mode
            case "directory" | "unknown":
                return False


def originals_first(facts: Iterable[LogFacts]) -> Sequence[LogFacts]:
    """Return logs in an order in which a copied session, which begins with the entries of another, follows that one."""
    return sorted(facts, key=lambda log: (log.session != log.original, log.session, log.agent))


def sources_of(
    facts: Iterable[LogFacts], contents: Callable[[str, str], bytes | None]
) -> Mapping[str, Sequence[Source]]:
    """Return the recorded changes of each path, in the order in which they were made. A change that a copied session
    has too is that of the original."""
    found: dict[str, list[Source]] = {}
    seen: set[tuple[str, str]] = set()
    for log in originals_first(facts):
        for written in log.written:
            if (written.entry, written.path) not in seen:
                seen.add((written.entry, written.path))
                found.setdefault(written.path, []).append(Source(log.session, log.agent, written, contents))
    return {path: sorted(sources, key=lambda source: source.written.at) for path, sources in found.items()}
