"""For whom a task or a thread works: what a tool starts of its own accord is otherwise told from nothing else."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import ParamSpec, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
T = TypeVar("T")
_Worker: TypeAlias = "asyncio.Task[object] | threading.Thread"

_callers: "WeakKeyDictionary[_Worker, object]" = WeakKeyDictionary()


@contextmanager
def working_for(caller: object) -> Generator[None]:
    """While this task (or this thread, where none runs) works for somebody."""
    worker = _worker()
    before, _callers[worker] = _callers.get(worker), caller
    try:
        yield
    finally:
        _callers[worker] = before


def caller() -> object:
    """For whom this task or this thread works; None where nobody said. What it has started is not known."""
    return _callers.get(_worker()) or _callers.get(threading.current_thread())


def in_thread(function: Callable[P, T]) -> Callable[P, T]:
    """A function that works for the same one in another thread."""
    here = caller()

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with working_for(here):
            return function(*args, **kwargs)

    return call


def _worker() -> _Worker:
    task: asyncio.Task[object] | None = None
    with suppress(RuntimeError):  # no loop runs here
        task = asyncio.current_task()
    return task or threading.current_thread()
