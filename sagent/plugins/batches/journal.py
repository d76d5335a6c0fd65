"""The journal of sent batches and their requests, one line each. With it the next process can take their answers."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_object, as_str, wire_bytes
from sagent.lib.regular import read_given


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch by its id: the path for its requests if sent alone, the time of sending (seconds since 1970), and the
    digest of each request, by its name there."""

    id: str
    path: str
    at: int
    digests: Mapping[str, str]


class Journal:
    """The lines of a file. Without a file they belong to this process alone. Raises OSError."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.unsure = 0  # batches that were being sent when a process ended, and may or may not exist

    def read(self) -> Iterator[Sent]:
        """Yield the batches of earlier processes."""
        lines = read_given(self._file).splitlines(keepends=True) if self._file and self._file.exists() else []
        for line in lines:
            try:
                fields = as_object(json.loads(line))
            except ValueError:  # a line that a killed process began
                continue
            if fields.get("sending"):
                self.unsure += 1
            elif sent := as_str(fields.get("batch")):
                self.unsure -= 1
                digests = {name: as_str(value) for name, value in as_object(fields.get("digests")).items()}
                yield Sent(sent, as_str(fields.get("path")), as_int(fields.get("at")), digests)
            elif fields.get("refused"):
                self.unsure -= 1

    def sending(self, path: str) -> None:
        """Note that a batch is about to be sent."""
        self._write({"sending": path, "at": int(time.time())})

    def refused(self) -> None:
        """Record that the batch was refused."""
        self._write({"refused": True})

    def sent(self, batch: Sent) -> None:
        """Record that the batch was sent. The record is on the disk when this returns."""
        self._write({"batch": batch.id, "path": batch.path, "at": batch.at, "digests": batch.digests})

    def _write(self, fields: Mapping[str, object]) -> None:
        if self._file is None:
            return
        fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"  # a process was killed in the last line
            os.write(fd, b"\n" * torn + wire_bytes(fields) + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
