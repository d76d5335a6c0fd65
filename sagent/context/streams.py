"""Streams of models, closed by who reads them."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sagent.model import Delta, Reply


@asynccontextmanager
async def closing(items: AsyncIterator[Delta | Reply]) -> AsyncGenerator[AsyncIterator[Delta | Reply]]:
    """Close a model's stream at the end of the block: one that is left half read would go on until it is collected."""
    try:
        yield items
    finally:
        close: Callable[[], Awaitable[None]] | None = getattr(items, "aclose", None)
        if close is not None:
            await close()
