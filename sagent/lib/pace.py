"""Fairness on the event loop shared by many agents: no round should take long, however much work they have. Blocking
work goes to a thread that learns when its caller has stopped waiting."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

ROUND_SECONDS = 0.004  # seconds of a round of the event loop in which agents may begin work
ABREAST = 4  # waiters that continue in one round
Outcome = TypeVar("Outcome")


class _Pace:
    def __init__(self) -> None:
        self.until = 0.0  # 0 before any work in this round
        self.waiting = deque[asyncio.Future[None]]()

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self.until = perf_counter() + ROUND_SECONDS
        loop.call_soon(self._next_round, loop)

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self.until = 0.0
        for _ in range(min(ABREAST, len(self.waiting))):
            if not (waiter := self.waiting.popleft()).done():
                waiter.set_result(None)
        if self.waiting:
            self.begin(loop)


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pace] = WeakKeyDictionary()


async def give_way() -> None:
    """Wait until the event loop has time. Call it before work that takes a millisecond or so."""
    loop = asyncio.get_running_loop()
    if (pace := _paces.get(loop)) is None:
        pace = _paces[loop] = _Pace()
    if not pace.until:
        pace.begin(loop)
    elif pace.waiting or perf_counter() >= pace.until:
        waiter: asyncio.Future[None] = loop.create_future()
        pace.waiting.append(waiter)
        await waiter


async def offload(work: Callable[[threading.Event], Outcome], *, small: bool = False) -> Outcome:
    """Run `work` in a thread, or at once if it is small. Its event is set when the call is cancelled: it should then
    return soon."""
    stop = threading.Event()
    if small:
        return work(stop)
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()
