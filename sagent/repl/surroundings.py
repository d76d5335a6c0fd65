"""Surroundings of a session: the branch that is checked out, how much has changed since, and the project's files."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from sagent.repl.project import branch_of, changed_files, list_files
from sagent.repl.tasks import Tasks

GATHER_SECONDS, REST_SECONDS = 0.3, 1.0  # delay that merges several triggers; least time between two looks


class Surroundings:
    """Updates branch and number of changed files when they may have changed, and reports them."""

    def __init__(self, cwd: Callable[[], Path], tasks: Tasks, report: Callable[[str, int], None]) -> None:
        self._cwd, self._tasks, self._report = cwd, tasks, report
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._again_at = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._files: Sequence[str] = ()
        self._stale = True  # the files

    def look_soon(self) -> None:
        """Look soon, once the current burst of events is over."""
        self._stale = True
        if self._timer is None:
            self._timer = self._loop.call_at(max(self._loop.time() + GATHER_SECONDS, self._again_at), self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._looking is not None and not self._looking.done():
            self.look_soon()
        else:
            self._looking = self._tasks.spawn(self._look())

    async def _look(self) -> None:
        cwd = self._cwd()
        branch = await asyncio.to_thread(branch_of, cwd)
        self._report(branch, await changed_files(cwd) if branch else 0)
        self._again_at = self._loop.time() + REST_SECONDS

    def files(self) -> Sequence[str]:
        """Return the project's files, listed again if they may have changed. Blocks: for a thread."""
        if self._stale:
            self._stale = False
            listing = asyncio.run_coroutine_threadsafe(list_files(self._cwd()), self._loop)
            self._files = listing.result()
        return self._files

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
