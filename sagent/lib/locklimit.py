"""The limit of locks marks a command's processes, whatever they do to environment, files and parents."""

import contextlib
import os
import sys

LOCKS = 10
"""The limit of locks (RLIMIT_LOCKS) of Linux, which the kernel ignores: a third mark. All child processes inherit it,
and hardly any program knows it. Under Landlock a command cannot change it; elsewhere it could."""


def first_limit() -> int:
    """Return a limit of locks below our own, which is a mark when sagent runs in sagent, and far above the marks of
    `sandbox.scratch`."""
    import resource

    most = resource.getrlimit(LOCKS)[1] if sys.platform == "linux" else resource.RLIM_INFINITY
    return max(0, (2**63 - 1 if most == resource.RLIM_INFINITY else most) - int.from_bytes(os.urandom(5)) - 1)


def limit_locks(pid: int, limit: int) -> None:
    """Mark a process that was just started, unless a box has marked it. Processes that it has already started are not
    marked: a command's shell therefore marks itself first."""
    if sys.platform != "linux" or limit <= 0:
        return
    import resource

    with contextlib.suppress(OSError, ValueError):  # it has ended, or what we run in refuses it
        if resource.prlimit(pid, LOCKS)[1] in (resource.getrlimit(LOCKS)[1], limit):
            resource.prlimit(pid, LOCKS, (limit, limit))


def limit_of(pid: int) -> int:
    """Return the limit of a process, 0 if it has none. Raises OSError."""
    import resource

    return resource.prlimit(pid, LOCKS)[1] if sys.platform == "linux" else 0
