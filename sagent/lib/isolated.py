"""Runs a Python function in a separate process, for data that may take hours and gigabytes, or crash their reader.

That process has none of our environment and sets its own limits; the starter ends it. macOS accepts a memory limit
without enforcing it: there only time limits help.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.lib.process import Finished

MAX_MEMORY_BYTES = 1_000_000_000  # bytes of address space
MAX_CPU_SECONDS = 20  # of a processor
_START = "import sys; sys.path[:] = sys.argv[1:]; from %(module)s import %(function)s; %(function)s()"
_FROM_OUTSIDE = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # some Pythons need these to start


async def run_isolated(module: str, data: bytes, *, seconds: float, max_bytes: int = 1 << 30) -> "Finished | None":
    """Run a module's `answer` on `data` in a separate process and return its output, at most `max_bytes`; None if it
    cannot be started. Raises TimeoutError."""
    import asyncio  # here, because the other process does without, and starts a third faster

    from sagent.lib.process import run

    async with asyncio.timeout(seconds):
        return await run(command(module, "answer"), cwd="/", env=environment(), input=data, max_bytes=max_bytes)


def answer_of(module: str, data: bytes, seconds: float) -> bytes:
    """Return the same, blocking; "" if it fails or takes too long."""
    import subprocess

    argv, own = command(module, "answer"), environment()
    try:
        done = subprocess.run(argv, cwd="/", env=own, input=data, capture_output=True, check=False, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"" if done.returncode else done.stdout


def command(module: str, function: str) -> list[str]:
    """Return the command line that calls a function of ours, which begins with `limit`."""
    packages = Path(__file__).parents[2]
    start = _START % {"module": module, "function": function}
    return [sys.executable, "-I", "-S", "-c", start, str(packages), *filter(os.path.isabs, sys.path)]


def environment() -> Mapping[str, str]:
    """Return the part of our environment that the process gets."""
    return {name: os.environ[name] for name in _FROM_OUTSIDE if name in os.environ}


def limit() -> None:
    """Set limits on this process, as far as the system can; refused or tighter ones stay."""
    try:
        import resource
    except ImportError:
        return
    for bound, most in (
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        soft, _ = resource.getrlimit(bound)
        if soft == resource.RLIM_INFINITY or soft > most:
            with suppress(OSError, ValueError):
                resource.setrlimit(bound, (most, most + (bound == resource.RLIMIT_CPU)))
