"""Lists that come in pages."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

MOST_PAGES = 100  # of one list


class _Page(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


Page = TypeVar("Page", bound=_Page)


async def every_page(read: Callable[[str | None], Awaitable[Page]]) -> list[Page]:
    """The pages of a list, of which a server that never ends has a bounded number."""
    pages = [await read(None)]
    while (cursor := pages[-1].next_cursor) is not None and len(pages) < MOST_PAGES:
        pages.append(await read(cursor))
    return pages
