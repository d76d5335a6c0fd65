"""Changes in directories since the last query, reported by Linux (inotify).

Only local file systems are watched, because all their changes pass through this kernel. Two kinds of change are not
reported: through another hard link of a file, and through memory that stays mapped after closing.
"""

import errno
import os
import re
import struct
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from sagent.lib.regular import identity

# man 7 inotify
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED, _CREATED, _DELETED, _MOVED_SELF = 0x2, 0x4, 0x8, 0xC0, 0x100, 0x200, 0x800
_UNMOUNTED, _OVERFLOW, _REMOVED, _IS_DIRECTORY = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORY, _NO_LINK = 0x01000000, 0x02000000
_WANTED = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED | _CREATED | _DELETED | _MOVED_SELF | _ONLY_DIRECTORY | _NO_LINK
_HEAD = struct.Struct("iIII")
_LOCAL = frozenset(b"bcachefs btrfs ext2 ext3 ext4 f2fs jfs overlay ramfs tmpfs xfs zfs".split())


class Changed(NamedTuple):
    """Possible changes: `paths` with an event, all files in `directories` that were not followed yet, and the
    `listings` of directories."""

    paths: frozenset[bytes]
    directories: frozenset[bytes]
    listings: frozenset[bytes]


class Watch:
    """Follows a directory and those below it. Without system support every state is unknown."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._id: tuple[int, int] | None = None
        self._mounts = b""
        self._paths: dict[int, bytes] = {}
        self._followed: set[bytes] = set()
        self._new: set[bytes] = set()
        self._fd = -1
        self._stale = True  # an event was missed, or the followed directories are unknown
        self.works = sys.platform == "linux" and _is_local(root)

    def changed(self) -> Changed | None:
        """Return the possible changes since the last call; None if anything may have changed: then following has ended.
        Call it before reading the directory."""
        if not self.works:
            return None
        found: set[bytes] = set()
        stale = self._stale or identity(self._root) != self._id or _mounts() != self._mounts
        with suppress(BlockingIOError):
            while not stale and (data := os.read(self._fd, 1 << 16)):
                for path, mask in self._events(data):
                    # a rename changed the paths below, or the new content of this path was not reported
                    moved = mask & _MOVED_SELF or (mask & _MOVED and mask & _IS_DIRECTORY)
                    stale = stale or bool(moved or mask & (_OVERFLOW | _UNMOUNTED))
                    found.add(path)
        if stale:
            self._begin()
            return None
        new, self._new = self._new, set()
        listings = {each for path in found for each in (path, path.rpartition(b"/")[0] or b"/")}
        return Changed(frozenset(found), frozenset(new), frozenset(listings | new))

    def missed(self) -> None:
        """Mark the last report as unused, so that it is not relied upon."""
        self._stale = True

    def follow(self, directories: Iterable[bytes]) -> None:
        """Follow these directories too. Earlier changes in new ones are unknown."""
        from ctypes import CDLL, get_errno

        add = CDLL(None, use_errno=True).inotify_add_watch
        for path in directories if self.works else ():
            if path in self._followed:
                continue
            number = int(add(self._fd, path, _WANTED))
            gone = number < 0 and get_errno() in (errno.ENOENT, errno.ENOTDIR)
            if number in self._paths or (number < 0 and not gone) or not self._is_here(path):
                self.close()  # a directory with two paths, too many watches, or another file system
                return
            if gone:
                self._stale = True  # it may come back with files that look already seen
            else:
                self._paths[number] = path
                self._followed.add(path)
                self._new.add(path)

    def close(self) -> None:
        """Stop watching."""
        self.works = False
        if self._fd >= 0:
            self._fd = -1
            self._close()

    def _is_here(self, path: bytes) -> bool:
        """Return True if a directory is on the file system of the first, or does not exist."""
        found = identity(path)
        return found is None or (self._id is not None and found[0] == self._id[0])

    def _events(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        place = 0
        while place < len(data):
            number, mask, _, length = _HEAD.unpack_from(data, place)
            start = place + _HEAD.size
            place = start + length
            above = self._paths.get(number, b"")
            if mask & _REMOVED:
                self._paths.pop(number, None)
                self._followed.discard(above)
            yield above.rstrip(b"/") + b"/" + data[start:place].rstrip(b"\0"), mask

    def _begin(self) -> None:
        """Reset: follow nothing yet."""
        from ctypes import CDLL

        self.close()
        self._id, self._mounts = identity(self._root), _mounts()
        self._paths, self._followed, self._new, self._stale = {}, set(), set(), False
        if _is_local(self._root):
            self._fd = int(CDLL(None).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._fd >= 0:
            self._close = weakref.finalize(self, os.close, self._fd)
            self.works = True


def _is_local(path: bytes) -> bool:
    """Return True if only this machine changes a path's file system, by /proc/self/mountinfo (man 5 proc)."""
    best, kind = b"", b""
    for line in _mounts().splitlines():
        left, _, right = line.partition(b" - ")
        place = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), left.split(b" ")[4])
        if len(place) >= len(best) and (path == place or path.startswith(place.rstrip(b"/") + b"/")):
            best, kind = place, right.split(b" ")[0]
    return kind in _LOCAL


def _mounts() -> bytes:
    """Return the table of mounts: events below a new mount are not reported."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""
