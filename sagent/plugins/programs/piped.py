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

_CHUNK_BYTES = 1 << 16
_Reader: TypeAlias = tuple[asyncio.StreamReader, asyncio.BaseTransport]


class PipedProcess:
    """A child process and our ends of its pipes. The last bytes of its standard error are kept."""

    def __init__(
        self, process: Process, writer: asyncio.StreamWriter, stdout: _Reader, stderr: _Reader, max_stderr_bytes: int
    ) -> None:
        self.process, self.writer, self.reader = process, writer, stdout[0]
        self._pipes = (writer.transport, stdout[1], stderr[1])
        self._max_stderr_bytes = max_stderr_bytes
        self._stderr = b""
        self.stderr_task = asyncio.create_task(self._read_stderr(stderr[0]))

    @classmethod
    async def start(
        cls,
        group: ProcessGroup,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None = None,
        *,
        max_line_bytes: int = _CHUNK_BYTES,
        max_stderr_bytes: int = 4_000,
    ) -> Self:
        """Start a process in a group, with output lines of at most `max_line_bytes`. Raises OSError, and ValueError
        for arguments that hold a NUL."""
        (from_stderr, stderr_end), (from_stdout, stdout_end), (stdin_end, to_stdin) = os.pipe(), os.pipe(), os.pipe()
        ours = [from_stderr, from_stdout, to_stdin]
        with ExitStack() as undo:
            try:
                process = group.start(argv, env=env, input=stdin_end, output=stdout_end, errors=stderr_end, cwd=cwd)
                undo.callback(process.close)
                writer = await open_writer(ours.pop())
                undo.callback(writer.close)
                reading = await open_reader(ours.pop(), limit=max_line_bytes)
                undo.callback(reading[1].close)
                program = cls(process, writer, reading, await open_reader(ours.pop()), max_stderr_bytes)
            finally:
                for end in (stderr_end, stdout_end, stdin_end, *ours):
                    os.close(end)
            undo.pop_all()
        return program

    @property
    def stderr(self) -> str:
        """The last part of its standard error, as text."""
        return readable(self._stderr).strip()

    @property
    def stderr_lines(self) -> list[str]:
        """The lines of `stderr` that are not blank, safe to print."""
        return [line for line in printable(self.stderr).split("\n") if line.strip()]

    @property
    def outcome(self) -> str:
        """Describe how the process ended, for a sentence that begins with its name."""
        code = self.process.code
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def hang_up(self) -> None:
        """Close the pipes, so that the process sees the end of its input."""
        for pipe in self._pipes:
            pipe.close()
        self.stderr_task.cancel()

    def close(self) -> None:
        """Release the pipes. A process that still runs is killed with its group."""
        self.hang_up()
        self.process.close()

    async def _read_stderr(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            self._stderr = (self._stderr + chunk)[-self._max_stderr_bytes :]


async def open_writer(descriptor: int) -> asyncio.StreamWriter:
    """Return a writer to a pipe, which it closes."""
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(descriptor, "wb"))
    return asyncio.StreamWriter(transport, protocol, None, loop)
