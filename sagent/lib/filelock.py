"""Locks on files or directories, for one process of this machine at a time."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from sagent.lib.atomic import atomic_write

_RETRY_INTERVAL_SECONDS = 0.05  # seconds between two tries
_MAX_TURN_SECONDS = 10.0  # a process that holds it longer is stuck and no longer waited for


@asynccontextmanager
async def locked(path: Path, timeout: float) -> AsyncGenerator[None]:
    """Hold a lock file, created if missing and never removed. Raises TimeoutError if others hold it for so many
    seconds, and OSError."""
    import fcntl

    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        async with asyncio.timeout(timeout):
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                await asyncio.sleep(_RETRY_INTERVAL_SECONDS)
        yield
    finally:
        os.close(handle)


@contextmanager
def in_turn(lock: Path) -> Generator[None]:
    """Serialize the processes that change a file, so that none overwrites another's change.

    `lock` is a directory, or a file `*.lock`, created if missing. Continues without a lock if there can be none, or if
    its holder is stuck. Raises nothing itself.
    """
    import fcntl

    handle = -1
    with suppress(OSError):  # a directory that is missing or read-only, or a file system without locks
        flags = os.O_RDWR | os.O_CREAT if lock.suffix == ".lock" else os.O_RDONLY
        handle = os.open(lock, flags | os.O_CLOEXEC, 0o600)
        seen, end = -1, 0.0
        while True:
            if (changed := os.fstat(handle).st_mtime_ns) != seen:  # another one has had its turn
                seen, end = changed, time.monotonic() + _MAX_TURN_SECONDS
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if lock.suffix == ".lock":  # a directory changes with its file
                    os.utime(handle)
                break
            if time.monotonic() >= end:
                break
            time.sleep(0.01)
    try:
        yield
    finally:
        if handle >= 0:
            os.close(handle)


def rewrite(path: Path, lock: Path, content: Callable[[], bytes | None]) -> None:
    """Replace a file by new content derived from the old, in turn with other processes; None leaves it. The content is
    derived again if a process that stopped waiting has replaced the file meanwhile. Raises OSError."""
    with in_turn(lock):
        while True:
            seen = _identity(path)
            if (data := content()) is None:
                return
            with suppress(FileExistsError), atomic_write(path) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())  # takes longest
                if _identity(path) != seen:
                    raise FileExistsError(path)
                return


def _identity(path: Path) -> object:
    with suppress(OSError):
        return (found := path.stat()).st_ino, found.st_mtime_ns
    return None
