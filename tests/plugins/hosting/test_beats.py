"""Items with beats between them."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from sagent.plugins.hosting.beats import with_beats


async def test_items_closed_despite_repeated_cancel() -> None:
    closed = list[str]()

    async def items() -> AsyncGenerator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            closed.append("closed")

    read = asyncio.Event()

    async def reader() -> None:
        async for _ in with_beats(items(), 60):
            read.set()

    task = asyncio.create_task(reader())
    await read.wait()
    while not task.done():  # as anyio does it
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["closed"]
