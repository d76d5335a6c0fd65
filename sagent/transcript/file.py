"""The file that a run's events are added to, one a line."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from sagent.errors import UsageError
from sagent.events import AdviceDelta, Event, TextDelta, ThinkingDelta, ToolProgress
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.transcript.event_json import encode_event
from sagent.transcript.export_redaction import Redaction

_MOST = 1 << 16  # characters of pieces that wait to be written
_KEPT = 2_000  # of them that go on waiting: a secret may have begun there


class TraceFile:
    """Takes every event of an agent (`agent.listen(trace.on_event)`) and adds it to a file, as stream-json with the
    time (`at`, UTC) and without what looks like a secret: of a text that came in pieces with one, the first piece has
    all. Other than pieces of a text, a line is in the file when `on_event` returns.

    Raises UsageError for a file that cannot be written, or that holds something else. When writing fails later, `warn`
    is called once and the run goes on without a trace.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._waiting: list[Mapping[str, object]] = []
        self._size = 0  # of the pieces among them
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
        self._waiting.append({**encode_event(event), "at": at})
        if isinstance(event, TextDelta | ThinkingDelta | AdviceDelta | ToolProgress):
            self._size += len(event.text)
            if self._size > _MOST:
                self._write(keep=_KEPT)
        else:
            self._write()

    def close(self) -> None:
        if self._fd >= 0:
            self._write()
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _look(self) -> None:
        """Add to a trace only: a wrong word on a command line must not spoil a file. A line that was cut off ends."""
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return
        if os.pread(self._fd, 1, 0) != b"{":
            raise UsageError(
                f"{self._path} is not a trace, so nothing is added to it: name another file for the trace."
            )
        if os.pread(self._fd, 1, status.st_size - 1) != b"\n":
            self._cut = True

    def _write(self, keep: int = 0) -> None:
        """Write what waits, but for the last so many characters of pieces."""
        lines, later = _without_secrets(self._waiting, keep)
        self._waiting, self._size = list(later), sum(len(as_str(body["text"])) for body in later)
        data = b"".join(wire_bytes(body) + b"\n" for body in lines)
        rest, self._cut = memoryview(b"\n" * self._cut + data), False
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            fd, self._fd = self._fd, -1
            os.close(fd)
            self._warn(f"The trace {self._path} ends here, it cannot be written: {error.strerror or error}.")


def _without_secrets(
    bodies: Sequence[Mapping[str, object]], keep: int
) -> tuple[Sequence[Mapping[str, object]], Sequence[Mapping[str, object]]]:
    """What is to be written now, and what may wait, of which the texts together have `keep` characters or more."""
    redaction = Redaction()
    texts: dict[object, list[int]] = {}
    for place, body in enumerate(bodies):
        if body["type"] in ("text_delta", "thinking_delta", "advice_delta"):
            texts.setdefault((body["type"], body["agent"]), []).append(place)
    clean = list(bodies)
    for places in texts.values():
        whole = "".join(as_str(bodies[place]["text"]) for place in places)
        if (text := redaction.text(whole)) != whole:
            for place in places:
                clean[place] = {**bodies[place], "text": "" if place != places[0] else text}
    end = len(bodies)
    while not redaction.found and keep > 0 and end:
        end -= 1
        keep -= len(as_str(bodies[end].get("text")))
    pieces = {place for places in texts.values() for place in places}
    lines = [body if place in pieces else as_object(redaction.value(body)) for place, body in enumerate(clean[:end])]
    return lines, bodies[end:]
