"""Tasks that run next to the work of a session or a node: failures are reported, and each is ended properly."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sagent.plugins.mesh.errors import MeshError

_REPEAT_INTERVAL_SECONDS = 1.0  # seconds until a task is cancelled or restarted again


def drop_error(task: "asyncio.Future[Any]") -> None:
    """Take the error of a task that nobody waits for any more: asyncio would report it as one that nobody has seen."""
    if task.done() and not task.cancelled():
        task.exception()


async def end(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks, and return when they have ended, with whatever error. A cancellation can be lost
    (bugs.python.org/issue37658), so it is repeated."""
    for task in tasks:
        task.add_done_callback(drop_error)
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_REPEAT_INTERVAL_SECONDS)


async def keep_running(work: Callable[[], Awaitable[None]]) -> None:
    """Run a listening or announcing task until cancelled; restart it after long outages of the bus."""
    while True:
        try:
            return await work()
        except MeshError:
            await asyncio.sleep(_REPEAT_INTERVAL_SECONDS)
