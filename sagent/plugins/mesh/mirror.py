"""A session's log on the bus: the stream has all entries in order, and accepts none from a writer that lost the
session.

All agents of a session share one subject, so that one expected sequence fences all of them. A message is a group of
lines, each prefixed by its agent: `root/review<TAB>{"id":...}`. Entries appended while a group is in flight form the
next one, so that a burst costs one acknowledgement.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypeVar

from sagent.lib.dataclass import dataclass
from sagent.plugins.mesh.errors import Fenced, Unavailable
from sagent.session.entries import Entry
from sagent.session.store import Session

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

TAKEN, FILES, BLOBS, HOLDER = "Sagent-Taken", "Sagent-Files", "Sagent-Blobs", "Sagent-Holder"
BEGUN, MARKS = "Sagent-Begun", "Sagent-Marks"
"""Headers: inbox messages among the entries, the name of the files at that time, new blobs, the session's holder from
here on, calls about to run, and that this holder reports each of these."""
MAX_MESSAGE_BYTES = 1 << 20  # of lines in a message; a longer line goes to the object store
_RETRY_DELAY_SECONDS, _MAX_RETRY_DELAY_SECONDS = 0.1, 1.0  # seconds between two tries to reach the bus


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A message of a session's log, as the stream has it."""

    sequence: int
    id: str
    headers: Mapping[str, str]
    body: bytes


class LogStream(Protocol):
    """The log of one session on the bus, and its blobs. Each method raises Unavailable if the bus does not answer: the
    operation may have been carried out."""

    async def append(self, body: bytes, headers: Mapping[str, str], *, name: str, after: int) -> int:
        """Add a message after the one with a sequence number, 0 for the first; return its own. The same `name` within
        two minutes is the same message. Raises Fenced if another is the last one."""
        ...

    async def last(self) -> LogMessage | None: ...

    def read(self, after: int = 0) -> AsyncIterator[LogMessage]:
        """Yield all pieces after a message in order, as some replica has them."""
        ...

    async def put_blob(self, sha256: str, data: bytes) -> None: ...

    async def get_blob(self, sha256: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Line:
    """An entry, or only the mark of a call that is about to run."""

    agent: str
    entry: Entry | None
    taken: int
    files: str
    begun: str = ""

    @property
    def text(self) -> bytes:
        return b"" if self.entry is None else self.entry.line


class Mirror:
    """Passes on entries appended to a session's logs. Entries appended while `taking` is set stand for that inbox
    message; `files` applies to later entries.

    Once another writer is met, nothing more is passed on, `fenced` is set, and waiters wait for ever, because their
    effects must not happen; the session's worker cancels them.
    """

    def __init__(self, stream: LogStream, after: int, files: str = "") -> None:
        self.taking, self.files = 0, files
        self.fenced = asyncio.Event()
        self._stream, self._after = stream, after
        self._loop = asyncio.get_running_loop()
        self._lines: deque[_Line] = deque()
        self._blobs: deque[Path] = deque()
        self._heard = self._acknowledged = 0
        self._wake = asyncio.Event()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def follow(self, session: Session) -> None:
        """Pass on entries from now on, in the appending thread."""
        session.follow(self.on_entry, self._blobs.append)

    def on_entry(self, agent: str, entry: Entry) -> None:
        """Send an entry that was appended to an agent's log."""
        self._add(_Line(agent, entry, self.taking, self.files))

    def begin(self, agent: str, call: str) -> None:
        """Mark a call that will run once this mark is acknowledged."""
        self._add(_Line(agent, None, self.taking, self.files, mark_of(agent, call)))

    def _add(self, line: _Line) -> None:
        self._lines.append(line)
        self._heard += 1
        self._loop.call_soon_threadsafe(self._wake.set)

    async def settled(self) -> None:
        """Wait until the bus has acknowledged all entries so far."""
        if self._acknowledged >= self._heard and not self.fenced.is_set():
            return
        future = self._loop.create_future()
        self._waiting.append((self._heard, future))
        await future

    def fence(self) -> None:
        """Pass nothing more on."""
        self.fenced.set()
        self._wake.set()

    async def run(self) -> None:
        """Publish until cancelled or fenced."""
        while not self.fenced.is_set():
            await self._wake.wait()
            self._wake.clear()
            while self._lines and not self.fenced.is_set():
                await self._publish(self._next())

    def _next(self) -> list[_Line]:
        group, size = [self._lines.popleft()], 0
        while self._lines and (size := size + len(self._lines[0].text)) <= MAX_MESSAGE_BYTES:
            group.append(self._lines.popleft())
        return group

    async def _publish(self, group: list[_Line]) -> None:
        """Publish blobs first, so that no entry in the stream names a missing one."""
        names: list[str] = []
        while self._blobs:
            path = self._blobs.popleft()
            await self._put(path.name, await asyncio.to_thread(path.read_bytes))
            names.append(path.name)
        parts = [f"{line.agent}\t".encode() + await self._short(line.text) for line in group if line.text]
        last, taken = group[-1], dict.fromkeys(str(line.taken) for line in group if line.taken)
        begun = ",".join(line.begun for line in group if line.begun)
        said = {TAKEN: ",".join(taken), FILES: last.files, BLOBS: ",".join(names), BEGUN: begun}
        headers = {name: text for name, text in said.items() if text}
        # servers reuse call ids, so a mark alone would make this look like an earlier message
        name = f"{last.begun} after {self._after}" if last.entry is None else last.entry.id
        if (sequence := await self._append(b"".join(parts), headers, name)) is None:
            self.fence()
            return
        self._after = sequence
        self._acknowledged += len(group)
        while self._waiting and self._waiting[0][0] <= self._acknowledged:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    async def _short(self, line: bytes) -> bytes:
        """Return a line, or the name of the blob that it is."""
        if len(line) <= MAX_MESSAGE_BYTES:
            return line
        name = sha256(line).hexdigest()
        await self._put(name, line)
        return f"@{name}\n".encode()

    async def _put(self, name: str, data: bytes) -> None:
        await self._persist(lambda: self._stream.put_blob(name, data))

    async def _append(self, body: bytes, headers: Mapping[str, str], name: str) -> int | None:
        """Add a message; return None if another writer has written."""

        async def append() -> int | None:
            try:
                return await self._stream.append(body, headers, name=name, after=self._after)
            except Fenced:
                last = await self._stream.last()
                return last.sequence if last is not None and last.id == name else None  # its answer was lost

        return await self._persist(append)

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Repeat a call until it reaches the bus, and return its result; None once others have the session."""
        wait = _RETRY_DELAY_SECONDS
        while not self.fenced.is_set():
            with suppress(Unavailable):
                return await call()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.fenced.wait()
            wait = min(wait * 2, _MAX_RETRY_DELAY_SECONDS)
        return None


async def take_over(stream: LogStream, holder: str) -> int:
    """Exclude other writers from a session's log, because their expected last message no longer matches. `holder` is a
    unique name. Return the sequence number to write after. Raises Unavailable."""
    while True:
        last = await stream.last()
        with suppress(Fenced):
            after = 0 if last is None else last.sequence
            said = {HOLDER: holder, MARKS: "begun"}
            return await stream.append(b"", said, name=f"holder:{holder}", after=after)


def mark_of(agent: str, call: str) -> str:
    """Return a header value for a call, because its id comes from a server and may be any text."""
    return sha256(f"{agent} {call}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
