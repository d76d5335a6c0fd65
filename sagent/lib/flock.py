"""Locks on open files. Only this module asks the system for them, so that another system needs no other change."""

import errno


def lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file until it is closed. Raises BlockingIOError if another process has it locked and this one does
    not `wait`, and OSError where there are no locks."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
    except ImportError:
        raise OSError(errno.ENOTSUP, "this system has no locks on files") from None
    flock(descriptor, (LOCK_SH if shared else LOCK_EX) | (0 if wait else LOCK_NB))


def unlock(descriptor: int) -> None:
    """Unlock a file before it is closed. Raises OSError."""
    from fcntl import LOCK_UN, flock

    flock(descriptor, LOCK_UN)
