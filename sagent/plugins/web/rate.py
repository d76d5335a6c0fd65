"""A polite rate for each host, over all processes of this person: a file has the time of the next request."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib import flock
from sagent.lib.filelock import locked
from sagent.lib.json import sha256_hex

MAX_WAIT_SECONDS = 60.0  # for a turn
_MAX_AHEAD_SECONDS = 3600.0  # seconds: a time further ahead was written by a clock that was wrong


class HostRate:
    """`directory` has the files, and is the same for all processes that share a rate."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @asynccontextmanager
    async def turn(self, host: str, interval: float, *, alone: bool = False) -> AsyncGenerator[None]:
        """Wait for a turn: one begins `interval` seconds after another, and if `alone` also after its end.

        Raises ToolError if that would take more than MAX_WAIT_SECONDS.
        """
        async with AsyncExitStack() as held:
            if alone:
                try:
                    await held.enter_async_context(locked(self._path(host, "alone"), MAX_WAIT_SECONDS))
                except TimeoutError:
                    raise ToolError(f"{host} is busy with other requests from here. Try later.") from None
            if (wait := self._reserve(host, interval)) > 0:
                await asyncio.sleep(wait)
            yield

    def back_off(self, host: str, seconds: float) -> None:
        """Pause requests for some time, because the host has asked for that."""
        with suppress(OSError), self._opened(host) as file:
            flock.lock(file, wait=True)
            until = time.time() + min(max(seconds, 0.0), _MAX_AHEAD_SECONDS)
            _write(file, max(_read(file), until))

    def _reserve(self, host: str, interval: float) -> float:
        """Take the next time that is free; seconds until then."""
        with self._opened(host) as file:
            flock.lock(file, wait=True)  # held for a moment only
            now = time.time()
            at = max(now, _read(file))
            if at - now > MAX_WAIT_SECONDS:
                raise ToolError(f"{host} asks for a pause of {at - now:.0f} s. Go on with other work, and try later.")
            _write(file, at + interval)
            return at - now

    @contextmanager
    def _opened(self, host: str) -> Generator[int]:
        """Yield the descriptor of the file with the time of the next request, during the block."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path(host, "next"), flags, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _path(self, host: str, suffix: str) -> Path:
        """Return a host's file, in a directory that is created if missing."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._directory / f"{sha256_hex(host.encode())[:32]}.{suffix}"


def _read(file: int) -> float:
    """Return the time in a file; 0 for none or an impossible one."""
    try:
        at = float(os.pread(file, 64, 0) or b"0")
    except ValueError:
        return 0.0
    return at if at - time.time() < _MAX_AHEAD_SECONDS else 0.0


def _write(file: int, at: float) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, f"{at:.6f}".encode(), 0)
