"""A lock file that only one process of this machine can hold."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

_PAUSE = 0.05  # seconds between two tries


@asynccontextmanager
async def locked(path: Path, within: float) -> AsyncGenerator[None]:
    """Hold a lock file, which is made where it is missing, and stays. Raises TimeoutError where others hold it for so
    many seconds, and OSError."""
    import fcntl

    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        async with asyncio.timeout(within):
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                await asyncio.sleep(_PAUSE)
        yield
    finally:
        os.close(handle)
