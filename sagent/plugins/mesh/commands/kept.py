"""Sessions on a bus, for commands that read sessions; and the choice of that bus."""

import os
from collections.abc import Sequence
from pathlib import Path

from sagent.errors import UsageError

BUS = "SAGENT_BUS"
"""The variable that names the bus of a person."""


def bus_url(value: object) -> str:
    """Return the bus of a flag, or of the environment. Raises UsageError."""
    if not (url := str(value or os.environ.get(BUS, ""))):
        raise UsageError(f"No bus is given: give --bus URL or set {BUS}. To start one: sagent bus")
    return url


async def fetch(url: str, session: str, directory: Path) -> Path:
    """Copy a session of a bus into a directory, and return its path. Raises SessionNotFound and MeshError."""
    from sagent.plugins.mesh.remote import Mesh

    async with Mesh.connect(url) as mesh:
        return await mesh.fetch(session, directory)


async def rows(url: str) -> Sequence[tuple[str, ...]]:
    """Return the id, state, node and title of each session of a bus, the latest last. Raises MeshError."""
    from sagent.plugins.mesh.remote import Mesh

    async with Mesh.connect(url) as mesh:
        return [(each.id, each.state, each.node, each.title) for each in await mesh.sessions()]
