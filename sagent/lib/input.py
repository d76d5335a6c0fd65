"""Input from a descriptor, even one that another process made non-blocking, as a whole or line by line."""

import asyncio
import os
import select
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

MAX_LINE_BYTES = 1 << 28  # of a line; it may contain several base64 images
_CHUNK_BYTES = 1 << 18


def read_some(fd: int) -> bytes:
    """Read the next bytes; b"" at the end. Blocks."""
    while True:
        try:
            return os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:  # another process may want it non-blocking
            select.select([fd], [], [])
        except OSError:
            return b""


def read_lines(fd: int, deliver: Callable[[bytes | None], object], end: Callable[[], object]) -> None:
    """Read in a thread: `deliver` each line in the running loop, None for an overlong one; then `end`."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        pieces: list[bytes] = []
        size = 0
        while piece := read_some(fd):
            *whole, rest = piece.split(b"\n")
            for line in whole:
                long = size + len(line) > MAX_LINE_BYTES
                loop.call_soon_threadsafe(deliver, None if long else b"".join((*pieces, line)))
                pieces, size = [], 0
            size += len(rest)
            if size > MAX_LINE_BYTES:
                pieces.clear()
            elif rest:
                pieces.append(rest)
        if pieces:
            loop.call_soon_threadsafe(deliver, b"".join(pieces))
        loop.call_soon_threadsafe(end)

    def read_while_heard() -> None:
        with suppress(RuntimeError):  # the loop is closed
            read()

    # a daemon, because a blocking read cannot be cancelled and must not keep the process alive
    threading.Thread(target=read_while_heard, daemon=True).start()


async def lines_of(fd: int) -> AsyncGenerator[bytes | None]:
    """Yield each line as it arrives, None for an overlong one."""
    lines: asyncio.Queue[tuple[bytes | None] | tuple[()]] = asyncio.Queue()
    read_lines(fd, lambda line: lines.put_nowait((line,)), lambda: lines.put_nowait(()))
    while line := await lines.get():
        yield line[0]
