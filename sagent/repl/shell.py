"""Runs a shell command of the person's in their shell: its output is bounded, its children end with it."""

import asyncio
import os
from pathlib import Path

from sagent.lib.process import ProcessGroup, open_reader

MOST_HEAD, MOST_TAIL = 50_000, 200_000  # bytes kept of the output's beginning and end
DRAIN = 0.1  # seconds that output is waited for when the shell has ended


async def run_shell(command: str, cwd: Path) -> tuple[int, str]:
    """Its exit code and what it wrote to both streams. When cancelled the command is killed, with its children.

    It has ended when the shell has: what it left running may hold the pipe open.
    """
    shell = os.environ.get("SHELL") or "/bin/sh"
    source, sink = os.pipe()
    group, null = ProcessGroup(), asyncio.subprocess.DEVNULL
    try:
        process = group.start([shell, "-c", command], env=os.environ, cwd=cwd, input=null, output=sink)
    except OSError as error:
        os.close(source)
        return 127, f"{shell}: {error.strerror or error}"
    finally:
        os.close(sink)
    kept = _Kept()
    stream, transport = await open_reader(source)
    reading = asyncio.create_task(_read(stream, kept))
    try:
        await process.ended()
        await asyncio.wait([reading], timeout=DRAIN)
        code = process.code
        process.release()  # what it left running goes on
    except asyncio.CancelledError:
        await process.kill()
        raise
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        transport.close()
        process.close()
        await group.aclose()
    return (128 - code if code < 0 else code), kept.text()


async def _read(stream: asyncio.StreamReader, kept: "_Kept") -> None:
    while data := await stream.read(1 << 16):
        kept.add(data)


class _Kept:
    def __init__(self) -> None:
        self._data, self._left_out = bytearray(), 0

    def add(self, data: bytes, slack: int = MOST_TAIL) -> None:
        self._data += data
        if (over := len(self._data) - MOST_HEAD - MOST_TAIL) > slack:  # seldom, for it moves what is kept
            del self._data[MOST_HEAD : MOST_HEAD + over]
            self._left_out += over

    def text(self) -> str:
        self.add(b"", slack=0)
        middle = f"\n[... {self._left_out} bytes are left out ...]\n" if self._left_out else ""
        head, tail = self._data[:MOST_HEAD], self._data[MOST_HEAD:]
        return head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")
