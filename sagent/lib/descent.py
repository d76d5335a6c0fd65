"""Processes that descend from one, or write to its output: found in /proc whatever they did to environment, session and
files, and ended."""

import asyncio
import contextlib
import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

MAX_SECONDS = 10.0  # for processes to end
_PAUSE_SECONDS = 0.02
_GLANCE_SECONDS = 0.0003
_QUIET_SECONDS = 0.05  # without another one with the mark, until there is none


class Descent:
    """The processes below one, those that hold the writing end of the pipe which is its output, and those that carry a
    mark. Where there is no /proc, none are seen; nor are those that have dropped all that and whose parents ended."""

    def __init__(self, root: int, output: int, mark: str = "", shelved: int = 0) -> None:
        """Watch the processes below `root`; `output` is the number of a pipe's file (st_ino), or 0, and `mark` is in
        their environment or the name of their open file `shelved`."""
        self._root, self._output, self._mark, self._shelved = root, output, mark, shelved
        self._known: dict[int, bytes] = {}  # when each began, by its number: numbers are used again

    def look(self) -> None:
        """Add those that are there now."""
        running = {pid: found for pid in _numbers() if (found := _state(pid)) is not None and found[0] != b"Z"}
        below = {
            self._root,
            *(pid for pid, began in self._known.items() if pid in running and running[pid][2] == began),
        }
        waiting = True
        while waiting:
            more = {pid for pid, (_, parent, _) in running.items() if int(parent) in below and pid not in below}
            below |= more
            waiting = bool(more)
        own = os.getpid()
        writers = (pid for pid in running if self._output and pid not in below and _writes_to(pid, self._output))
        found = [pid for pid in (*below, *writers) if pid in running and pid != own]
        self._known |= {pid: running[pid][2] for pid in sorted(found, key=lambda pid: (int(running[pid][2]), pid))}

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all that are left, to each before those below it: a shell says how its commands ended."""
        for pid in self.left():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def left(self) -> tuple[int, ...]:
        """Return the numbers of those that have not ended."""
        found = ((pid, began, _state(pid)) for pid, began in self._known.items())
        return tuple(pid for pid, began, state in found if state and state[0] != b"Z" and state[2] == began)

    async def end(self) -> tuple[int, ...]:
        """Kill all of them, and what they start meanwhile; return those that could not be ended in MAX_SECONDS."""
        deadline = time.monotonic() + MAX_SECONDS
        self.look()
        while (left := self.left()) and time.monotonic() < deadline:
            self.signal(signal.SIGKILL)
            await asyncio.sleep(_PAUSE_SECONDS)
            self.look()
        return (*left, *(await asyncio.to_thread(self._chase, deadline) if self._mark else ()))

    def _chase(self, deadline: float) -> tuple[int, ...]:
        """Kill what carries the mark as soon as it is there, for it may fork and end before a look at all is done;
        return the last one if there is still another at the deadline."""
        seen, last, quiet_since = frozenset[int](), 0, time.monotonic()
        while (now := time.monotonic()) < quiet_since + _QUIET_SECONDS:
            if now > deadline:
                return (last,) if last else ()
            there = frozenset(_numbers())
            for pid in there - seen - {os.getpid()}:
                if self._bears_mark(pid):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                    last, quiet_since = pid, now
            seen = there
            time.sleep(_GLANCE_SECONDS)
        return ()

    def _bears_mark(self, pid: int) -> bool:
        try:
            if self._mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return True
            return self._mark in str(Path(f"/proc/{pid}/fd/{self._shelved}").readlink())
        except OSError:  # it has ended, is another user's, or has no such file
            return False


def _numbers() -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 -- names only


def _state(pid: int) -> tuple[bytes, bytes, bytes] | None:
    """Return a process's state, its parent, and when it began; None if it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return words[0], words[1], words[19]
    except (OSError, IndexError):
        return None


def _writes_to(pid: int, pipe: int) -> bool:
    target = f"pipe:[{pipe}]"
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 -- of all processes
            path = f"/proc/{pid}/fd/{name}"
            if os.readlink(path) == target and os.lstat(path).st_mode & stat.S_IWUSR:  # noqa: PTH115 -- the same
                return True
    except OSError:  # it has ended, or is another user's
        return False
    return False
