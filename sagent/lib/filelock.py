"""Locks on files or directories, for one process of this machine at a time."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from sagent.lib import flock
from sagent.lib.atomic import atomic_write

_RETRY_INTERVAL_SECONDS = 0.05
_MAX_TURN_SECONDS = 10.0  # a process that holds it longer is stuck and no longer waited for


@asynccontextmanager
async def locked(path: Path, timeout: float) -> AsyncGenerator[None]:
    """Hold a lock file, created if missing and never removed. Raises TimeoutError if another process holds it for
    `timeout` seconds, and OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        async with asyncio.timeout(timeout):
            while True:
                with suppress(BlockingIOError):
                    flock.lock(descriptor)
                    break
                await asyncio.sleep(_RETRY_INTERVAL_SECONDS)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def in_turn(lock: Path) -> Generator[None]:
    """Serialize the processes that change a file, so that none overwrites another's change.

    `lock` is a directory, or a file `*.lock`, which is created if missing. If it cannot be locked, or its holder is
    stuck, the block runs without a lock. Raises nothing itself.
    """
    descriptor = -1
    with suppress(OSError):  # a directory that is missing or read-only, or a file system without locks
        flags = os.O_RDWR | os.O_CREAT if lock.suffix == ".lock" else os.O_RDONLY
        descriptor = os.open(lock, flags | os.O_CLOEXEC, 0o600)
        last_modified, end = -1, 0.0
        while True:
            if (modified := os.fstat(descriptor).st_mtime_ns) != last_modified:  # another process has had its turn
                last_modified, end = modified, time.monotonic() + _MAX_TURN_SECONDS
            with suppress(BlockingIOError):
                flock.lock(descriptor)
                if lock.suffix == ".lock":  # a directory changes with its file
                    os.utime(descriptor)
                break
            if time.monotonic() >= end:
                break
            time.sleep(0.01)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def rewrite(path: Path, lock: Path, content: Callable[[], bytes | None]) -> None:
    """Replace a file by what `content` returns, in turn with other processes; None leaves the file. `content` is called
    again if a process that did not wait has replaced the file meanwhile. Raises OSError."""
    with in_turn(lock):
        while True:
            version = _file_version(path)
            if (data := content()) is None:
                return
            with suppress(FileExistsError), atomic_write(path) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())  # takes longest: the file is compared after it
                if _file_version(path) != version:
                    raise FileExistsError(path)
                return


def _file_version(path: Path) -> object:
    with suppress(OSError):
        return (found := path.stat()).st_ino, found.st_mtime_ns
    return None
