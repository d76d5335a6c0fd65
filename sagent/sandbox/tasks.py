"""Processes of commands, counted and found where no namespace separates them from others."""

import contextlib
import os
import signal
import time

from sagent.lib.locklimit import LOCKS
from sagent.lib.process import spawn_aside

MAX_THREADS = 4096
_TIMEOUT_SECONDS = 20.0
# Its standard input ends with us. Processes that start others during a look are found by the next.
_WATCH = """trap '' HUP INT QUIT TERM PIPE; read -r word && exit
for look in $(seq 200); do
    found=$(grep -lsE "^Max file locks +($1|$2) " /proc/[0-9]*/limits)
    if [ "$found" ]; then clear=; elif [ "$clear" ]; then exit; else clear=yes; fi
    for each in $found; do each=${each%/limits}; [ -O "$each" ] && kill -KILL "${each#/proc/}"; done
    sleep 0.04 || sleep 1
done"""


def count_tasks(processes: str = "/proc", uid: int | None = None) -> int:
    """Count the threads there, of all users or of one."""
    found = 0
    for name in os.listdir(processes):  # noqa: PTH208 -- this and what follows come before every command
        with contextlib.suppress(OSError):
            tasks = os.stat(f"{processes}/{name}/task") if name.isdigit() else None  # noqa: PTH116
            found += tasks.st_nlink - 2 if tasks and uid in (None, tasks.st_uid) else 0
    return found


def marked(*marks: int) -> list[int]:
    """Return the processes with one of these marks: a limit of locks, which child processes inherit."""
    numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 -- after every command
    return [pid for pid in numbers if _mark(pid) in marks and _runs(pid)]


def end(*marks: int) -> None:
    """Kill all processes with one of these marks, and those they start meanwhile."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while (found := marked(*marks)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


class Watchdog:
    """Kills all processes with one of two marks once this process has ended in any way, or this object is collected."""

    def __init__(self, mark: int, other_mark: int) -> None:
        """Raises OSError."""
        self._line = -1
        reading, self._line = os.pipe()
        try:
            process = spawn_aside(["/bin/sh", "-c", _WATCH, "sh", str(mark), str(other_mark)], reading)
        finally:
            os.close(reading)
        self._pid, process.returncode = process.pid, 0  # only `dismiss` waits for it

    def dismiss(self) -> None:
        """End the watchdog without killing anything."""
        if self._line >= 0:
            with contextlib.suppress(OSError):
                os.write(self._line, b"stay\n")
            self.__del__()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)

    def __del__(self) -> None:
        if self._line >= 0:
            os.close(self._line)
            self._line = -1


def _mark(pid: int) -> int:
    import resource

    try:
        return resource.prlimit(pid, LOCKS)[1]
    except OSError:  # ended, or another user's
        return 0


def _runs(pid: int) -> bool:
    """Return True if it is this user's, and no zombie."""
    try:
        own = os.stat(f"/proc/{pid}").st_uid == os.geteuid()  # noqa: PTH116 -- as above
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 -- as above
            return own and file.read().rpartition(b")")[2].split()[:1] not in ([b"Z"], [])
    except OSError:
        return False
