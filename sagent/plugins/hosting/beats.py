"""Heartbeats for a reader that waits."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def with_beats(items: AsyncGenerator[T], seconds: float) -> AsyncGenerator[T | None]:
    """Yield the items, and None after some seconds without one. Closes them at its end."""

    async def take() -> T:
        return await anext(items)

    task: asyncio.Task[T] | None = None
    async with aclosing(items):
        try:
            while True:
                task = task or asyncio.create_task(take())
                if not (await asyncio.wait([task], timeout=seconds))[0]:
                    yield None
                    continue
                done, task = task, None
                try:
                    item = done.result()
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if task is not None:
                task.cancel()
                await _end_of(task)


async def _end_of(task: asyncio.Task[T]) -> None:
    """Wait for the end of a task, however often the waiter is cancelled."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
