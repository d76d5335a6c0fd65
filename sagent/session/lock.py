"""A lock that admits one writer to a session. The kernel frees it when its holder ends in any way."""

import contextlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from sagent.errors import SessionBusy, SessionNotFound
from sagent.lib import flock
from sagent.lib.json import as_object


class Lock:
    """Holds `<session>/lock` until it is closed. The file names the holder for others."""

    def __init__(self, session: Path) -> None:
        """Take the lock. Raises SessionBusy, and OSError if the file system has no locks or is read-only."""
        self._path, self._owner = session / "lock", os.getpid()
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            raise SessionNotFound(f"no session at {session}") from error
        try:
            self._take(session)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                if os.getpid() == self._owner:  # a process that was forked has the lock as well, as long as it lives
                    flock.unlock(fd)
            os.close(fd)

    def _take(self, session: Path) -> None:
        try:
            flock.lock(self._fd)
        except BlockingIOError as error:
            holder = _holder(self._fd)
            hint = "End that process or wait for it, or start a new session (without --continue and --session)."
            if f" {os.getpid()} (" in holder:
                hint = "That is this process: close the agent that has it, with `async with` or `await agent.aclose()`."
            raise SessionBusy(f"session {session.name} is in use by {holder}. {hint} [{session}]") from error
        if not _same_file(self._fd, self._path):  # deleted between our opening it and our taking it
            raise SessionNotFound(f"session {session.name} was just deleted")
        content = {
            "pid": os.getpid(),
            "host": os.uname().nodename,
            "since": datetime.now(UTC).isoformat(timespec="seconds")[:-6] + "Z",
            "program": Path(sys.argv[0]).name if sys.argv else "",
        }
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, (json.dumps(content) + "\n").encode(), 0)


def in_use(path: Path, name: str = "lock") -> bool:
    """Return True if a process holds a session, or another file of a directory. Leaves no trace. Raises OSError."""
    try:
        fd = os.open(path / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        flock.lock(fd, shared=True)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _holder(fd: int) -> str:
    try:
        holder = as_object(json.loads(os.pread(fd, 4096, 0)))
    except ValueError:  # the holder has not written its name yet
        return "another process"
    return f"process {holder.get('pid')} ({holder.get('program')}) on {holder.get('host')} since {holder.get('since')}"


def _same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
