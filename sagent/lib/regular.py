"""Regular files, read without blocking: a named file may be a FIFO, a device, or endless.

Also files opened exactly as checked: commands may replace any directory or file by a link at any moment. A path that
was found without links is opened without following any.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_BYTES = 1 << 20  # of a file that is read unasked
_PASS = os.O_DIRECTORY | (os.O_PATH if sys.platform == "linux" else os.O_RDONLY)  # needs no right to list
# Files of the kernel that are regular by their mode: to read them takes messages away from others, waits, has no end or
# shows memory; to write some of them acts.
_KERNELS = re.compile(
    "kmsg|kcore|kpagecount|kpageflags|kpagecgroup|sysrq-trigger|mem|pagemap|clear_refs|trace_pipe|trace_pipe_raw"
)
_TRACES = ("/sys/kernel/debug/", "/sys/kernel/tracing/")
_GIVEN = re.compile("/dev/(null|stdin|fd/[0-9]+)|/proc/self/fd/[0-9]+")  # as a shell's <(COMMAND)
_MAX_PIECE_BYTES = 1 << 16  # of a file in /proc/sys: the kernel allocates as much memory at once
_LINK = "it leads elsewhere than a moment ago, or in a circle"


def identity(path: str | bytes) -> tuple[int, int] | None:
    """Return the device and inode of a file, or of a link itself; None if it is missing."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def read_regular(
    path: str | os.PathLike[str], root: Path | None = None, *, max_bytes: int = MAX_BYTES, cut: bool = False
) -> bytes:
    """Return the bytes of a regular file; `cut` takes the first `max_bytes` if it has more.

    Raises OSError, whose `strerror` completes "PATH was not read: ...", for anything else, for a longer file, and for
    one that really is outside the directory `root`.
    """
    try:
        real = os.path.realpath(path, strict=True)
    except ValueError:
        raise OSError(errno.EINVAL, "its name has a zero byte", os.fspath(path)) from None
    if root is not None and not Path(real).is_relative_to(root.resolve()):
        raise OSError(errno.EXDEV, f"it leads out of the project {root}", os.fspath(path))
    with open_regular(real) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes and not cut:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes", os.fspath(path))
    return data[:max_bytes]


def open_given(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file that a person named: a regular one, or an inherited descriptor, which may wait. Raises OSError."""
    if _GIVEN.fullmatch(os.fspath(path)) is not None:
        return open(path, "rb")  # noqa: PTH123 -- a descriptor
    return open_regular(os.path.realpath(path, strict=True))


def read_given(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file that `open_given` opens. Raises OSError."""
    with open_given(path) as file:
        return file.read()


def open_regular(real: str | bytes | os.PathLike[str]) -> BufferedReader:
    """Open a regular file at a path without links. Raises OSError, whose `strerror` completes "PATH: ..."."""
    with real_directory(real) as (directory, name):
        if stat_regular(name, directory) is None:  # opening a device may have effects
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), real)
        descriptor = open_real(name, os.O_RDONLY | os.O_NONBLOCK, directory)
    try:
        found = os.fstat(descriptor)
        _check(found, real, descriptor)
        return os.fdopen(descriptor, "rb") if found.st_size else BufferedReader(_Unwaiting(descriptor))
    except BaseException:
        os.close(descriptor)
        raise


def stat_regular(name: bytes, directory: int) -> os.stat_result | None:
    """Stat a regular file of a directory by its name; None if it is missing. Raises OSError."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check(found, os.fsdecode(name), directory)
    return found


def is_regular(real: str) -> bool:
    """Return True if a path without links leads to a regular file."""
    try:
        return stat.S_ISREG(stat_real(real).st_mode)
    except OSError:
        return False


def stat_real(real: str | os.PathLike[str]) -> os.stat_result:
    """Stat the file at a path without links. Raises OSError."""
    with real_directory(real) as (directory, name):
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, _LINK, real)
    if stat.S_ISREG(found.st_mode):
        _check(found, real, real)
    return found


@contextmanager
def real_directory(real: str | bytes | os.PathLike[str], *, make: bool = False) -> Generator[tuple[int, bytes]]:
    """Yield the directory of a path without links, and the path's last name in it; `make` creates missing directories.
    Raises OSError, also if a link has appeared meanwhile."""
    *above, name = os.fsencode(real).split(b"/")
    directory = os.open("/", _PASS | os.O_CLOEXEC)
    try:
        for each in filter(None, above):
            try:
                below = open_real(each, _PASS, directory)
            except FileNotFoundError:
                if not make:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(each, dir_fd=directory)
                below = open_real(each, _PASS, directory)
            os.close(directory)
            directory = below
        yield directory, name or b"."
    finally:
        os.close(directory)


def open_real(name: str | bytes, flags: int, directory: int) -> int:
    """Return a descriptor of this name in a directory. Raises OSError, also for a link."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=directory)
    except OSError:
        if _is_link(name, directory):
            raise OSError(errno.ELOOP, _LINK, name) from None
        raise


def _is_link(name: str | bytes, directory: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


class _Unwaiting(FileIO):
    """A file without a size, as the kernel has them: reading without available data is an error."""

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        piece = memoryview(buffer)[:_MAX_PIECE_BYTES]
        if (read := super().readinto(piece)) is None:
            raise BlockingIOError(errno.EAGAIN, "it has nothing to read now, and sagent does not wait for more")
        return read

    def readall(self) -> bytes:
        parts = bytearray()
        while (part := bytearray(_MAX_PIECE_BYTES)) and (read := self.readinto(part)):
            parts += part[:read]
        return bytes(parts)


def _is_kernels(
    path: str | bytes | os.PathLike[str], status: os.stat_result, place: int | str | os.PathLike[str]
) -> bool:
    """Return True if a regular file is one of the kernel's device-like files, wherever its file system is mounted.
    `place` is the file or its directory."""
    name = os.fsdecode(path)
    if os.major(status.st_dev) or status.st_blocks:  # it is on a disk, or has content in memory
        return False
    if _KERNELS.fullmatch(name.rpartition("/")[2]) is not None:
        return os.statvfs(place).f_blocks == 0  # only file systems of the kernel have no blocks
    return name.startswith(_TRACES)


def _check(status: os.stat_result, path: str | bytes | os.PathLike[str], place: int | str | os.PathLike[str]) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, _LINK, path)
    if not stat.S_ISREG(status.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
        raise OSError(code, f"it is {special_kind(status.st_mode)}, not a file", path)
    if _is_kernels(path, status, place):
        raise OSError(errno.EINVAL, "it is a file of the kernel that acts like a device", path)


def special_kind(mode: int) -> str:
    """Describe the kind of a file."""
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFREG: "a file"}
    kinds |= {stat.S_IFLNK: "a symbolic link", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return kinds.get(stat.S_IFMT(mode), "something special")
