"""The file that a run's events are added to, one a line."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from sagent.errors import UsageError
from sagent.events import AdviceDelta, Event, TextDelta, ThinkingDelta, ToolProgress
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.transcript.event_json import encode_event
from sagent.transcript.redaction import Redaction

_BEGINNING = b'{"type":"'  # of every line, which may have been cut off there
_MAX_WAITING_CHARS = 1 << 16  # of pieces that wait to be written
_KEPT_CHARS = 2_000  # that go on waiting: a secret may have begun there

_Body: TypeAlias = Mapping[str, object]


class TraceFile:
    """Takes every event of an agent (`agent.listen(trace.on_event)`) and adds it to a file, as stream-json with the
    time (`at`, UTC) and without what looks like a secret: of a text that came in pieces with one, the first piece has
    all. Pieces of a text wait for the next event of their agent; another line is in the file when `on_event` returns.

    Raises UsageError for a file that cannot be written, or that holds something else. When writing fails later, `warn`
    is called once and the run goes on without a trace.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._waiting: dict[tuple[str, ...], list[_Body]] = {}  # pieces, by the text that they are of
        self._size = 0  # of them
        self._cut = False  # the last line that is there has no end
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"The trace cannot be written to {path}: {error.strerror or error}.") from error
        try:
            self._look()
        except BaseException:
            os.close(self._fd)
            raise

    def on_event(self, event: Event) -> None:
        if self._fd < 0:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        body = {**encode_event(event), "at": at}
        if isinstance(event, TextDelta | ThinkingDelta | AdviceDelta | ToolProgress):
            which = event.call_id if isinstance(event, ToolProgress) else ""
            self._waiting.setdefault((event.agent, as_str(body["type"]), which), []).append(body)
            self._size += len(event.text)
            if self._size > _MAX_WAITING_CHARS:
                self._write(list(self._waiting), _KEPT_CHARS)
        else:
            whole = as_object(Redaction().value(body))
            self._write([text for text in self._waiting if text[0] == event.agent], 0, whole)

    def close(self) -> None:
        if self._fd >= 0:
            self._write(list(self._waiting))
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _look(self) -> None:
        """Add to a trace only: a wrong word on a command line must not spoil a file. A line that was cut off ends."""
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return
        if not _BEGINNING.startswith(os.pread(self._fd, len(_BEGINNING), 0)):
            raise UsageError(
                f"{self._path} is not a trace, so nothing was appended to it: choose another file for the trace."
            )
        if os.pread(self._fd, 1, status.st_size - 1) != b"\n":
            self._cut = True

    def _write(self, texts: Sequence[tuple[str, ...]], keep: int = 0, *last: _Body) -> None:
        """Write the pieces of some texts, but for so many characters of each that may wait on, and what is last."""
        lines: list[_Body] = []
        for text in texts:
            now, later = _split(self._waiting.pop(text), keep)
            lines += _without_secrets(now)
            if later:
                self._waiting[text] = later
        self._size = sum(len(as_str(body["text"])) for bodies in self._waiting.values() for body in bodies)
        data = b"".join(wire_bytes(body) + b"\n" for body in (*sorted(lines, key=_time_of), *last))
        rest, self._cut = memoryview(b"\n" * self._cut + data), False
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            fd, self._fd = self._fd, -1
            os.close(fd)
            self._warn(f"The trace {self._path} ends here, because it cannot be written: {error.strerror or error}.")


def _time_of(body: _Body) -> str:
    return as_str(body["at"])


def _without_secrets(bodies: Sequence[_Body]) -> Sequence[_Body]:
    """Return the pieces of one text."""
    whole = "".join(as_str(body["text"]) for body in bodies)
    if (clean := Redaction().text(whole)) == whole:
        return bodies
    return [{**body, "text": "" if place else clean} for place, body in enumerate(bodies)]


def _split(bodies: list[_Body], keep: int) -> tuple[Sequence[_Body], list[_Body]]:
    """Return the pieces to be written now, and the end that may wait: parted where no word is, for most secrets are
    one."""
    whole = "".join(as_str(body["text"]) for body in bodies)
    cut = max(whole.rfind(blank, 0, max(len(whole) - keep, 0)) for blank in (" ", "\n")) + 1 if keep else 0
    if not cut:
        return bodies, []
    for place, body in enumerate(bodies):
        text = as_str(body["text"])
        if cut <= len(text):
            return [*bodies[:place], {**body, "text": text[:cut]}], [{**body, "text": text[cut:]}, *bodies[place + 1 :]]
        cut -= len(text)
    return bodies, []
