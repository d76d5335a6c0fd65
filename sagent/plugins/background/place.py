"""The directory of the sockets of background sessions, and who is at their other end."""

import os
import socket
import stat
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sagent.errors import SagentError, UsageError

MAX_PATH_BYTES = 103
"""The longest path of a socket that every system accepts: 107 on Linux, 103 on macOS."""
_TEMPORARY = Path("/tmp")  # noqa: S108 -- TMPDIR may be too long; the directory below is private
_SUFFIX = ".sock"


class ForeignSocketError(SagentError):
    """A socket, or the directory of one, that belongs to another user."""

    kind = "foreign_socket"


class UnreachableError(SagentError):
    """A socket on which nobody answers."""

    kind = "unreachable"


def socket_path(session: str, environ: Mapping[str, str], temporary: Path = _TEMPORARY) -> Path:
    """Return the path of a session's socket, in a directory that only this user can enter, which is made.

    That is in XDG_RUNTIME_DIR, or where there is none or its path is too long, in /tmp. Raises UsageError if neither
    can be used, and ForeignSocketError for a directory of another user.
    """
    name, uid = f"{session}{_SUFFIX}", os.getuid()
    base = Path(environ.get("XDG_RUNTIME_DIR") or ".")
    if base.is_absolute() and len(os.fsencode(path := base / "sagent" / name)) <= MAX_PATH_BYTES:
        with suppress(OSError):
            if base.stat().st_uid == uid:
                return _private(path.parent) / name
    path = temporary / f"sagent-{uid}" / name
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise UsageError(f"{path} is too long for a socket: set XDG_RUNTIME_DIR to a directory with a shorter path.")
    try:
        return _private(path.parent) / name
    except OSError as error:
        reason = f"{path.parent} cannot be made or used: {error.strerror}"
        raise UsageError(f"{reason}. Set XDG_RUNTIME_DIR to a directory of yours.") from error


def _private(directory: Path) -> Path:
    """Return a directory that only this user can enter, which is made if it is missing."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        what = "belongs to another user" if found.st_uid != os.getuid() else "is no directory"
        raise ForeignSocketError(f"{directory} {what}: set XDG_RUNTIME_DIR to a directory of yours.")
    if stat.S_IMODE(found.st_mode) != 0o700:
        directory.chmod(0o700)
    return directory


def listening(path: Path) -> socket.socket:
    """Return a socket that listens at a path, for this user alone; one that was left there is replaced. Raises
    OSError."""
    bound = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            bound.bind(str(path))
        finally:
            os.umask(before)
        bound.listen(64)
        bound.setblocking(False)  # noqa: FBT003 -- takes no keywords
    except BaseException:
        bound.close()
        raise
    return bound


def connected(path: Path) -> socket.socket:
    """Return a connection to a socket of this user. Raises ForeignSocketError, and UnreachableError if nobody
    listens."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        owner = path.lstat().st_uid
        if owner == os.getuid():
            connection.connect(str(path))
            owner = peer_uid(connection)
    except OSError as error:
        connection.close()
        raise UnreachableError(f"Nobody answers on {path}: {error.strerror or error}.") from error
    if owner != os.getuid():
        connection.close()
        raise ForeignSocketError(f"{path} belongs to another user ({owner}): it is not used.")
    connection.setblocking(False)  # noqa: FBT003 -- takes no keywords
    return connection


def peer_uid(connection: socket.socket) -> int:
    """Return the user of the process at the other end, as the kernel knows it. Raises OSError."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]
    return struct.unpack_from("2I", connection.getsockopt(0, 1, 76))[1]  # LOCAL_PEERCRED: version, user, groups
