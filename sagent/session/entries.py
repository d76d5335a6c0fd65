"""One entry of a log, and the line that it is written as.

The `id` is the sha256 of the canonical JSON of `{at, body, kind, parent}`. A line is exactly those bytes with the id
put in front, so that appending encodes a body once, and checking hashes a slice of the line as it is on the disk: no
byte of a log is outside a hash, including white space and escapes.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, canonical_bytes, json_parse
from sagent.session.contents import Content
from sagent.session.table import decode, encode

_HEAD = b'{"id":"'
_AFTER_ID = len(_HEAD) + 64 + len(b'",')
_AT = _AFTER_ID + len(b'"at":"')
_AFTER_AT = _AT + len("2026-11-21T03:15:00.123456Z")
_BODY = _AFTER_AT + len(b'","body":')
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """One event in a log. `parent` is "" for the first; `at` is UTC, ISO 8601 with microseconds; `line` as in the
    file."""

    id: str
    parent: str
    at: str
    kind: str
    line: bytes

    @property
    def content(self) -> Content:
        """Its content, read from the line on each access. Raises SessionCorrupt if that cannot be read."""
        return decode(self.kind, read_body(self))


def seal(parent: str, content: Content, after: str = "") -> Entry:
    """A new entry, with a time later than `after` whatever the clock says. Raises ValueError or TypeError for values
    that JSON cannot express."""
    kind, body = encode(content)
    if not (kind.isascii() and kind.isidentifier()):
        raise ValueError(f"not a kind of entry: {kind!r}")
    try:
        text = canonical_bytes(body)
    except RecursionError as error:
        raise ValueError("the body is nested too deeply") from error
    return _sealed(parent, _time(after), kind, text)


def seal_again(parent: str, entry: Entry, body: Mapping[str, object] | None = None) -> Entry:
    """The same entry after another parent; with `body`, it has that content."""
    said = entry.line[_BODY : -len(_tail(entry.kind, entry.parent))] if body is None else canonical_bytes(body)
    return _sealed(parent, entry.at, entry.kind, said)


def _time(after: str) -> str:
    now = datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    if now <= after:
        with suppress(ValueError, OverflowError):  # of a log that somebody else wrote
            return (datetime.fromisoformat(after) + _TICK).isoformat(timespec="microseconds")[:-6] + "Z"
    return now


def _sealed(parent: str, at: str, kind: str, text: bytes) -> Entry:
    rest = b'"at":"%b","body":%b%b' % (at.encode(), text, _tail(kind, parent))
    entry_id = hashlib.sha256(b"{" + rest[:-1]).hexdigest()
    return Entry(entry_id, parent, at, kind, b'{"id":"%b",%b' % (entry_id.encode(), rest))


def scan_line(line: bytes) -> tuple[str, str, str]:
    """The id, the parent and the kind of a line, including its line end, without parsing the rest. Raises ValueError
    for a line that is not what was written."""
    entry_id = hashlib.sha256(b"{" + line[_AFTER_ID:-1]).hexdigest()
    if line[:_AFTER_ID] != b'{"id":"%b",' % entry_id.encode():
        raise ValueError("the content does not match its id")
    name, parts, parent = line[line.rfind(b',"kind":"') + 9 : -3].partition(b'","parent":"')
    kind = name.decode("ascii", "replace")
    laid_out = line[_AFTER_ID:_AT] == b'"at":"' and line[_AFTER_AT : _BODY + 1] == b'","body":{'
    if not (laid_out and parts and line[-3:] == b'"}\n' and kind.isidentifier()):
        raise ValueError("this is not the line of an entry")
    return entry_id, parent.decode("ascii", "replace"), kind


def parse_line(line: bytes) -> Entry:
    """The entry of a line, including its line end. Raises ValueError for a line that is not what was written."""
    entry_id, parent, kind = scan_line(line)
    return Entry(entry_id, parent, line[_AT:_AFTER_AT].decode("ascii", "replace"), kind, line)


def read_body(entry: Entry) -> Mapping[str, object]:
    """The JSON of an entry, for readers that do not need its meaning. Raises SessionCorrupt if it is not JSON."""
    try:
        text = entry.line[_BODY : -len(_tail(entry.kind, entry.parent))].decode()
        body = json_parse(text)
        if "\\ud" in text or "\\uD" in text:  # lone surrogates, which no output takes
            body = json_parse(canonical_bytes(body).decode())
        return as_object(body)
    except (ValueError, RecursionError) as error:  # its id is right, so it was written like this
        raise unreadable(entry, error) from error


def unreadable(entry: Entry, error: Exception) -> SessionCorrupt:
    """The error for an entry whose content is not understood here."""
    return SessionCorrupt(
        f"entry {entry.id} ({entry.kind}, {entry.at}) cannot be read: {error}. "
        "It was written by another version of sagent: use that one, or a newer one."
    )


def _tail(kind: str, parent: str) -> bytes:
    return f',"kind":"{kind}","parent":"{parent}"}}\n'.encode()
