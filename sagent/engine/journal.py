"""What an agent writes while it works: entries in its log, and events for its listeners."""

import asyncio
from collections.abc import Callable
from typing import Literal, TypeAlias

from sagent.events import Event, Notice
from sagent.session.contents import Content
from sagent.session.log import Log

Listener: TypeAlias = Callable[[Event], None]


class Journal:
    """One agent's log and listeners. If the log cannot be written, it is given up and the run continues."""

    def __init__(self, path: str, log: Log) -> None:
        self.path, self.log = path, log
        self.lost = False  # nothing is logged any more
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a function with every event, at once and in the loop's thread; call the returned function to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(self, event: Event) -> None:
        """Pass an event to every listener. If one fails, that is reported to the loop's handler and the run continues;
        but a broken pipe ends the run, because nobody reads it any more."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except BrokenPipeError:
                raise
            except Exception as error:
                context = {"message": f"a listener failed on {type(event).__name__}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    def notify(self, level: Literal["info", "warning"], text: str) -> None:
        """Emit a notice."""
        self.emit(Notice(self.path, level, text))

    def record(self, content: Content | Callable[[], Content]) -> str:
        """Append to the log; returns the entry's id. If that fails, the run continues and reports it once, and the id
        is "". Nothing is logged after a failure, even if the disk has room again: a history with a gap is worse than a
        short one."""
        if self.lost:
            return ""
        try:
            return self.log.append(content() if callable(content) else content).id
        except OSError as error:
            self.lost = True
            self.notify(
                "warning",
                f"The log cannot be written ({error.strerror or error}); the run continues, but nothing more is "
                "saved. Free some space or fix the directory, then start again with --continue.",
            )
            return ""

    def keep(self, data: bytes) -> str:
        """Keep media as a blob; the name by which the log refers to it."""
        return self.log.blobs.put(data).name

    def close(self) -> None:
        """Close the log: nobody reads further entries of this agent."""
        self.lost = True
        self.log.close()

    async def make_durable(self) -> None:
        """Make sure that the log is on the disk."""
        if not self.lost:
            try:
                await asyncio.to_thread(self.log.sync)
            except OSError as error:
                self.notify("warning", f"The log could not be synced to disk: {error}")
