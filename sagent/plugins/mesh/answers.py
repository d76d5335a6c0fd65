"""The frames of one answer: numbered where they are made, and put in order where they arrive: each once, none missing,
whatever was lost or came twice on the way."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import replace

from sagent.lib.json import json_freeze
from sagent.plugins.mesh.bus import Envelope, Frame, failure
from sagent.plugins.mesh.errors import MeshError

UNREAD = 1_000  # frames that are held for a reader; those beyond are read again from where they are kept


class AnsweredDelivery(ABC):
    """A delivery whose answer goes out by frames: each has its number, and the last one acknowledges the message."""

    def __init__(self, envelope: Envelope, sequence: int, deliveries: int, cancel: asyncio.Event) -> None:
        self.envelope, self.sequence, self.deliveries, self.cancel = envelope, sequence, deliveries, cancel
        self._frames = 0

    @abstractmethod
    async def ack(self) -> None: ...

    @abstractmethod
    async def put(self, frame: Frame) -> None:
        """Send a frame to whoever has asked."""

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
    """Takes frames as they come, and gives them in order.

    Whoever answers may be killed and its message delivered to another, who begins the answer anew: frames of an earlier
    attempt are dropped then, and the reader gets a frame "restart" before the first of the new one.
    """

    def __init__(self) -> None:
        self.is_incomplete = False
        """Whether a frame is missing that has been sent: then all of them are to be put in again."""
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
        if frame.number > self._next or len(self._ready) > UNREAD:
            self.is_incomplete = True
            return
        self._next += 1
        self._ended = frame.is_last
        self._ready.append(frame)

    def take(self) -> Frame | None:
        """Return the next frame, if it is there."""
        return self._ready.popleft() if self._ready else None
