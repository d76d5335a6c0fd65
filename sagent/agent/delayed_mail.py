"""Messages on their way: what is to arrive later is in the root's log until it has, so that it survives the process."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from sagent.engine.state import AgentState
from sagent.messages import Message
from sagent.session.contents import MessageDelivered, MessagePosted
from sagent.session.entries import Entry
from sagent.session.folds import on_their_way
from sagent.session.stored import StoredMessage


class DelayedMail:
    """Delivers messages at a time, while the session is open. `root` is the state of the agent whose log keeps them."""

    def __init__(self, root: AgentState, deliver: Callable[[str, Message], None]) -> None:
        self._root, self._deliver = root, deliver
        self._timers: set[asyncio.TimerHandle] = set()

    @property
    def waiting(self) -> bool:
        """Whether there is a message that has not been delivered yet."""
        return bool(self._timers)

    def later(self, path: str, message: Message, seconds: float) -> None:
        """Deliver a message in some seconds."""
        due = datetime.now(UTC) + timedelta(seconds=seconds)
        entry = MessagePosted(path, StoredMessage.of(message, self._root.journal.keep), due.isoformat())
        self._wait(path, message, seconds, self._root.journal.record(entry))

    def resume(self, entries: Iterable[Entry]) -> None:
        """Take up what an earlier process left in the log; what was due meanwhile arrives now."""
        for found in on_their_way(entries, self._root.log.blobs.get):
            seconds = (found.due - datetime.now(UTC)).total_seconds()
            self._wait(found.to, found.message, max(0.0, seconds), found.entry)

    def close(self) -> None:
        """Deliver nothing any more. What is on its way stays in the log."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _wait(self, path: str, message: Message, seconds: float, entry: str) -> None:
        def arrive() -> None:
            self._timers.discard(timer)
            self._deliver(path, message)
            self._root.journal.record(MessageDelivered(path, entry))
            self._root.inbox.nudge("next")

        timer = asyncio.get_running_loop().call_later(seconds, arrive)
        self._timers.add(timer)
