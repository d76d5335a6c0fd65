"""Sessions that commands read: those of this machine, and those of a bus, as it has them; and which bus that is."""

import asyncio
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from sagent.errors import SessionNotFound, UsageError
from sagent.sandbox.scratch import temporary

BUS = "SAGENT_BUS"
"""The variable that names the bus of a person."""


def bus_url(given: object) -> str:
    """The bus of a flag, or of the environment. Raises UsageError."""
    if not (url := str(given or os.environ.get(BUS, ""))):
        raise UsageError(f"No bus is given: give --bus URL or set {BUS}. To start one: sagent bus")
    return url


@contextmanager
def reading(find: Callable[[], Path], name: str | None, bus: str | None) -> Generator[Path]:
    """Where a session is read while the block lasts. Raises as `locating` does."""
    with locating(find, name, bus) as (path, _):
        yield path


@contextmanager
def locating(find: Callable[[], Path], name: str | None, bus: str | None) -> Generator[tuple[Path, bool]]:
    """Where a session is read while the block lasts: what `find` returns, or a copy of what a bus has, which is that of
    a URL or, for one that is not found here, of SAGENT_BUS; and whether it is a copy. Raises UsageError,
    SessionNotFound, SessionCorrupt and MeshError."""
    if bus is None:
        try:
            found = find()
        except SessionNotFound:
            if not name or not (bus := os.environ.get(BUS, "")):
                raise
        else:
            yield found, False
            return
    if not name:
        raise UsageError("No session of the bus is named: give its id, or the beginning of its id.")
    with temporary() as directory:
        yield asyncio.run(_fetch(bus, name, directory)), True


async def _fetch(url: str, session: str, directory: Path) -> Path:
    from sagent.mesh.remote import Mesh

    async with Mesh.connect(url) as mesh:
        return await mesh.fetch(session, directory)
