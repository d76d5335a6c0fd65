"""The file that a run's events are added to, one a line."""

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sagent.errors import UsageError
from sagent.events import AdviceDelta, Event, TextDelta, ThinkingDelta, ToolProgress
from sagent.lib.json import wire_bytes
from sagent.transcript.event_json import encode_event

_MOST = 1 << 16  # bytes that wait to be written


class TraceFile:
    """Takes every event of an agent (`agent.listen(trace.on_event)`) and adds it to a file, as stream-json with the
    time (`at`, UTC). Other than pieces of a text, a line is in the file when `on_event` returns.

    Raises UsageError for a file that cannot be written, or that holds something else. When writing fails later, `warn`
    is called once and the run goes on without a trace.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._waiting = bytearray()
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
        self._waiting += wire_bytes({**encode_event(event), "at": at}) + b"\n"
        piece = isinstance(event, TextDelta | ThinkingDelta | AdviceDelta | ToolProgress)
        if not piece or len(self._waiting) > _MOST:
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
            self._waiting += b"\n"

    def _write(self) -> None:
        rest, self._waiting = memoryview(bytes(self._waiting)), bytearray()
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            fd, self._fd = self._fd, -1
            os.close(fd)
            self._warn(f"The trace {self._path} ends here, it cannot be written: {error.strerror or error}.")
