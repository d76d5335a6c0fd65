"""A session's log in JetStream."""

from collections.abc import AsyncIterator, Mapping

from sagent.errors import SessionCorrupt
from sagent.plugins.mesh import names
from sagent.plugins.mesh.connection import Message
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.mirror import LogMessage


class SessionStream:
    """The LogStream of a session on a bus."""

    def __init__(self, bus: JetStream, session: str) -> None:
        self._bus, self._subject = bus, names.log_subject(session)
        self._store = bus.store(names.BLOBS)

    async def append(self, body: bytes, headers: Mapping[str, str], *, name: str, after: int) -> int:
        return await self._bus.append(self._subject, body, id=name, expected=after, headers=headers)

    async def last(self) -> LogMessage | None:
        found = await self._bus.last_message(names.LOG, self._subject)
        return None if found is None else _piece(found)

    async def read(self, after: int = 0) -> AsyncIterator[LogMessage]:
        async for message in self._bus.read(names.LOG, self._subject, after):
            yield _piece(message)

    async def put_blob(self, sha256: str, data: bytes) -> None:
        if not await self._store.has(sha256):
            await self._store.put(sha256, data)

    async def get_blob(self, sha256: str) -> bytes:
        if (data := await self._store.get(sha256)) is None:
            raise SessionCorrupt(f"blob {sha256} is missing on the bus")
        return data


def _piece(message: Message) -> LogMessage:
    return LogMessage(message.sequence, message.headers.get("Nats-Msg-Id", ""), message.headers, message.data)
