"""The creation time of a file, from its file system. Renaming does not change it, and nobody can set it."""

import os
import struct
import sys

# man 2 statx
_HERE, _NO_FOLLOW, _BIRTH = -100, 0x100, 0x800
_SIZE, _PLACE = 256, 80  # bytes of the struct, and offset of the time in it


def born(path: bytes) -> int | None:
    """Return a file's birth in nanoseconds since the epoch; None if it is unknown."""
    if sys.platform != "linux":
        try:
            seconds: object = getattr(os.lstat(path), "st_birthtime", None)
        except OSError:
            return None
        return int(seconds * 1e9) if isinstance(seconds, float) else None
    from ctypes import CDLL, create_string_buffer

    statx = getattr(CDLL(None), "statx", None)  # glibc has it since 2.28
    found = create_string_buffer(_SIZE)
    if statx is None or statx(_HERE, path, _NO_FOLLOW, _BIRTH, found) != 0:
        return None
    if not struct.unpack_from("I", found)[0] & _BIRTH:
        return None
    seconds, nanoseconds = struct.unpack_from("qI", found, _PLACE)
    return int(seconds * 10**9 + nanoseconds)
