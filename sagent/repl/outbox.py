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
class Waits(Queued):
    """A message that was not read yet; an `early` one came before there was a session."""

    message: Message
    early: bool = False


class Outbox:
    """Messages in the order in which they were typed. Those that begin a turn are in `prompts`, where None only wakes
    whoever waits for one."""

    def __init__(self) -> None:
        self.prompts: asyncio.Queue[Message | None] = asyncio.Queue()
        self._waits: list[Waits] = []

    @property
    def queued(self) -> Sequence[Queued]:
        return self._waits

    @property
    def is_unread(self) -> bool:
        """Whether the agent has been sent something that it has not read."""
        return any(wait.sent for wait in self._waits)

    def keep(self, message: Message, typed: str, *, early: bool) -> None:
        """Keep a message until the turn ends, or until there is a session."""
        self._waits.append(Waits(typed, sent=False, message=message, early=early))

    def send(self, agent: "Agent", message: Message, typed: str) -> None:
        """Send a message to the turn in progress."""
        self._waits.append(Waits(typed, sent=True, message=message))
        agent.send(message, "now")

    def on_read(self, message: Message) -> None:
        self._waits = [wait for wait in self._waits if not (wait.sent and wait.message is message)]

    def on_opened(self) -> None:
        """A session is open: a message from before it begins its first turn."""
        if any(wait.early for wait in self._waits):
            self.release()

    def release(self) -> None:
        """Begin a turn with the first message that waits."""
        if kept := self._kept():
            self._waits.remove(kept[0])
            self.prompts.put_nowait(kept[0].message)

    def pass_on(self, agent: "Agent") -> None:
        """The turn would end now: send the first message that waited for that."""
        if kept := self._kept():
            self._waits[self._waits.index(kept[0])] = replace(kept[0], sent=True)
            agent.send(kept[0].message, "idle")

    def recall(self) -> str | None:
        """Take the last message that was kept back, as it was typed; None where there is none."""
        if not (kept := self._kept()):
            return None
        self._waits.remove(kept[-1])
        return kept[-1].text

    def _kept(self) -> list[Waits]:
        return [wait for wait in self._waits if not wait.sent]
