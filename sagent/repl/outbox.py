"""Messages that the agent has not read yet."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass
from sagent.messages import Message
from sagent.repl.view.panel import Queued

if TYPE_CHECKING:
    from sagent.agent import Agent


@dataclass(frozen=True, slots=True)
class Waits:
    """A message that was not read yet; one that was `sent` is the agent's already, an `early` one came before there was
    a session."""

    message: Message
    typed: str
    sent: bool = False
    early: bool = False


class Outbox:
    """Messages in the order in which they were typed. Those that begin a turn are taken with `next`."""

    def __init__(self) -> None:
        self._prompts: asyncio.Queue[Message | None] = asyncio.Queue()
        self._waits: list[Waits] = []

    async def next(self) -> Message | None:
        """The message that begins the next turn; None where somebody called `wake`."""
        return await self._prompts.get()

    def wake(self) -> None:
        """Have `next` return."""
        self._prompts.put_nowait(None)

    @property
    def begins(self) -> bool:
        return not self._prompts.empty()

    @property
    def queued(self) -> Sequence[Queued]:
        return [Queued(wait.typed, wait.sent) for wait in self._waits]

    @property
    def is_unread(self) -> bool:
        """Whether the agent has been sent something that it has not read."""
        return any(wait.sent for wait in self._waits)

    def begin(self, message: Message) -> None:
        """Begin a turn with a message."""
        self._prompts.put_nowait(message)

    def keep(self, message: Message, typed: str, *, early: bool) -> None:
        """Keep a message until the turn ends, or until there is a session."""
        self._waits.append(Waits(message, typed, early=early))

    def send(self, agent: "Agent", message: Message, typed: str) -> None:
        """Send a message to the turn in progress."""
        self._waits.append(Waits(message, typed, sent=True))
        agent.send(message, "now")

    def on_read(self, message: Message) -> None:
        self._waits = [wait for wait in self._waits if not (wait.sent and wait.message is message)]

    def on_opened(self) -> None:
        """A session is open: a message from before it begins its first turn."""
        if any(wait.early for wait in self._waits):
            self.release()

    def release(self) -> None:
        """Begin a turn with the first message that waits."""
        queued = self._first()
        if queued is not None:
            self._waits.remove(queued)
            self.begin(queued.message)

    def pass_on(self, agent: "Agent") -> None:
        """The turn would end now: send the first message that waited for that."""
        queued = self._first()
        if queued is not None:
            self._waits[self._waits.index(queued)] = replace(queued, sent=True)
            agent.send(queued.message, "idle")

    def recall(self) -> str | None:
        """Take the last message that was kept back, as it was typed; None where there is none."""
        queued = next((wait for wait in reversed(self._waits) if not wait.sent), None)
        if queued is None:
            return None
        self._waits.remove(queued)
        return queued.typed

    def _first(self) -> Waits | None:
        return next((wait for wait in self._waits if not wait.sent), None)
