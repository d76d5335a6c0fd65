"""Regular files, read without waiting: what is named like a file may be a FIFO, a device, or without end."""

import errno
import os
import stat
from pathlib import Path

MOST = 1 << 20  # bytes of a file that is read unasked


def read_regular(
    path: str | os.PathLike[str], within: Path | None = None, *, most: int = MOST, cut: bool = False
) -> bytes:
    """The bytes of a regular file; `cut` takes the first `most` of them where it has more.

    Raises OSError, whose `strerror` completes "PATH was not read: ...", for anything else, for a longer one, and for
    one that really lies outside of the directory `within`.
    """
    try:
        real = os.path.realpath(path, strict=True)
    except ValueError:
        raise OSError(errno.EINVAL, "its name holds a zero byte", os.fspath(path)) from None
    if within is not None and not Path(real).is_relative_to(within.resolve()):
        raise OSError(errno.EXDEV, f"it leads out of the project {within}", os.fspath(path))
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"it is {special_kind(mode)}, not a file", os.fspath(path))
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most and not cut:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", os.fspath(path))
    return data[:most]


def special_kind(mode: int) -> str:
    """What stands at a path that is not a regular file."""
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
    kinds |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device")
    return kinds.get(stat.S_IFMT(mode), "something special")
