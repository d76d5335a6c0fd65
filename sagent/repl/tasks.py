"""The REPL's background tasks and the display of their errors."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping

from sagent.config.plugins import blame
from sagent.errors import SagentError
from sagent.lib.text import failure
from sagent.repl.view.blocks import Report

CLOSING_SECONDS = 8.0  # that tasks have to end
MAX_SHOWN_DEFECTS = 20


class Tasks:
    """Starts tasks, shows what goes wrong in them, and cancels them in the end."""

    def __init__(self, show: Callable[[Report], None]) -> None:
        self._show = show
        self._running: set[asyncio.Task[None]] = set()
        self._defects: set[str] = set()  # already shown

    def spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.report(error)

    def report(self, error: BaseException) -> None:
        """Show an error; the session continues."""
        text = str(error) if isinstance(error, SagentError) else failure(error)
        self._show(Report(text if isinstance(error, SagentError) else blame(error) or text, "error"))

    def on_defect(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        """Show, once, an error that no caller sees: in a key's handler or in drawing. The session continues."""
        error = context.get("exception")
        text = f"{type(error).__name__}: {error}" if error else str(context.get("message"))
        blamed = blame(error) if isinstance(error, BaseException) else ""
        if text not in self._defects and len(self._defects) < MAX_SHOWN_DEFECTS:
            self._defects.add(text)
            self._show(Report(blamed or f"This is a bug in sagent; /bug shows what to report: {text}", "error"))

    async def close(self) -> None:
        """Cancel all, and wait a few seconds for them to end."""
        tasks = tuple(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_SECONDS)
