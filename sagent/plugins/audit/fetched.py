"""Sessions for commands that read them: local ones, and those in a plugin's store."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sagent.config.plugins import named_errors
from sagent.errors import SessionNotFound, UsageError
from sagent.plugin import Store, resolve
from sagent.sandbox.scratch import temporary

if TYPE_CHECKING:
    from sagent.cli.flags import Parser


class StoreAt(NamedTuple):
    """A store, and its address."""

    store: Store
    address: str
    plugin: str = ""

    def rows(self) -> Sequence[tuple[str, ...]]:
        """Return the rows of the listed sessions, each starting with its id. Raises SagentError."""
        with named_errors(f"The store {self.store.name}", self.plugin):
            listing = cast("Callable[[str], Coroutine[Any, Any, Sequence[tuple[str, ...]]]]", resolve(self.store.rows))
            return asyncio.run(listing(self.address))

    def fetch(self, session: str, directory: Path) -> Path:
        """Copy a session into a directory, and return its path. Raises SessionNotFound and other SagentErrors."""
        with named_errors(f"The store {self.store.name}", self.plugin):
            fetching = cast("Callable[[str, str, Path], Coroutine[Any, Any, Path]]", resolve(self.store.fetch))
            return asyncio.run(fetching(self.address, session, directory))


def _stores() -> Sequence[tuple[str, Store]]:
    """Return the stores, each with the name of its plugin."""
    import sys

    from sagent.cli.flags import plugins_of

    return plugins_of(sys.argv[1:]).owned(Store)


def add_stores(parser: "Parser", *, listing: bool = False) -> None:
    """Add a flag for each remote place of sessions."""
    for _, store in _stores():
        text = store.listing if listing else store.help
        parser.add_argument(f"--{store.name}", metavar=store.metavar, help=text)


def elsewhere(options: Mapping[str, object]) -> StoreAt | None:
    """Return the place that a flag of `add_stores` names; None for this machine. Raises UsageError for two."""
    known = [(store, options.get(_member(store)), name) for name, store in _stores()]
    found = [StoreAt(store, str(url), name) for store, url, name in known if url is not None]
    if len(found) > 1:
        raise UsageError(f"Give only one of {' and '.join(f'--{each.store.name}' for each in found)}.")
    return found[0] if found else None


def _member(store: Store) -> str:
    return store.name.replace("-", "_")


def _of_environment() -> StoreAt | None:
    known = ((store, os.environ.get(store.variable, ""), name) for name, store in _stores())
    return next((StoreAt(store, address, name) for store, address, name in known if address), None)


@contextmanager
def reading(find: Callable[[], Path], name: str | None, place: StoreAt | None) -> Generator[Path]:
    """Yield the directory to read a session from, valid within the block. Raises as `locating` does."""
    with locating(find, name, place) as (path, _):
        yield path


@contextmanager
def locating(
    find: Callable[[], Path], name: str | None, place: StoreAt | None
) -> Generator[tuple[Path, StoreAt | None]]:
    """Yield the directory of a session, and the remote place it is a copy of: the result of `find`, a copy from
    `place`, or, for a session that is not found here, a copy from the store that a variable names. Raises UsageError,
    SessionNotFound, SessionCorrupt, and the store's errors."""
    if place is None:
        try:
            found = find()
        except SessionNotFound:
            if not name or (place := _of_environment()) is None:
                raise
        else:
            yield found, None
            return
    if not name:
        raise UsageError(f"No session of the {place.store.name} is named: give its id, or the beginning of its id.")
    with temporary() as directory:
        yield place.fetch(name, directory), place
