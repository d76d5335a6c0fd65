"""One polite rate for each host, over all processes of this person: a file says when the next request may begin."""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.json import sha256_hex

LONGEST_WAIT = 60.0  # seconds for a turn
_FARTHEST = 3600.0  # seconds: a time further ahead was written by a clock that was wrong
_LOOK = 0.05  # seconds between two looks at a lock


class HostRate:
    """`directory` is where the files lie: the same for all processes that are to share a rate."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @asynccontextmanager
    async def turn(self, host: str, interval: float, *, alone: bool = False) -> AsyncGenerator[None]:
        """Wait for a turn: one begins `interval` seconds after another, and where they go `alone` after its end, too.

        Raises ToolError where that would take more than LONGEST_WAIT.
        """
        lock = await self._lock(host) if alone else None
        try:
            if (wait := self._reserve(host, interval)) > 0:
                await asyncio.sleep(wait)
            yield
        finally:
            if lock is not None:
                os.close(lock)

    def back_off(self, host: str, seconds: float) -> None:
        """Let no request begin for some time: the host has asked for that."""
        with suppress(OSError), self._opened(host, "next") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            until = time.time() + min(max(seconds, 0.0), _FARTHEST)
            _write(file, max(_read(file), until))

    def _reserve(self, host: str, interval: float) -> float:
        """Take the next time that is free; seconds until then."""
        with self._opened(host, "next") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # held for a moment only
            now = time.time()
            at = max(now, _read(file))
            if at - now > LONGEST_WAIT:
                raise ToolError(f"{host} asks for a pause of {at - now:.0f} s. Go on with other work, and try later.")
            _write(file, at + interval)
            return at - now

    async def _lock(self, host: str) -> int:
        """The descriptor of a lock that the kernel frees when it is closed."""
        with self._opened(host, "alone") as file:
            lock = os.dup(file)
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                while True:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        await asyncio.sleep(_LOOK)
                    else:
                        return lock
        except TimeoutError:
            os.close(lock)
            raise ToolError(f"Others are asking {host}, one after the other. Try later.") from None
        except BaseException:
            os.close(lock)
            raise

    @contextmanager
    def _opened(self, host: str, what: str) -> Generator[int]:
        """The descriptor of a file, which is made where it is missing, for as long as the block."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / f"{sha256_hex(host.encode())[:32]}.{what}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _read(file: int) -> float:
    """The time in a file; 0 for none, and for one that nobody can have meant."""
    try:
        at = float(os.pread(file, 64, 0) or b"0")
    except ValueError:
        return 0.0
    return at if at - time.time() < _FARTHEST else 0.0


def _write(file: int, at: float) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, f"{at:.6f}".encode(), 0)
