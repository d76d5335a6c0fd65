"""A file that is there whole or not at all."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def atomic_write(path: Path) -> Generator[IO[bytes]]:
    """A file to write, for its owner alone, that takes the place of `path` when the block ends well.

    It is on the disk by then. A link goes on leading where it did. What is no plain file (a pipe, /dev/null) is not
    replaced but written to. Raises OSError; then there is nothing at `path` that was not there before.
    """
    real = Path(os.path.realpath(path))
    if real.exists() and not stat.S_ISREG(real.stat().st_mode):
        with real.open("wb") as file:
            yield file
        return
    fresh = real.with_name(f".sagent-{os.urandom(6).hex()}.tmp")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        fresh.replace(real)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
