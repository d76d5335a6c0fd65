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

from sagent.lib.dataclass import dataclass
from sagent.lib.locklimit import limit_of

MAX_SECONDS = 10.0  # for processes to end
_PAUSE_SECONDS = 0.02
_GLANCE_SECONDS = 0.0003
_QUIET_SECONDS = 0.05  # without a new process with the mark, to be sure that there is none
_MIN_QUIET_LOOKS = 40  # checks within that time: a busy machine may allow only one
_MAX_UNSURE_SECONDS = 1.0  # for which a process that ended before its check counts as marked


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of processes: a word in their environment, or in the name of their open file `shelved`, and their limit of
    locks. "" and 0 or less mean none."""

    word: str = ""
    shelved: int = 0
    limit: int = 0


class Descent:
    """The processes below one, those that hold the writing end of its output pipe, and those with a mark. Without /proc
    none are found; processes that have dropped all of these and whose parents ended are missed, too."""

    def __init__(self, root: int, output: int, marks: Marks | None = None) -> None:
        """Watch the processes below `root`; `output` is the number of a pipe's file (st_ino), or 0."""
        self._root, self._output, self._marks = root, output, marks or Marks()
        self._known: dict[int, bytes] = {}  # start time by number, because numbers are reused

    def look(self) -> None:
        """Add the present processes."""
        running = {pid: state for pid in _numbers() if (state := _state(pid)) is not None and state[0] != b"Z"}
        below = {
            self._root,
            *(pid for pid, began in self._known.items() if pid in running and running[pid][2] == began),
        }
        waiting = True
        while waiting:
            children = {pid for pid, (_, parent, _) in running.items() if int(parent) in below and pid not in below}
            below |= children
            waiting = bool(children)
        own = os.getpid()
        others = (
            pid
            for pid in running
            if pid not in below and (self._has_limit(pid) or (self._output and _writes_to(pid, self._output)))
        )
        descendants = [pid for pid in (*below, *others) if pid in running and pid != own]
        self._known |= {
            pid: running[pid][2] for pid in sorted(descendants, key=lambda pid: (int(running[pid][2]), pid))
        }

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all that are left, to each before those below it: a shell says how its commands ended."""
        for pid in self.left():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def left(self) -> tuple[int, ...]:
        """Return the numbers of running ones."""
        found = ((pid, began, _state(pid)) for pid, began in self._known.items())
        return tuple(pid for pid, began, state in found if state and state[0] != b"Z" and state[2] == began)

    async def end(self) -> tuple[int, ...]:
        """Kill all of them, and those they start meanwhile; return those that could not be ended in MAX_SECONDS."""
        deadline = time.monotonic() + MAX_SECONDS
        self.look()
        while (left := self.left()) and time.monotonic() < deadline:
            self.signal(signal.SIGKILL)
            await asyncio.sleep(_PAUSE_SECONDS)
            self.look()
        return (*left, *(await asyncio.to_thread(self._chase, deadline) if self._marks.word else ()))

    def _chase(self, deadline: float) -> tuple[int, ...]:
        """Kill marked processes as soon as they appear, because they may fork and end before a full look is done;
        return the last one if there is still another at the deadline."""
        seen, last, quiet_since, looks = frozenset(_numbers()), 0, time.monotonic(), 0
        unsure_until = quiet_since + _MAX_UNSURE_SECONDS
        fresh = seen
        while (now := time.monotonic()) < quiet_since + _QUIET_SECONDS or looks < _MIN_QUIET_LOOKS:
            if now > deadline:
                return (last,) if last else ()
            looks += 1
            for pid in fresh - {os.getpid()}:
                if self._bears_mark(pid):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                    last, quiet_since, looks = pid, now, 0
                    unsure_until = now + _MAX_UNSURE_SECONDS
                elif now < unsure_until and _state(pid) is None:
                    quiet_since, looks = now, 0
            time.sleep(_GLANCE_SECONDS)
            present = frozenset(_numbers())
            seen, fresh = present, present - seen
        return ()

    def _bears_mark(self, pid: int) -> bool:
        if self._has_limit(pid):
            return True
        word = self._marks.word
        try:
            if word.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return True
            return word in str(Path(f"/proc/{pid}/fd/{self._marks.shelved}").readlink())
        except OSError:  # ended, another user's, or without such a file
            return False

    def _has_limit(self, pid: int) -> bool:
        try:
            return self._marks.limit > 0 and limit_of(pid) == self._marks.limit
        except OSError:  # it has ended, or is another user's
            return False


def _numbers() -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 -- names only


def _state(pid: int) -> tuple[bytes, bytes, bytes] | None:
    """Return a process's state, its parent, and its start time; None if it has ended."""
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
