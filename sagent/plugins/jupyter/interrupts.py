"""Interruption of a cell: it ends the runs of the notebook's agents, where a kernel alone would wait for them."""

import asyncio
import signal
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TypeAlias

from sagent.agent import Agent

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None


class Interrupts:
    """Handler of SIGINT while a cell runs. `agents` returns those of the notebook.

    A kernel's own handler does not wake a loop that waits, so the runs would go on, and cost.
    """

    def __init__(self, agents: Callable[[], Iterable[Agent[object]]]) -> None:
        self._agents, self._before = agents, None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, *_: object) -> None:
        """Take the signal, in the main thread of a kernel whose loop runs."""
        self.end()
        try:
            self._loop = asyncio.get_running_loop()
            self._before: _Handler = signal.signal(signal.SIGINT, self._handle)
        except (RuntimeError, ValueError):  # no loop: a cell that awaits nothing; not the main thread: a subshell
            self._loop = None

    def end(self, *_: object) -> None:
        """Give the signal back."""
        if self._loop is not None:
            self._loop = None
            if signal.getsignal(signal.SIGINT) == self._handle:
                signal.signal(signal.SIGINT, self._before or signal.default_int_handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        running = [agent for agent in self._agents() if agent.running]
        for agent in running:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(agent.interrupt)  # from a signal: so that the loop wakes
        if not running and callable(self._before):
            self._before(number, frame)
