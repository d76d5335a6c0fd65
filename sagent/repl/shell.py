"""Runs a person's shell command in their shell: the output is limited, and child processes end with it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from sagent.lib.process import ProcessGroup, open_reader

HEAD_BYTES, TAIL_BYTES = 50_000, 200_000  # of the output's beginning and end to keep
MAX_SHOWN_BYTES = 4_000
_MAX_ARGUMENT_BYTES = 100_000  # Linux takes 128 KiB in one argument
DRAIN_SECONDS = 0.1  # to wait for more output after the shell has ended


async def run_shell(command: str, cwd: Path, show: Callable[[str], None] = lambda text: None) -> tuple[int, str]:
    """Run a command; return its exit code and its output as a terminal would have left it, with its colours. Meanwhile
    `show` gets the end of the output, without colours. When cancelled the command is killed, with its children.

    It has ended when the shell has: what it left running may hold the pipe open.
    """
    shell = os.environ.get("SHELL") or "/bin/sh"
    if len(text := os.fsencode(command)) <= _MAX_ARGUMENT_BYTES:
        return await _run([shell, "-c", command], cwd, show)
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile(prefix="sagent-") as file:
        file.write(text)
        file.flush()
        return await _run([shell, file.name], cwd, show)


async def _run(argv: list[str], cwd: Path, show: Callable[[str], None]) -> tuple[int, str]:
    source, sink = os.pipe()
    group, null = ProcessGroup(), asyncio.subprocess.DEVNULL
    try:
        process = group.start(argv, env=os.environ, cwd=cwd, input=null, output=sink)
    except (OSError, ValueError) as error:  # a missing directory, or a NUL in the command
        os.close(source)
        named = (error.filename, error.strerror) if isinstance(error, OSError) else (None, None)
        return 127, f"{named[0] or argv[0]}: {named[1] or error}"
    finally:
        os.close(sink)
    kept = _OutputBuffer()
    stream, transport = await open_reader(source)
    reading = asyncio.create_task(_read(stream, kept, show))
    try:
        await process.ended()
        await asyncio.wait([reading], timeout=DRAIN_SECONDS)
        code = process.code
        process.release()  # processes left running continue
    except asyncio.CancelledError:
        await process.kill_tree()
        raise
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        transport.close()
        process.close()
        await group.aclose()
    return (128 - code if code < 0 else code), kept.text()


async def _read(stream: asyncio.StreamReader, output: "_OutputBuffer", show: Callable[[str], None]) -> None:
    while data := await stream.read(1 << 16):
        output.add(data)
        show(output.end())


class _OutputBuffer:
    def __init__(self) -> None:
        self._data, self._left_out = bytearray(), 0

    def add(self, data: bytes, slack: int = TAIL_BYTES) -> None:
        self._data += data
        if (over := len(self._data) - HEAD_BYTES - TAIL_BYTES) > slack:  # rarely, because it copies the kept part
            del self._data[HEAD_BYTES : HEAD_BYTES + over]
            self._left_out += over

    def text(self) -> str:
        from sagent.tools.capture import legible_in_colour

        self.add(b"", slack=0)
        if not self._left_out:
            return legible_in_colour(bytes(self._data))
        head, tail = (
            legible_in_colour(bytes(part), cut=True) for part in (self._data[:HEAD_BYTES], self._data[HEAD_BYTES:])
        )
        return f"{head}\n[... {self._left_out} bytes left out ...]\n{tail}"

    def end(self) -> str:
        """Return the last lines so far."""
        from sagent.tools.capture import legible

        return legible(bytes(self._data[-MAX_SHOWN_BYTES:]), cut=True)
