"""Bodies too large for a message: the bus keeps each under a name, for a week at most."""

from contextlib import suppress

from sagent.plugins.mesh import names
from sagent.plugins.mesh.bus import new_id
from sagent.plugins.mesh.errors import Failed, MeshError
from sagent.plugins.mesh.jetstream import JetStream

MAX_INLINE_BYTES = 512 << 10  # bytes of a body in its message


class LargeBodies:
    """The stored bodies of a bus. Each method but `drop` raises Unavailable."""

    def __init__(self, bus: JetStream) -> None:
        self._store = bus.store(names.PARCELS)

    async def put(self, body: bytes) -> str:
        """Store a body and return its name; "" for one that fits into a message."""
        if len(body) <= MAX_INLINE_BYTES:
            return ""
        await self._store.put(name := new_id(), body)
        return name

    async def get(self, name: str) -> bytes:
        """Return a body. Raises Failed if it is gone."""
        if (body := await self._store.get(name)) is None:
            raise Failed("The body of a message is gone: the bus keeps it for a week. Send it again.")
        return body

    async def drop(self, name: str) -> None:
        """Delete a body that was read, if there is one."""
        if name:
            with suppress(MeshError):  # it goes by itself in a week
                await self._store.delete(name)
