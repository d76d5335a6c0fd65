"""Changes of files by calls, read from the logs of sessions. Every line of a log is verified before it counts."""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_object, json_load
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import MessageEntry, ResultEntry, StoredMessage
from sagent.session.entries import Entry, parse_line
from sagent.session.log import read_lines
from sagent.session.names import agent_of
from sagent.session.store import log_files, named_logs
from sagent.session.touches import Snapshot, Touch, Touched
from sagent.session.view import ID

_KIND, _TOUCHED, _CALLS, _MADE = b',"kind":"', b"touched", b'"type":"tool_call"', b'"made":{'
_UNASKED = (b'"type":"tool_result"', b'"sender":"sagent')  # in messages that are no prompt


@dataclass(frozen=True, slots=True)
class FileChange:
    """A call's change to one file. `begun` and `at` are when the call began and ended: UTC, ISO 8601.

    `message` is the line of the log with the call, and `prompt` that with the request that led to it, b"" if unknown.
    If the call was `altered`, a person or a hook has changed its arguments. `beside` is True if other calls ran at the
    same time that may have made the change too.
    """

    session: Path
    log: Path
    agent: str
    entry: str
    begun: str
    at: str
    call: str
    tool: str
    path: str
    before: Snapshot
    after: Snapshot
    message: bytes
    prompt: bytes
    altered: bool = False
    beside: bool = False

    @property
    def model(self) -> str:
        """The model that made the call, as "provider/id"; "" if unknown."""
        return "" if (message := read_message(self.message)) is None else message.model

    @property
    def arguments(self) -> JsonObject:
        """The arguments that the model gave; empty if they cannot be read."""
        message = read_message(self.message)
        text = next((call.arguments for call in message.calls if call.id == self.call), "") if message else ""
        try:
            return JsonObject(as_object(json_load(text)))
        except (ValueError, RecursionError):
            return JsonObject()


def read_message(line: bytes) -> StoredMessage | None:
    """Return the message of a log's line; None if there is none."""
    content = parse_line(line).content if line else None
    return content.message if isinstance(content, MessageEntry) else None


def is_prompt(line: bytes) -> bool:
    """Return True for the line of a message that is a request to the agent, by a person or another agent."""
    return b'"role":"user"' in line and not any(mark in line for mark in _UNASKED)


@dataclass(slots=True)
class Evidence:
    """Changes of files in several sessions, in the order in which they ended; `heads` are the last entries of the logs
    that were read."""

    changes: list[FileChange] = field(default_factory=list[FileChange])
    heads: dict[Path, str] = field(default_factory=dict[Path, str])
    _blobs: dict[Path, BlobDirectory] = field(default_factory=dict[Path, BlobDirectory])
    _contents: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])

    def content(self, change: FileChange, state: Snapshot) -> bytes | None:
        """Return the content of a file before or after a change; None if it is not kept. Raises SessionCorrupt if the
        kept content was changed, and OSError."""
        if state.kind != "file":
            return None
        if state.blob not in self._contents:
            blobs = self._blobs.setdefault(change.session, BlobDirectory(change.session / "blobs"))
            kept = (change.session / "blobs" / state.blob).is_file()
            try:
                self._contents[state.blob] = blobs.get(state.blob) if kept else None
            except SessionCorrupt as error:
                raise SessionCorrupt(f"Entry {change.entry} of {change.log} is not proven: {error}") from error
        return self._contents[state.blob]


def read_evidence(sessions: Iterable[Path]) -> Evidence:
    """Read the changes to files from the logs of sessions. Raises SessionCorrupt if a log was changed, and OSError."""
    found = Evidence()
    seen: set[str] = set()  # a copied session has the entries of its original
    for session in sorted(sessions):
        files = log_files(session)
        for file in files:
            reader = _LogReader(session, file)
            changes = [change for change in reader.read() if change.entry not in seen]
            if not changes:
                continue
            if file != files[0] and file not in named_logs(session):
                raise SessionCorrupt(
                    f"Entry {reader.head} of {file} is not proven: no log of the session names this one, or lines are "
                    "missing at its end."
                )
            found.heads[file] = reader.head
            found.changes += changes
        seen.update(change.entry for change in found.changes)
    found.changes.sort(key=lambda change: change.at)
    return found


@dataclass(slots=True)
class _Begun:
    """A call that has begun: when, the line of its message, and that of its prompt."""

    at: str
    message: bytes
    prompt: bytes


class _LogReader:
    """Reads the changes in one log, in order."""

    def __init__(self, session: Path, file: Path) -> None:
        self.head = ""
        self._session, self._file, self._agent = session, file, agent_of(session, file)
        self._message = self._prompt = b""
        self._calls: dict[str, _Begun] = {}
        self._altered: set[str] = set()  # calls with arguments that were changed after the model gave them

    def read(self) -> list[FileChange]:
        """Return the changes. Raises SessionCorrupt and OSError."""
        found: list[FileChange] = []
        count = 0
        try:
            for line in read_lines(self._file):
                found.extend(self._read(line))
                self.head = line[ID].decode()
                count += 1
        except SessionCorrupt as error:
            raise _refusal(self._file, count + 1, error) from error
        return [_altered(change) if change.call in self._altered else change for change in found]

    def _read(self, line: bytes) -> Iterator[FileChange]:
        kind = line[line.rfind(_KIND) + len(_KIND) :].partition(b'"')[0]
        if kind == b"message":
            if _CALLS in line:
                self._message = line
            elif is_prompt(line):
                self._prompt = line
        elif kind == b"result" and _MADE in line:
            content = parse_line(line).content
            if isinstance(content, ResultEntry):
                self._altered.add(content.result.call_id)
        elif kind == _TOUCHED:
            entry = parse_line(line)
            if isinstance(touched := entry.content, Touched):
                yield from self._changes(entry, touched)

    def _changes(self, entry: Entry, touched: Touched) -> Iterator[FileChange]:
        known = self._calls.get(touched.call)
        if known is None or not (touched.ended or known.message == self._message):
            known = self._calls[touched.call] = _Begun(entry.at, self._of(touched.call), self._prompt)
        if touched.ended:
            for touch in touched.files:
                yield self._change(entry, touched, touch, known)
            known.at = entry.at  # a call that goes on is logged in parts

    def _of(self, call: str) -> bytes:
        """Return the last message if it has a call."""
        return self._message if b'"id":"%b"' % call.encode() in self._message else b""

    def _change(self, entry: Entry, touched: Touched, touch: Touch, begun: _Begun) -> FileChange:
        return FileChange(
            session=self._session,
            log=self._file,
            agent=self._agent,
            entry=entry.id,
            begun=begun.at,
            at=entry.at,
            call=touched.call,
            tool=touched.tool,
            path=touch.path,
            before=touch.before,
            after=touch.after,
            message=begun.message,
            prompt=begun.prompt,
            beside=bool(touched.beside),
        )


def _altered(change: FileChange) -> FileChange:
    return replace(change, altered=True)


def _refusal(file: Path, number: int, error: SessionCorrupt) -> SessionCorrupt:
    """Return the error for a log with a changed line, which names its entry."""
    with file.open("rb") as stream:
        line = next((line for at, line in enumerate(stream, 1) if at == number), b"")
    claimed = line[ID].decode("ascii", "replace")
    entry = claimed if len(claimed) == 64 and claimed.isalnum() else "?"
    return SessionCorrupt(f"Entry {entry} is not as it was written, so nothing is attributed: {error}")
