"""The lease of a session or a name: a key that expires unless renewed. The bus ensures one holder at a time."""

import asyncio
import time
from typing import Self

from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import Fenced, Unavailable
from sagent.plugins.mesh.jetstream import JetStream

RENEWAL_INTERVAL_SECONDS = 1.0  # seconds between renewals
HOLD_SECONDS = (
    3.0  # seconds after the last renewal in which a holder may act; the key itself lives for the longer LEASE_TTL
)

_RELEASE_TIMEOUT_SECONDS = 1.0  # seconds to release a lease


def clock() -> float:
    """Return seconds, including time the machine slept, because leases expire meanwhile."""
    which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(which)


class Lease:
    """Held from `take` until it is released, or was not renewed for HOLD seconds: `holds` is correct at any moment,
    also in a process that was stopped and resumes. `revision` is different for each holder."""

    def __init__(self, bus: JetStream, subject: str, holder: bytes, revision: int, since: float) -> None:
        self._bucket, self._key, self._holder = bus.bucket(names.LEASES), names.token(subject), holder
        self.revision = self._last = revision
        self._renewed = since
        self.problem: Unavailable | None = None
        """Why it could not be renewed last."""

    @classmethod
    async def take(cls, bus: JetStream, subject: str, holder: str) -> Self | None:
        """Become the holder; return None if there is another. Raises Unavailable."""
        since, value = clock(), holder.encode()
        try:
            revision = await bus.bucket(names.LEASES).create(names.token(subject), value, timeout=HOLD_SECONDS)
        except Fenced:
            return None
        return cls(bus, subject, value, revision, since)

    @classmethod
    async def claim(cls, bus: JetStream, subject: str, holder: str) -> Self | str:
        """Become the holder once a dead holder's lease has expired; else return the living holder. Raises
        Unavailable."""
        bucket, seen = bus.bucket(names.LEASES), 0
        while (lease := await cls.take(bus, subject, holder)) is None:
            entry = await bucket.get(names.token(subject))
            if entry is not None and seen and entry.revision != seen:  # its holder renews it
                return (entry.value or b"").decode("utf-8", "replace")
            seen = seen if entry is None else entry.revision
            await asyncio.sleep(RENEWAL_INTERVAL_SECONDS)
        return lease

    @property
    def holds(self) -> bool:
        """True while this holds the lease; once False, it stays False, and the caller must stop working."""
        if clock() - self._renewed >= HOLD_SECONDS:
            self._renewed = -HOLD_SECONDS
        return self._renewed > 0

    async def keep(self) -> None:
        """Renew the lease; returns when it is lost."""
        while self.holds:
            await asyncio.sleep(RENEWAL_INTERVAL_SECONDS)
            since = clock()
            if not self.holds:
                return
            left = HOLD_SECONDS - (since - self._renewed)
            try:
                self._last = await self._bucket.update(self._key, self._holder, self._last, timeout=left)
                self._renewed = since if self.holds else self._renewed
                self.problem = None
            except Fenced:
                self._renewed = -HOLD_SECONDS
            except Unavailable as error:
                self.problem = error

    async def release(self) -> None:
        """Release it for others at once. If the bus is unreachable it expires by itself."""
        self._renewed = -HOLD_SECONDS
        try:
            await self._bucket.delete(self._key, self._last, timeout=_RELEASE_TIMEOUT_SECONDS)
        except (Fenced, Unavailable):
            return
