"""Access to paths in directories that commands may still be changing: no link on the way is followed."""

import contextlib
import errno
import os
import stat
from collections.abc import Generator
from pathlib import Path

from sagent.lib.regular import open_real

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_MAX_FILE_BYTES = 1 << 24


@contextlib.contextmanager
def anchored(path: str, *, opening: bool = False) -> Generator[Path]:
    """Yield a path that stays valid even if directories above it are moved, where the system supports that. Raises
    OSError if a directory is gone or is a link. With `opening`, closed directories are made accessible."""
    *above, name = Path(path).parts
    way = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    directory = os.open(above[0], way)
    try:
        for each in above[1:]:
            outer = directory
            directory = os.open(each, way, dir_fd=outer)
            os.close(outer)
            own = f"/proc/self/fd/{directory}"
            if opening and not os.access(own, os.X_OK, effective_ids=True):
                os.chmod(own, os.fstat(directory).st_mode | stat.S_IRWXU)  # noqa: PTH101 -- as the others here
        own = Path(f"/proc/self/fd/{directory}")
        yield (own if own.is_dir() else Path(path).parent) / name
    finally:
        os.close(directory)


def set_aside(place: Path, quarantine: Path) -> None:
    """Move what lies at a place into a directory, or under another name beside it where that directory is on another
    disk: nothing is copied, because it may be large, or a pipe. A hook is moved out of its directory."""
    if os.path.lexists(place):
        name = f"{place.name}.undone-{os.urandom(4).hex()}"
        try:
            quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.rename(quarantine / name)
        except OSError:
            place.parent.chmod(place.parent.stat().st_mode | stat.S_IRWXU)  # a command may have closed it
            place.rename(place.parent.parent / name if place.parent.name == "hooks" else place.with_name(name))


def copy_tree(source: Path, target: Path) -> None:
    """Copy a file, directory or link to a free path: links as links, with modes and times. Anything else is skipped.
    Parent directories are used as they are. Raises OSError, also if something appears at the target meanwhile."""
    above, below = os.open(source.parent, _DIRECTORY), os.open(target.parent, _DIRECTORY)
    try:
        _copy(source.name, above, target.name, below)
    finally:
        os.close(above)
        os.close(below)


def _copy(name: str, source_fd: int, new: str, target_fd: int) -> None:
    found = os.stat(name, dir_fd=source_fd, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(name, dir_fd=source_fd), new, dir_fd=target_fd)
        return
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return
    source = target = -1
    try:
        if stat.S_ISDIR(found.st_mode):
            source = open_real(name, _DIRECTORY, source_fd)
            os.mkdir(new, 0o700, dir_fd=target_fd)
            target = open_real(new, _DIRECTORY, target_fd)
            for each in os.listdir(source):  # noqa: PTH208 -- a descriptor
                _copy(each, source, each, target)
        else:
            source = open_real(name, os.O_RDONLY | os.O_NONBLOCK, source_fd)
            target = open_real(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, target_fd)
            _copy_bytes(source, target)
        os.fchmod(target, stat.S_IMODE(found.st_mode))
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        for descriptor in (source, target):
            if descriptor >= 0:
                os.close(descriptor)


def _copy_bytes(source: int, target: int) -> None:
    if not stat.S_ISREG(os.fstat(source).st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    left = _MAX_FILE_BYTES
    while data := os.read(source, min(left, 1 << 20)):
        left -= len(data)
        while data:
            data = data[os.write(target, data) :]
