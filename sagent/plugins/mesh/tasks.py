"""Tasks that run next to the work of a session or a node: failures are reported, and each is ended properly."""

import asyncio
from collections.abc import Awaitable, Callable

from sagent.plugins.mesh.errors import MeshError

_REPEAT_INTERVAL_SECONDS = 1.0  # seconds until a task is cancelled or restarted again


async def end(*tasks: "asyncio.Task[object]") -> None:
    """Cancel tasks, and return when they have ended. A cancellation can be lost (bugs.python.org/issue37658), so it is
    repeated."""
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
