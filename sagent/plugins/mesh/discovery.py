"""Discovery of agents and nodes: renewed cards, queries, and watching changes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from sagent.plugins.mesh import names
from sagent.plugins.mesh.bus import Bus
from sagent.plugins.mesh.cards import Card, Change, Query, matches, select
from sagent.plugins.mesh.errors import MeshError


@asynccontextmanager
async def announced(bus: Bus, card: Card | Callable[[], Card]) -> AsyncGenerator[None]:
    """Show a card during the block. If the process is killed, it expires after `names.CARD_TTL` seconds.

    A function returns the current card for each renewal. Raises Unavailable at the start.
    """
    now = card if callable(card) else lambda: card

    async def renew() -> None:
        while True:
            await asyncio.sleep(names.CARD_TTL / 3)
            with suppress(MeshError):  # shown again when the bus is reachable
                await bus.put_card(now())

    await bus.put_card(now())
    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        with suppress(MeshError):
            await bus.remove_card(now().address)


async def find(bus: Bus, *queries: Query) -> list[list[Card]]:
    """Return the present cards that match each query, sorted by address."""
    return select(queries, await bus.cards(*queries))


@asynccontextmanager
async def watching(bus: Bus, query: Query) -> AsyncGenerator[AsyncIterator[Change | None]]:
    """Yield the cards that a query selects, then None, then those that are added, changed or removed."""
    async with bus.watching_cards() as all_changes:
        yield _changes(all_changes, query)


async def _changes(all_changes: AsyncIterator[Change | None], query: Query) -> AsyncIterator[Change | None]:
    shown: dict[str, Card] = {}
    async for change in all_changes:
        if change is None:
            yield None
        elif change.card is not None and matches(query, change.card):
            if shown.get(change.address) != change.card:
                shown[change.address] = change.card
                yield change
        elif shown.pop(change.address, None) is not None:
            yield Change(change.address)
