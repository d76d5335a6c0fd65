"""A connection to the process of a background session."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

from sagent.errors import SagentError
from sagent.lib.json import JsonObject, as_int, as_object, as_str, json_dump, json_load
from sagent.plugins.background.place import UnreachableError, connected
from sagent.plugins.background.records import Record

_MAX_LINE_BYTES = 1 << 28  # of a line; it may contain several base64 images


class RequestError(SagentError):
    """A request that the session's process could not carry out."""

    kind = "failed"


class Connection:
    """A connection, while the block of `to` lasts. `on_line` takes each line that is no answer to a request; None when
    the process has closed it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, tuple[asyncio.Future[JsonObject], Callable[[], object]]] = {}
        self._number = 0
        self.on_line: Callable[[bytes | None, Mapping[str, object]], None] = lambda line, found: None
        self.closed = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def to(cls, record: Record) -> AsyncGenerator[Self]:
        """Connect to a session's process. Raises ForeignSocketError and UnreachableError."""
        bound = connected(Path(record.socket))
        reader, writer = await asyncio.open_unix_connection(sock=bound, limit=_MAX_LINE_BYTES)
        connection = cls(reader, writer)
        reading = asyncio.create_task(connection._read())
        try:
            yield connection
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def ask(self, on_taken: Callable[[], object] = bool, /, **request: object) -> JsonObject:
        """Return the answer to a request. Raises RequestError, and UnreachableError if the process is gone.

        `on_taken` is called when an answer that is no error is read: before any later line is."""
        if self.closed.is_set():
            raise UnreachableError("The session has ended.")
        self._number += 1
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = answer, on_taken
        self._writer.write(json_dump({"to": self._number, **request}).encode("utf-8", "replace") + b"\n")
        found = await answer
        if error := as_str(found.get("error")):
            raise RequestError(error)
        return found

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                found = json_load(line)
                if not isinstance(found, JsonObject):
                    continue
                waiting = self._waiting.pop(as_int(found.get("to")), None) if found.get("kind") == "answer" else None
                if waiting is not None and not waiting[0].done():
                    waiting[0].set_result(found)
                    if not found.get("error"):
                        waiting[1]()
                elif error := as_str(found.get("error")):
                    raise UnreachableError(error)
                else:
                    self.on_line(line, as_object(found))
        except (OSError, ValueError, UnreachableError) as error:
            self._end(str(error))
        else:
            self._end("The session has ended.")

    def _end(self, reason: str) -> None:
        self.closed.set()
        for waiting, _ in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(UnreachableError(reason))
        self._waiting.clear()
        self.on_line(None, {})
