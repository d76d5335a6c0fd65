"""The lease of a session or a name: a key that expires unless renewed. The bus ensures one holder at a time.

A holder asks for a lease that outlasts the pauses of its own process (`Pace`): on a machine with far too much to do, a
lease of a few seconds would expire before the process runs again, on each node in turn.
"""

import asyncio
import math
import random
import time
from collections import deque
from typing import Self

from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import Fenced, Unavailable
from sagent.plugins.mesh.jetstream import JetStream

RENEWAL_INTERVAL_SECONDS = 1.0  # seconds between renewals
MARGIN_SECONDS = 1.0  # seconds before a lease's end at which its holder stops acting
_TAKE_TIMEOUT_SECONDS = 3.0  # seconds to take a lease
_RELEASE_TIMEOUT_SECONDS = 1.0  # seconds to release a lease
_PACE_INTERVAL_SECONDS = 0.5  # seconds that are asked for when the pace is measured
_PACE_MEMORY_SECONDS = 60.0  # seconds for which a pause counts


def clock() -> float:
    """Return seconds, including time the machine slept, because leases expire meanwhile."""
    which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(which)


def spread(seconds: float) -> float:
    """Return a delay of about so many seconds, so that those who wait for the same thing do not all come at once."""
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 -- no secret


class Pace:
    """Pauses of this process while it has work: stopped, busy with one thing, or waiting for a processor."""

    def __init__(self) -> None:
        self._pauses: deque[tuple[float, float]] = deque()

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            since = clock()
            await asyncio.sleep(_PACE_INTERVAL_SECONDS)
            self.add(clock() - since - _PACE_INTERVAL_SECONDS)

    def add(self, pause: float) -> None:
        """Count a pause in seconds that ends now. Only those that no longer and later one covers are kept."""
        while self._pauses and self._pauses[-1][1] <= pause:
            self._pauses.pop()
        self._pauses.append((clock(), pause))

    @property
    def longest(self) -> float:
        """The longest pause of the last minute in seconds."""
        while self._pauses and clock() - self._pauses[0][0] > _PACE_MEMORY_SECONDS:
            self._pauses.popleft()
        return self._pauses[0][1] if self._pauses else 0.0

    @property
    def ttl(self) -> float:
        """Seconds that a lease has to last: two of the longest pauses, within the limits of the bus."""
        return min(max(names.LEASE_TTL, math.ceil(2 * self.longest + 2)), names.MAX_LEASE_TTL)


class Lease:
    """Held from `take` until it is released or another has it. `holds` is correct at any moment, also in a process that
    was stopped and resumes: it is False from shortly before the key may have expired until a renewal has shown that
    nobody else had it. `revision` is different for each holder."""

    def __init__(self, bus: JetStream, subject: str, holder: bytes, pace: Pace) -> None:
        self._bucket, self._key, self._holder, self._pace = bus.bucket(names.LEASES), names.token(subject), holder, pace
        self.revision = self._last = 0
        self._until = 0.0  # the end of its holder's right to act, by `clock`
        self._over = False
        self.why = ""
        """Why it is over; "" before, and if it was released."""
        self.problem: Unavailable | None = None
        """Why it could not be renewed last."""

    @classmethod
    async def take(cls, bus: JetStream, subject: str, holder: str, pace: Pace | None = None) -> Self | None:
        """Become the holder; return None if there is another. A holder's name is that of one process
        alone. Raises Unavailable."""
        lease = cls(bus, subject, holder.encode(), pace or Pace())
        since, ttl = clock(), lease._pace.ttl
        timeout = max(_TAKE_TIMEOUT_SECONDS, ttl - MARGIN_SECONDS)
        try:
            revision = await lease._bucket.create(lease._key, lease._holder, timeout=timeout, ttl=ttl)
        except Fenced:
            held = await lease._bucket.get(lease._key)
            if held is None or held.value != lease._holder:
                return None
            try:  # its own, by a request whose answer was lost
                revision = await lease._bucket.update(
                    lease._key, lease._holder, held.revision, timeout=timeout, ttl=ttl
                )
            except Fenced:
                return None
        lease.revision = lease._last = revision
        lease._until = since + ttl - MARGIN_SECONDS
        return lease

    @classmethod
    async def claim(cls, bus: JetStream, subject: str, holder: str, pace: Pace | None = None) -> Self | str:
        """Become the holder once a dead holder's lease has expired; else return the living holder. Raises
        Unavailable."""
        bucket, seen = bus.bucket(names.LEASES), 0
        while (lease := await cls.take(bus, subject, holder, pace)) is None:
            entry = await bucket.get(names.token(subject))
            if entry is not None and seen and entry.revision != seen:  # its holder renews it
                return (entry.value or b"").decode("utf-8", "replace")
            seen = seen if entry is None else entry.revision
            await asyncio.sleep(RENEWAL_INTERVAL_SECONDS)
        return lease

    @property
    def holds(self) -> bool:
        """True while the holder may act."""
        return clock() < self._until

    async def keep(self) -> None:
        """Renew the lease; returns when it is lost. One that was not renewed in time because this process did not run
        is tried once more: the bus renews it only if nobody else has had it since."""
        while not self._over:
            await asyncio.sleep(RENEWAL_INTERVAL_SECONDS)
            since, ttl = clock(), self._pace.ttl
            left = self._until - since
            try:
                timeout = left if left > 0 else MARGIN_SECONDS
                self._last = await self._bucket.update(self._key, self._holder, self._last, timeout=timeout, ttl=ttl)
                self._until, self.problem = since + ttl - MARGIN_SECONDS, None
            except Fenced:
                self._end(f"it expired: this process did not run for {-left:.1f} s too long" if left < 0 else "taken")
            except Unavailable as error:
                self.problem = error
                if not self.holds:
                    self._end(f"it could not be renewed: {error}")

    def _end(self, reason: str) -> None:
        self._over, self._until, self.why = True, 0.0, reason

    async def release(self) -> None:
        """Release it for others at once. If the bus is unreachable it expires by itself."""
        self._over, self._until = True, 0.0
        try:
            await self._bucket.delete(self._key, self._last, timeout=_RELEASE_TIMEOUT_SECONDS)
        except (Fenced, Unavailable):
            return
