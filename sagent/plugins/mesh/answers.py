"""The frames of one answer: numbered by the sender, and put in order by the receiver, each exactly once, whatever was
lost or duplicated on the way."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import replace

from sagent.lib.json import json_freeze
from sagent.plugins.mesh.bus import Envelope, Frame, failure
from sagent.plugins.mesh.errors import MeshError

MAX_UNREAD_FRAMES = 1_000  # frames held for a reader; further ones are read again from storage


class AnsweredDelivery(ABC):
    """A delivery answered in numbered frames; the last one acknowledges the message."""

    def __init__(self, envelope: Envelope, sequence: int, deliveries: int, cancel: asyncio.Event) -> None:
        self.envelope, self.sequence, self.deliveries, self.cancel = envelope, sequence, deliveries, cancel
        self._frames = 0

    @abstractmethod
    async def ack(self) -> None: ...

    @abstractmethod
    async def put(self, frame: Frame) -> None:
        """Send a frame to the requester."""

    async def emit(self, frame: object) -> None:
        await self._send(Frame("frame", json_freeze(frame)))

    async def reply(self, body: object) -> None:
        await self._send(Frame("reply", json_freeze(body)))
        await self.ack()

    async def fail(self, message: str, kind: str = MeshError.kind) -> None:
        await self._send(Frame("failed", failure(message, kind)))
        await self.ack()

    async def cancelled(self) -> None:
        await self.cancel.wait()

    async def _send(self, frame: Frame) -> None:
        if self.envelope.answers_to:
            self._frames += 1
            await self.put(replace(frame, number=self._frames, attempt=self.deliveries))


class Answer:
    """Takes frames as they arrive, and returns them in order.

    If the answering process is killed, its message goes to another, which starts the answer anew: frames of earlier
    attempts are then dropped, and the reader gets a "restart" frame before the first new one.
    """

    def __init__(self) -> None:
        self.is_incomplete = False
        """True if a sent frame is missing, so that all of them have to be added again."""
        self._ready: deque[Frame] = deque()
        self._attempt, self._next = 1, 1
        self._ended = False

    def __len__(self) -> int:
        """Return the number of frames that are ready."""
        return len(self._ready)

    def put(self, frame: Frame) -> None:
        """Take a frame that has come."""
        if self._ended or frame.attempt < self._attempt:
            return
        if frame.attempt > self._attempt:
            if self._next > 1:
                self._ready.append(Frame("restart", None, 0, frame.attempt))
            self._attempt, self._next = frame.attempt, 1
        if frame.number < self._next:
            return
        if frame.number > self._next or len(self._ready) > MAX_UNREAD_FRAMES:
            self.is_incomplete = True
            return
        self._next += 1
        self._ended = frame.is_last
        self._ready.append(frame)

    def take(self) -> Frame | None:
        """Return the next frame, if it has arrived."""
        return self._ready.popleft() if self._ready else None
