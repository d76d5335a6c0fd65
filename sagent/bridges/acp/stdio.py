"""Lines over this process's standard streams: read and written in threads, so that no peer can hold the loop."""

import asyncio
import os
import queue
import select
import sys
import threading
from collections.abc import Callable

LONGEST = 1 << 28  # bytes of a line; images come in base64, several in one
_CHUNK = 1 << 18


def claim_stdout() -> int:
    """A descriptor of standard output that is ours alone: whatever else is printed in this process goes to stderr."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return own


def read_lines(fd: int, deliver: Callable[[bytes | None], object], end: Callable[[], object]) -> None:
    """In a thread of its own: `deliver` each line in the running loop, None for one that is too long; then `end`."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        pieces: list[bytes] = []
        size = 0
        while piece := _read(fd):
            *whole, rest = piece.split(b"\n")
            for line in whole:
                long = size + len(line) > LONGEST
                loop.call_soon_threadsafe(deliver, None if long else b"".join((*pieces, line)))
                pieces, size = [], 0
            size += len(rest)
            if size > LONGEST:
                pieces.clear()
            elif rest:
                pieces.append(rest)
        if pieces:
            loop.call_soon_threadsafe(deliver, b"".join(pieces))
        loop.call_soon_threadsafe(end)

    # a daemon, for a blocking read cannot be cancelled and must not keep the process from ending
    threading.Thread(target=_until_closed(read), daemon=True).start()


def _until_closed(work: Callable[[], None]) -> Callable[[], None]:
    """Work in a thread that may outlive the loop."""

    def run() -> None:
        try:
            work()
        except RuntimeError:  # the loop is closed
            return

    return run


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, _CHUNK)
        except BlockingIOError:  # as whoever has it too wants it
            select.select([fd], [], [])
        except OSError:
            return b""


class Writer:
    """Writes in order, in a thread; `on_failure` is called in the loop where nobody reads any more."""

    def __init__(self, fd: int, on_failure: Callable[[], object]) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        loop = asyncio.get_running_loop()

        def write() -> None:
            failed = False
            while (data := self._queue.get()) is not None:
                if not failed and not _write(fd, data):
                    failed = True
                    loop.call_soon_threadsafe(on_failure)

        self._thread = threading.Thread(target=_until_closed(write), daemon=True)
        self._thread.start()

    def send(self, data: bytes) -> None:
        self._queue.put(data)

    def close(self, seconds: float) -> None:
        """Write what waits, unless that takes longer."""
        self._queue.put(None)
        self._thread.join(seconds)


def _write(fd: int, data: bytes) -> bool:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [])
        except OSError:
            return False
    return True
