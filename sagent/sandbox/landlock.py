"""The wall of Linux where bubblewrap cannot stand: Landlock and seccomp, raised by a small program for each command.

What it cannot hold of a profile is said, so that somebody is asked instead.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagent.sandbox.profile import Profile, is_below

_PLACE = Path(__file__).parent
# Imported rather than run, so that Python has it compiled. What comes before lies in Python's own directories.
_START = "import sys; sys.path.append(sys.argv.pop(1)); import confine; confine.main()"
MOST_PROCESSES = 4096  # threads counted
_PATIENCE = 20.0  # seconds for a command that does nothing


def count_tasks(processes: str = "/proc", uid: int | None = None) -> int:
    """How many threads run there, of all users or of one."""
    found = 0
    for name in os.listdir(processes):  # noqa: PTH208 -- this and what follows come before every command
        with contextlib.suppress(OSError):
            tasks = os.stat(f"{processes}/{name}/task") if name.isdigit() else None  # noqa: PTH116
            found += tasks.st_nlink - 2 if tasks and uid in (None, tasks.st_uid) else 0
    return found


def available() -> str:
    """Why it does not work here; "" where it does. Tried for real, which takes some 20 ms."""
    if sys.platform != "linux":
        return f"there is no Landlock for {sys.platform}"
    try:
        tried = subprocess.run(
            wrap(["true"], Profile(), network=False),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Landlock could not be tried: {error}"
    if not tried.returncode:
        return ""
    return tried.stderr.decode(errors="replace").strip() or f"a command within Landlock ended with {tried.returncode}"


def wrap(
    argv: Sequence[str],
    profile: Profile,
    *,
    network: bool,
    scratch: str | os.PathLike[str] | None = None,
    memory: int | None = None,
    processes: int | None = None,
    mark: int | None = None,
) -> list[str]:
    """The command line that runs another within a profile. With `network` any host may be reached, else none.

    `scratch` may be written too. `memory` bounds the data of each process, in bytes; `processes` bounds how many the
    user may have, those outside included. By the `mark` it is found, and all that it starts. Exits with 126 and a
    sentence on standard error where the wall cannot be raised; nothing has run then. Inherited descriptors, the
    directory, the environment and signals stay as they are.
    """
    writable = (*profile.writable, *([os.fspath(scratch)] if scratch else ()))
    return [
        *(os.path.realpath(sys.executable), "-X", "utf8", "-I", "-S", "-c", _START, str(_PLACE)),
        *(f"write={path}" for path in writable),
        *(f"hide={path}" for path in profile.hidden if not is_below(path, writable)),
        *(f"show={path}" for path in profile.exposed),
        *(["network"] if network else ()),
        *([] if memory is None else [f"data={memory}"]),
        *([] if processes is None else [f"processes={processes}"]),
        *([] if mark is None else [f"mark={mark}"]),
        *("--", *argv),
    ]


def marked(*marks: int) -> list[int]:
    """The processes that run with one of these marks."""
    wanted = {str(mark) for mark in marks}
    return [int(place.name) for place in Path("/proc").glob("[0-9]*") if _mark(place) in wanted]


def end(*marks: int) -> None:
    """Kill all that run with one of these marks, and what they start meanwhile."""
    deadline = time.monotonic() + _PATIENCE
    while (found := marked(*marks)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _mark(place: Path) -> str:
    """What a process is marked with; "" for one that has ended, or is somebody else's."""
    try:
        if place.stat().st_uid != os.geteuid():
            return ""
        lines = (place / "limits").read_text().splitlines()
        if (place / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z":
            return ""
        return next(line for line in lines if line.startswith("Max file locks")).split()[4]
    except (OSError, IndexError, StopIteration):
        return ""


def gaps(profile: Profile) -> tuple[str, ...]:
    """What is not held of a profile, as phrases."""
    return tuple(_gaps(profile))


def _gaps(profile: Profile) -> Iterator[str]:
    from sagent.sandbox.confine import Kernel

    for path in profile.hidden:
        if is_below(path, profile.writable) and os.path.lexists(path):
            yield f"{path} can be read"
    for path in profile.protected:
        if is_below(path, profile.writable):
            yield f"{path} can be written"
    for path in (os.path.realpath(sys.executable), os.path.realpath(os.__file__), os.path.realpath(_PLACE)):
        if is_below(path, profile.writable):
            yield f"{path}, by which commands are held, can be written"
    if profile.domains:
        yield f"every host can be reached, not only {', '.join(profile.domains)}"
    abi = Kernel().abi()
    if abi < 3:
        yield "files outside can be emptied: that is refused from Linux 6.2 on"
    if abi < 6:
        yield "your other processes can be sent signals: that is refused from Linux 6.12 on"
