"""For whom code works: what a tool starts of its own accord cannot be recognised otherwise."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_held: "ContextVar[list[object] | None]" = ContextVar("caller", default=None)  # emptied when the work is over


@contextmanager
def working_for(caller: object) -> Generator[None]:
    """While this code, and the tasks and threads of asyncio that it starts, work for somebody."""
    before, held = _held.get(), [caller]
    _held.set(held)
    try:
        yield
    finally:
        held.clear()  # what it has left running works for nobody
        _held.set(before)


def caller() -> object:
    """For whom this code works; None where nobody said, or where that work is over."""
    return next(iter(_held.get() or ()), None)
