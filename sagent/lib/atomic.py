"""Files that are written completely or not at all."""

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sagent.lib.regular import real_directory


@contextmanager
def atomic_write(path: Path) -> Generator[IO[bytes]]:
    """Yield a private file to write, which replaces `path` when the block succeeds.

    By then it is synced to disk. A link keeps leading to its target, which is replaced. Anything but a regular file (a
    pipe that is read, /dev/null) is written to directly. Raises OSError and then leaves no new file at `path`.
    """
    with _whole(Path(os.path.realpath(path)), opener=_unwaiting) as file:
        yield file


@contextmanager
def atomic_output(path: Path, mode: int = 0o600) -> Generator[IO[bytes]]:
    """Write a file for people atomically: a link is replaced and its target kept, unless it leads to something other
    than a regular file (/dev/stdout). `mode` is a new file's, less the umask."""
    with _whole(Path(os.path.realpath(path.parent), path.name), mode) as file:
        yield file


@contextmanager
def _whole(real: Path, mode: int = 0o600, opener: Callable[[str, int], int] | None = None) -> Generator[IO[bytes]]:
    if real.exists() and not stat.S_ISREG(real.stat().st_mode):
        with open(real, "wb", opener=opener) as file:
            yield file
        return
    with real_directory(real) as (above, name), replacing(name, above, mode) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _unwaiting(name: str, flags: int) -> int:
    """Open a file. Raises OSError for a pipe that nobody reads, which could be waited for without end."""
    descriptor = os.open(name, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def put(path: Path, data: bytes) -> None:
    """Put data at a path, whole or not at all, as `atomic_write` does. Raises OSError."""
    with atomic_write(path) as file:
        file.write(data)


@contextmanager
def replacing(name: bytes, directory: int, mode: int = 0o600) -> Generator[IO[bytes]]:
    """Yield a file to write that replaces `name` in an open directory, in one step, when the block succeeds.

    If the system allows (Linux, on most file systems), it has no name while it is written, so that nothing is left if
    this process is killed. Elsewhere it is `.sagent-*.tmp` next to `name`. Raises OSError.
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
    """Replace `name` in an open directory by a symbolic link, in one step. Raises OSError."""
    with _draft(directory) as draft:
        os.symlink(os.fsencode(target), draft, dir_fd=directory)
        os.replace(draft, name, src_dir_fd=directory, dst_dir_fd=directory)


@contextmanager
def _draft(directory: int) -> Generator[bytes]:
    """Yield a temporary name for a replacement, which is removed on failure."""
    name = os.fsencode(f".sagent-{os.urandom(6).hex()}.tmp")
    try:
        yield name
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def _nameless(directory: int, mode: int) -> int | None:
    """Return a new file without a name in a directory; None if the system cannot make or later name one."""
    way = getattr(os, "O_TMPFILE", 0)
    if not way or not os.path.exists("/proc/self/fd"):  # noqa: PTH110 -- at every write
        return None
    try:
        return os.open(".", way | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=directory)
    except OSError:  # the other way will report an error of the directory itself
        return None
