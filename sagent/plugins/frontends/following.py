"""The events of a run for a reader that may be slow, or leave."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace

from sagent.agent import Agent
from sagent.errors import BudgetExceeded, ModelError
from sagent.events import Event, Finished, TextDelta, ThinkingDelta, ToolFinished, ToolProgress
from sagent.lib.dataclass import Deps

MAX_BEHIND_CHARS = 8 << 20
"""The most text that may wait for a reader; the run of one that is further behind is interrupted."""
QUIET_SECONDS = 15.0
"""Seconds of silence before a sign of life."""
_EVENT_CHARS = 200  # of an event besides its text


async def follow(
    agent: Agent[Deps], run: Callable[[], Coroutine[None, None, object]], *, quiet: float = QUIET_SECONDS
) -> AsyncGenerator[Event | None, None]:
    """Yield the events of a run, and None after `quiet` seconds without any. Closing this cancels the run.

    Raises the run's errors that are in none of its events.
    """
    waiting = _Waiting(agent.interrupt)
    forget = agent.listen(waiting.add)
    task = asyncio.create_task(run())
    task.add_done_callback(lambda _: waiting.wake.set())
    try:
        while True:
            waiting.wake.clear()
            for event in waiting.take():
                yield event
            if waiting.events:
                continue
            if task.done():
                break
            try:
                await asyncio.wait_for(waiting.wake.wait(), quiet)
            except TimeoutError:
                yield None
        error = task.exception()
        if error is not None and not (waiting.finished and isinstance(error, ModelError | BudgetExceeded)):
            raise error
    finally:
        forget()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


class _Waiting:
    """Events that wait for their reader; neighbouring pieces of a text are joined."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self.events: deque[Event] = deque()
        self.wake, self.finished = asyncio.Event(), False
        self._give_up, self._chars = give_up, 0

    def add(self, event: Event) -> None:
        """Take an event; too much that waits ends the run."""
        last = self.events[-1] if self.events else None
        match event, last:
            case (TextDelta(agent, text), TextDelta(same, before)) if agent == same:
                self.events[-1] = replace(event, text=before + text)
            case (ThinkingDelta(agent, text), ThinkingDelta(same, before)) if agent == same:
                self.events[-1] = replace(event, text=before + text)
            case _:
                self.events.append(event)
        self.finished |= isinstance(event, Finished) and "/" not in event.agent
        self._chars += _size(event)
        if self._chars > MAX_BEHIND_CHARS and not self.finished:
            self._chars = 0
            asyncio.get_running_loop().call_soon(self._give_up)  # not within the run's own step
        self.wake.set()

    def take(self) -> "deque[Event]":
        """Return the events that wait."""
        taken, self.events, self._chars = self.events, deque(), 0
        return taken


def _size(event: Event) -> int:
    match event:
        case TextDelta(text=text) | ThinkingDelta(text=text) | ToolProgress(text=text):
            return len(text) + _EVENT_CHARS
        case ToolFinished(result=result, diff=diff):
            return len(result.text) + len(diff) + _EVENT_CHARS
        case _:
            return _EVENT_CHARS
