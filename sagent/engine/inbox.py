"""The inbox: messages wait here until the loop reads them."""

import asyncio
from typing import NamedTuple

from sagent.messages import Message
from sagent.peer import Moment


class Arrived(NamedTuple):
    """A message, the id of its log entry ("" for a prompt, which is read at once), and whether its sender, an agent,
    waits for an answer."""

    message: Message
    entry: str = ""
    answer: bool = False


class Inbox:
    """Messages in order of arrival, each with the moment when it is to be read. Putting never blocks."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Moment, Arrived]] = []
        self._watchers: list[tuple[tuple[Moment, ...], asyncio.Future[None]]] = []

    def put(self, arrived: Arrived, moment: Moment = "now") -> None:
        """Add a message."""
        self._waiting.append((moment, arrived))
        self.nudge(moment)

    def take(self, *, idle: bool = False) -> list[Arrived]:
        """The messages to read before the next model call; when idle, all. Each is returned once."""
        taken = [arrived for moment, arrived in self._waiting if idle or moment != "idle"]
        self._waiting = [] if idle else [item for item in self._waiting if item[0] == "idle"]
        return taken

    def withdraw(self, message: Message) -> list[str]:
        """Remove an unread message; returns the id of its entry, or nothing if it is not there."""
        waiting, self._waiting = self._waiting, [item for item in self._waiting if item[1].message is not message]
        return [arrived.entry for _, arrived in waiting if arrived.message is message]

    def holds(self, *moments: Moment) -> bool:
        """Whether a message for one of these moments (or any) is waiting."""
        return any(not moments or moment in moments for moment, _ in self._waiting)

    def defer(self) -> None:
        """Make waiting messages less urgent: they are read together with the next ones."""
        self._waiting = [("next" if moment == "now" else moment, arrived) for moment, arrived in self._waiting]

    async def arrival(self, *moments: Moment) -> None:
        """Wait until a message for one of the moments (or any) is there, or for a nudge."""
        if not self.holds(*moments):
            await self.nudged(*moments)

    async def nudged(self, *moments: Moment) -> None:
        """Wait for the next message for one of the moments (or any), or for a nudge."""
        watcher = (moments, asyncio.get_running_loop().create_future())
        self._watchers.append(watcher)
        try:
            await watcher[1]
        finally:
            self._watchers.remove(watcher)

    def nudge(self, moment: Moment = "now") -> None:
        """Wake those who wait for such messages, even if there are none."""
        for moments, future in self._watchers:
            if (not moments or moment in moments) and not future.done():
                future.set_result(None)
