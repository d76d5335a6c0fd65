"""Writer of this process's standard output in a thread, so that no peer can hold the loop."""

import asyncio
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress


def claim_stdout() -> int:
    """Return a descriptor of standard output that is ours alone: whatever else is printed in this process goes to
    stderr."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return own


class Writer:
    """Writes in order, in a thread; `on_failure` is called in the loop when the reader is gone."""

    def __init__(self, fd: int, on_failure: Callable[[], object]) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        loop = asyncio.get_running_loop()

        def write() -> None:
            failed = False
            while (data := self._queue.get()) is not None:
                if not failed and not _write(fd, data):
                    failed = True
                    with suppress(RuntimeError):  # the loop is closed
                        loop.call_soon_threadsafe(on_failure)

        self._thread = threading.Thread(target=write, daemon=True)
        self._thread.start()

    def send(self, data: bytes) -> None:
        self._queue.put(data)

    def close(self, seconds: float) -> None:
        """Write pending data, within a time limit."""
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
