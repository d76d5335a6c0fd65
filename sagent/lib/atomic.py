"""A file that is there whole or not at all."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sagent.lib.regular import real_directory


@contextmanager
def atomic_write(path: Path) -> Generator[IO[bytes]]:
    """Yield a file to write, for its owner alone, that takes the place of `path` when the block ends well.

    It is on the disk by then. A link goes on leading where it did. What is no plain file (a pipe, /dev/null) is not
    replaced but written to. Raises OSError; then there is nothing at `path` that was not there before.
    """
    with _whole(Path(os.path.realpath(path))) as file:
        yield file


@contextmanager
def atomic_output(path: Path, mode: int = 0o600) -> Generator[IO[bytes]]:
    """Write a file for people atomically: the target of a link is kept, and the link replaced, unless it leads to
    something other than a plain file (/dev/stdout). `mode` is a new file's, less the umask."""
    with _whole(Path(os.path.realpath(path.parent), path.name), mode) as file:
        yield file


@contextmanager
def _whole(real: Path, mode: int = 0o600) -> Generator[IO[bytes]]:
    if real.exists() and not stat.S_ISREG(real.stat().st_mode):
        with real.open("wb") as file:
            yield file
        return
    with real_directory(real) as (above, name), replacing(name, above, mode) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def put(path: Path, data: bytes) -> None:
    """Put data at a path, whole or not at all, as `atomic_write` does. Raises OSError."""
    with atomic_write(path) as file:
        file.write(data)


@contextmanager
def replacing(name: bytes, directory: int, mode: int = 0o600) -> Generator[IO[bytes]]:
    """Yield a file to write that takes the place of `name` in an open directory, in one step, when the block ends well.

    While it is written it has no name where the system can do that, so that nothing stays of it when this process is
    killed: Linux, on most file systems. Elsewhere it is `.sagent-*.tmp` next to `name`. Raises OSError.
    """
    with _draft(directory) as draft:
        descriptor = _nameless(directory, mode)
        named = descriptor is None
        if descriptor is None:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=directory)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if not named:
                source = f"/proc/self/fd/{descriptor}".encode()
                try:
                    os.link(source, name, dst_dir_fd=directory)
                except FileExistsError:  # only a rename replaces: it has a name between these two calls
                    os.link(source, draft, dst_dir_fd=directory)
                    named = True
        if named:
            os.replace(draft, name, src_dir_fd=directory, dst_dir_fd=directory)


def replace_link(name: bytes, directory: int, target: str) -> None:
    """Put a symbolic link in the place of `name` in an open directory, in one step. Raises OSError."""
    with _draft(directory) as draft:
        os.symlink(os.fsencode(target), draft, dir_fd=directory)
        os.replace(draft, name, src_dir_fd=directory, dst_dir_fd=directory)


@contextmanager
def _draft(directory: int) -> Generator[bytes]:
    """Yield a name for what is to take another's place. Nothing has it any more where that fails."""
    name = os.fsencode(f".sagent-{os.urandom(6).hex()}.tmp")
    try:
        yield name
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def _nameless(directory: int, mode: int) -> int | None:
    """Return new file without a name in a directory; None where there is no such thing, or no way to name it later."""
    way = getattr(os, "O_TMPFILE", 0)
    if not way or not os.path.exists("/proc/self/fd"):  # noqa: PTH110 -- at every write
        return None
    try:
        return os.open(".", way | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=directory)
    except OSError:  # of the directory itself the other way will report it
        return None
