"""One way in: messages wait here until the loop reads them."""

import asyncio
from typing import NamedTuple

from sagent.messages import Message
from sagent.peer import Moment

_ORDER: tuple[Moment, ...] = ("now", "next", "idle")


class Arrived(NamedTuple):
    """A message, and the id of the log's entry that says so; "" for a prompt, which is read at once.

    `answer` says that its sender, an agent, waits for one.
    """

    message: Message
    entry: str = ""
    answer: bool = False


class Inbox:
    """Messages by the moment they are to be read. Putting never blocks."""

    def __init__(self) -> None:
        self._waiting: dict[Moment, list[Arrived]] = {moment: [] for moment in _ORDER}
        self._watchers: list[tuple[tuple[Moment, ...], asyncio.Future[None]]] = []

    def put(self, arrived: Arrived, moment: Moment = "now") -> None:
        """Leave a message."""
        self._waiting[moment].append(arrived)
        self.nudge(moment)

    def take(self, *, idle: bool = False) -> list[Arrived]:
        """What is to be read before the next model call; when idle, everything. Each message is given out once."""
        taken: list[Arrived] = []
        for moment in _ORDER if idle else _ORDER[:2]:
            taken += self._waiting[moment]
            self._waiting[moment] = []
        return taken

    async def arrival(self, *moments: Moment) -> None:
        """Wait until a message for one of the moments (any) is there, or somebody nudges."""
        wanted = moments or _ORDER
        if any(self._waiting[moment] for moment in wanted):
            return
        watcher = (wanted, asyncio.get_running_loop().create_future())
        self._watchers.append(watcher)
        try:
            await watcher[1]
        finally:
            self._watchers.remove(watcher)

    def nudge(self, moment: Moment = "now") -> None:
        """Wake who waits for such messages, although there may be none."""
        for moments, future in self._watchers:
            if moment in moments and not future.done():
                future.set_result(None)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))
