"""A child process with a pipe at each of its standard streams."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeAlias

from sagent.lib.encoding import readable
from sagent.lib.process import Process, ProcessGroup, open_reader
from sagent.lib.text import printable

_CHUNK = 1 << 16
_Reading: TypeAlias = tuple[asyncio.StreamReader, asyncio.BaseTransport]


class PipedProcess:
    """A process with our ends of its pipes. The end of its standard error is kept."""

    def __init__(
        self, process: Process, writer: asyncio.StreamWriter, output: _Reading, errors: _Reading, max_error_bytes: int
    ) -> None:
        self.process, self.writer, self.reader = process, writer, output[0]
        self._pipes = (writer.transport, output[1], errors[1])
        self._kept = max_error_bytes
        self._words = b""
        self.listening = asyncio.create_task(self._listen(errors[0]))

    @classmethod
    async def start(
        cls,
        group: ProcessGroup,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None = None,
        *,
        max_line_bytes: int = _CHUNK,
        max_error_bytes: int = 4_000,
    ) -> Self:
        """Start a group's process with output lines of at most `max_line_bytes`, and keep its last errors. Raises
        OSError, and ValueError for arguments that hold a NUL."""
        (errors, uttered), (output, written), (given, sent) = os.pipe(), os.pipe(), os.pipe()
        ours = [errors, output, sent]
        with ExitStack() as undo:
            try:
                process = group.start(argv, env=env, input=given, output=written, errors=uttered, cwd=cwd)
                undo.callback(process.close)
                writer = await open_writer(ours.pop())
                undo.callback(writer.close)
                reading = await open_reader(ours.pop(), limit=max_line_bytes)
                undo.callback(reading[1].close)
                program = cls(process, writer, reading, await open_reader(ours.pop()), max_error_bytes)
            finally:
                for end in (uttered, written, given, *ours):
                    os.close(end)
            undo.pop_all()
        return program

    @property
    def words(self) -> str:
        """The end of its standard error."""
        return readable(self._words).strip()

    @property
    def lines(self) -> list[str]:
        """The lines of its standard error that are not blank, safe to show."""
        return [line for line in printable(self.words).split("\n") if line.strip()]

    @property
    def outcome(self) -> str:
        """Describe the end of the process."""
        code = self.process.code
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def hang_up(self) -> None:
        """Close the pipes, so that the process sees the end of its input."""
        for pipe in self._pipes:
            pipe.close()
        self.listening.cancel()

    def close(self) -> None:
        """Release the pipes. A process that still runs is killed with its group."""
        self.hang_up()
        self.process.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            self._words = (self._words + chunk)[-self._kept :]


async def open_writer(descriptor: int) -> asyncio.StreamWriter:
    """Write to one end of a pipe."""
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(descriptor, "wb"))
    return asyncio.StreamWriter(transport, protocol, None, loop)
