"""A Python function in a process of its own, for data that can ask for hours and gigabytes, or end its reader.

That process has none of our environment and sets its own limits; who starts it ends it. macOS takes the limit of memory
and does not keep it: there the ones of time must do.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MEMORY = 1_000_000_000  # bytes of address space
SECONDS = 20  # of a processor
_START = "import sys; sys.path[:] = sys.argv[1:]; from %(module)s import %(function)s; %(function)s()"
_FROM_OUTSIDE = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # without which some Pythons do not start


def command(module: str, function: str) -> list[str]:
    """The command line that calls a function of ours, which begins with `limit`."""
    packages = Path(__file__).parents[2]
    start = _START % {"module": module, "function": function}
    return [sys.executable, "-I", "-S", "-c", start, str(packages), *filter(os.path.isabs, sys.path)]


def environment() -> Mapping[str, str]:
    """What it gets of our environment."""
    return {name: os.environ[name] for name in _FROM_OUTSIDE if name in os.environ}


def limit() -> None:
    """Bound this process, where the system can: what is refused, or bounded more tightly already, stays as it is."""
    try:
        import resource
    except ImportError:
        return
    for bound, most in (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_CORE, 0):
        soft, _ = resource.getrlimit(bound)
        if soft == resource.RLIM_INFINITY or soft > most:
            with suppress(OSError, ValueError):
                resource.setrlimit(bound, (most, most + (bound == resource.RLIMIT_CPU)))
