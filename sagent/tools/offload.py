"""Blocking work in a thread that learns when its caller has stopped waiting."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Outcome = TypeVar("Outcome")


async def offload(work: Callable[[threading.Event], Outcome], *, small: bool = False) -> Outcome:
    """Run `work` in a thread, or at once what is small. Its event is set when the call is cancelled: it should then
    return soon."""
    stop = threading.Event()
    if small:
        return work(stop)
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()
