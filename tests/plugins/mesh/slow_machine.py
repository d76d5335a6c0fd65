"""A machine with far too much to do, by a clock of its own: whatever runs there runs late. Takes no real time."""

import asyncio
import random
import selectors
from collections.abc import Awaitable, Callable

import pytest

from sagent.plugins.mesh import lease as leases
from sagent.plugins.mesh import names
from sagent.plugins.mesh.buckets import Entry
from sagent.plugins.mesh.errors import Fenced

MAX_LATE_SECONDS, MIN_BLOCK_SECONDS, MAX_BLOCK_SECONDS, ANSWER_SECONDS = 0.4, 3.5, 9.0, 0.01


class _Clock(selectors.DefaultSelector):
    """A selector that waits for nothing: its clock goes on instead, and at each look by some more."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.now, self.chance = 0.0, chance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += (timeout or 0.0) + (self.chance.uniform(0, MAX_LATE_SECONDS) if timeout else 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: _Clock) -> None:
        super().__init__(clock)
        self.machine = clock

    def time(self) -> float:
        return self.machine.now

    def block(self) -> None:
        """Work that lets nothing else of the process run."""
        self.machine.now += self.machine.chance.uniform(MIN_BLOCK_SECONDS, MAX_BLOCK_SECONDS)


class SlowBus:
    """A bus elsewhere, which answers in time: a bucket whose keys expire."""

    def __init__(self, loop: _Loop) -> None:
        self.machine, self._count = loop, 0
        self._keys: dict[str, tuple[Entry, float]] = {}

    def bucket(self, _: str) -> "SlowBus":
        return self

    async def create(self, key: str, value: bytes, *, timeout: float, ttl: float = names.LEASE_TTL) -> int:
        return await self.update(key, value, 0, timeout=timeout, ttl=ttl)

    async def update(
        self, key: str, value: bytes, revision: int, *, timeout: float, ttl: float = names.LEASE_TTL
    ) -> int:
        here = await self.get(key)
        if (here.revision if here else 0) != revision:
            raise Fenced("another has it")
        self._count += 1
        self._keys[key] = Entry(key, value, self._count), self.machine.time() + ttl
        number = self._count
        await asyncio.sleep(ANSWER_SECONDS)
        return number

    async def delete(self, key: str, revision: int, *, timeout: float) -> None:
        here = await self.get(key)
        if here is None or here.revision != revision:
            raise Fenced("another has it")
        del self._keys[key]

    async def get(self, key: str) -> Entry | None:
        entry, end = self._keys.get(key, (None, 0.0))
        return entry if self.machine.time() < end else None


def on_slow_machine(work: Callable[[SlowBus], Awaitable[None]], seed: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Do this work, and return how many seconds it took on that machine."""
    loop = _Loop(_Clock(random.Random(seed)))
    monkeypatch.setattr(leases, "clock", loop.time)
    monkeypatch.setattr(leases.random, "uniform", random.Random(seed).uniform)

    async def limited() -> None:
        async with asyncio.timeout(3_600):
            await work(SlowBus(loop))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(limited())
        return loop.time()
