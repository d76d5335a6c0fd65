"""Waits for what another process or task does; fails with a message where it does not come."""

import asyncio
import os
import signal
import subprocess
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
SECONDS = 30.0


def wait_until(
    condition: Callable[[], T],
    what: str = "what the test waits for",
    *,
    child: subprocess.Popen[bytes] | None = None,
    seconds: float = SECONDS,
) -> T:
    """The condition's value once it is true. A `child` that ends before that fails the test at once."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        code = None if child is None else child.poll()
        assert code is None, f"{what}: did not happen before the program ended with code {code}"
        assert time.monotonic() < end, f"{what}: did not happen within {seconds:g} seconds"
        time.sleep(0.01)
    return value


def stop(pid: int) -> None:
    """Stop a process. One thread of it gets the signal, and until that has its turn the others go on: on a busy machine
    long enough to answer a request."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: set(states(pid)) <= {"T"}, f"the stop of process {pid}")


def states(pid: int) -> Sequence[str]:
    """Return the state of each thread of a process, as `ps` names it."""
    tasks = Path(f"/proc/{pid}/task")
    if tasks.is_dir():
        found = list[str]()
        for task in tasks.iterdir():
            with suppress(OSError):  # it has ended
                found.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        return found
    listed = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return [line.strip()[:1] for line in listed.stdout.splitlines()]


@asynccontextmanager
async def started(*argv: str | Path, seconds: float = 4 * SECONDS, **options: Any) -> AsyncGenerator[Process]:
    """Start a program for the block, which may last so long; a test that fails leaves nothing of it to the next one."""
    process = await asyncio.create_subprocess_exec(*argv, **options)
    try:
        async with asyncio.timeout(seconds):
            yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def until(
    condition: Callable[[], T],
    what: str = "what the test waits for",
    *,
    task: asyncio.Task[object] | None = None,
    seconds: float = SECONDS,
    pause: float = 0.005,
) -> T:
    """The condition's value once it is true. A `task` that ends before that fails the test at once."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert task is None or not task.done(), f"{what}: did not happen before {task!r} ended"
        assert time.monotonic() < end, f"{what}: did not happen within {seconds:g} seconds"
        await asyncio.sleep(pause)
    return value
