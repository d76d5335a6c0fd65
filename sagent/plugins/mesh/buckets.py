"""Named values on a bus: keys with their values in buckets, and large values in stores."""

import os
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass
from sagent.plugins.mesh.connection import CALL_TIMEOUT_SECONDS, Message
from sagent.plugins.mesh.errors import Fenced, Unavailable
from sagent.plugins.mesh.streams import Reader, Streams

if TYPE_CHECKING:
    from nats.js.api import ObjectInfo
    from nats.js.object_store import ObjectStore

_MARKER = ("KV-Operation", "Nats-Marker-Reason")  # headers of a key that is gone


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's value and revision; None for a deleted or expired key. `at` is when it was stored (UTC, seconds)."""

    key: str
    value: bytes | None
    revision: int
    at: float = 0.0


class Bucket:
    """A key-value bucket, laid out as NATS lays them out (ADR-8). Keys are made of `names.token` and dots."""

    def __init__(self, bus: Streams, name: str) -> None:
        self._bus, self._stream, self._prefix = bus, f"KV_{name}", f"$KV.{name}."

    async def get(self, key: str) -> Entry | None:
        """Return a key's value; None if it is missing, deleted or expired."""
        entry = await self._last(key)
        return None if entry is None or entry.value is None else entry

    async def create(
        self, key: str, value: bytes, *, timeout: float = CALL_TIMEOUT_SECONDS, ttl: float | None = None
    ) -> int:
        """Set a missing key, for `ttl` seconds, and return its revision. Raises Fenced if it exists, Unavailable."""
        try:
            return await self._write(key, value, 0, timeout=timeout, ttl=ttl)
        except Fenced:
            gone = await self._last(key)
            if gone is None or gone.value is not None:
                raise
            return await self._write(key, value, gone.revision, timeout=timeout, ttl=ttl)

    async def update(
        self,
        key: str,
        value: bytes,
        revision: int,
        *,
        timeout: float = CALL_TIMEOUT_SECONDS,
        ttl: float | None = None,
    ) -> int:
        """Set a key with this revision, and return its new one. Raises Fenced if it has another, Unavailable."""
        return await self._write(key, value, revision, timeout=timeout, ttl=ttl)

    async def put(self, key: str, value: bytes) -> int:
        """Set a key in any case, and return its revision. Raises Unavailable."""
        return await self._write(key, value, None)

    async def delete(self, key: str, revision: int | None = None, *, timeout: float = CALL_TIMEOUT_SECONDS) -> None:
        """Remove a key. Raises Fenced if it has another revision, Unavailable."""
        await self._write(key, b"", revision, {"KV-Operation": "DEL"}, timeout=timeout)

    async def _write(
        self,
        key: str,
        value: bytes,
        expected: int | None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = CALL_TIMEOUT_SECONDS,
        ttl: float | None = None,
    ) -> int:
        mark = os.urandom(12).hex()  # identifies our own write if its answer was lost
        return await self._bus.append(
            self._prefix + key, value, id=mark, expected=expected, headers=headers, ttl=ttl, timeout=timeout
        )

    async def _last(self, key: str) -> Entry | None:
        found = await self._bus.last_message(self._stream, self._prefix + key)
        return None if found is None else _entry(found, self._prefix)

    async def entries(self, *patterns: str) -> list[Entry]:
        """Return the keys that match one of the patterns, with their values; without patterns all."""
        found: dict[str, Entry] = {}
        async with self.watching(*patterns) as changes:
            async for entry in changes:
                if entry is None:
                    break
                found[entry.key] = entry
        return [entry for entry in found.values() if entry.value is not None]

    @asynccontextmanager
    async def watching(self, *patterns: str) -> AsyncGenerator[AsyncGenerator[Entry | None]]:
        """Yield the keys that match, then None, then every change as it comes: over reconnects, so a key may come
        twice. No two patterns may overlap."""
        subjects = [self._prefix + pattern for pattern in patterns or (">",)]
        async with self._bus.following(self._stream, *subjects, latest=True) as messages:
            yield self._changes(messages)

    async def _changes(self, messages: Reader) -> AsyncGenerator[Entry | None]:
        async for message, _ in messages.until_end():
            yield _entry(message, self._prefix)
        yield None
        async for message in messages:
            yield _entry(message, self._prefix)


def _entry(message: Message, prefix: str) -> Entry:
    gone = any(name in message.headers for name in _MARKER)
    return Entry(message.subject.removeprefix(prefix), None if gone else message.data, message.sequence, message.at)


class Store:
    """An object store: large values by name, in chunks, checked by their SHA-256."""

    def __init__(self, bus: Streams, name: str) -> None:
        self._bus, self._name = bus, name
        self._found: ObjectStore | None = None

    async def has(self, name: str) -> bool:
        return await self._info(name) is not None

    async def put(self, name: str, data: bytes) -> None:
        """Store a value under a name, in place of another."""
        found = await self._there()
        await self._bus.call(lambda: found.put(name, data), 6 * CALL_TIMEOUT_SECONDS)

    async def get(self, name: str) -> bytes | None:
        """Return a value; None if it is missing. Raises Unavailable, also if it is damaged."""
        for _ in range(2):  # it may be put anew while it is read
            if (info := await self._info(name)) is None:
                return None
            chunks = self._bus.read(f"OBJ_{self._name}", f"$O.{self._name}.C.{info.nuid}")
            data = b"".join([chunk.data async for chunk in chunks]) if info.size else b""
            if info.digest == f"SHA-256={urlsafe_b64encode(sha256(data).digest()).decode()}":
                return data
        raise Unavailable(f"The object {name} in {self._name} on the bus is damaged.")

    async def delete(self, name: str) -> None:
        from nats.js.errors import NotFoundError

        found = await self._there()
        with suppress(NotFoundError):
            await self._bus.call(lambda: found.delete(name), CALL_TIMEOUT_SECONDS)

    async def _info(self, name: str) -> "ObjectInfo | None":
        from nats.js.errors import NotFoundError

        found = await self._there()
        try:
            return await self._bus.call(lambda: found.get_info(name), CALL_TIMEOUT_SECONDS)
        except NotFoundError:
            return None

    async def _there(self) -> "ObjectStore":
        if self._found is None:
            self._found = await self._bus.call(lambda: self._bus.context.object_store(self._name), CALL_TIMEOUT_SECONDS)
        return self._found
