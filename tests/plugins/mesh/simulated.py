"""A stream of one session as the bus keeps it, in memory: answers come late, get lost, or nothing can be reached."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping

from sagent.plugins.mesh.errors import Fenced, Unavailable
from sagent.plugins.mesh.mirror import LogMessage


class SimulatedStream:
    def __init__(self, chance: random.Random | None = None) -> None:
        self.pieces: list[LogMessage] = []
        self.blobs: dict[str, bytes] = {}
        self._chance = chance

    async def _journey(self) -> None:
        """The way to the bus or back: some rounds of the loop, at times without an end."""
        if self._chance is not None:
            for _ in range(self._chance.randrange(3)):
                await asyncio.sleep(0)
            if self._chance.random() < 0.1:
                raise Unavailable("lost on the way")

    async def append(self, body: bytes, headers: Mapping[str, str], *, name: str, after: int) -> int:
        await self._journey()
        sequence = next((piece.sequence for piece in self.pieces if piece.id == name), 0)
        if not sequence:
            if after != (self.pieces[-1].sequence if self.pieces else 0):
                raise Fenced("somebody else has written")
            sequence = after + 1
            self.pieces.append(LogMessage(sequence, name, dict(headers), body))
        await self._journey()
        return sequence

    async def last(self) -> LogMessage | None:
        await self._journey()
        return self.pieces[-1] if self.pieces else None

    async def read(self, after: int = 0) -> AsyncIterator[LogMessage]:
        """A replica may lag, by a message or two."""
        lag = self._chance.choice((0, 0, 0, 0, 0, 0, 0, 1, 2)) if self._chance else 0
        for piece in self.pieces[: len(self.pieces) - lag]:
            if piece.sequence > after:
                yield piece

    async def put_blob(self, sha256: str, data: bytes) -> None:
        await self._journey()
        self.blobs[sha256] = data

    async def get_blob(self, sha256: str) -> bytes:
        return self.blobs[sha256]
