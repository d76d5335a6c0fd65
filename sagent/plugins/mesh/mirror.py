"""A session's log on the bus: the stream has every entry, in order, and takes none from a writer that lost the session.

All agents of a session share one subject, so that one expected sequence fences all of them. A message is a group of
lines, each with its agent in front: `root/review<TAB>{"id":...}`. What was appended while a group was in flight leaves
in the next one, so that a burst costs one acknowledgement.
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
"""Headers: which messages of the session's inbox are among the entries, the name of the files as they are then, blobs
that are new, who holds the session from here on, calls that are about to run, and that this holder says so of each."""
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
    """The log of one session on the bus, and the blobs that it names. Each method raises Unavailable if the bus does
    not answer: then what was asked may have been done."""

    async def append(self, body: bytes, headers: Mapping[str, str], *, name: str, after: int) -> int:
        """Add a message after the one with a sequence number, 0 for the first; its own. The same `name` again, within
        two minutes, is the same message. Raises Fenced where another is the last one."""
        ...

    async def last(self) -> LogMessage | None: ...

    def read(self, after: int = 0) -> AsyncIterator[LogMessage]:
        """Yield all pieces that are there now after a message, in order, as some replica has them."""
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
    """Passes on what is appended to a session's logs. What is appended while `taking` is set is that message of the
    inbox; `files` is said of what is appended from then on.

    Once another writer is met nothing is passed on any more, `fenced` is set, and who waits waits for ever: what waits
    must not happen, and whoever looks after the session cancels it.
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
        """Pass on what is appended from now on, in whatever thread."""
        session.follow(self.hear, self._blobs.append)

    def hear(self, agent: str, entry: Entry) -> None:
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
        """Wait until the bus has acknowledged whatever was appended so far."""
        if self._acknowledged >= self._heard and not self.fenced.is_set():
            return
        future = self._loop.create_future()
        self._waiting.append((self._heard, future))
        await future

    def fence(self) -> None:
        """Pass nothing on from here on."""
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
        """Blobs first, so that no entry in the stream names one that is not there."""
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
        # servers use the ids of calls again, so a mark alone is no name: this message would be taken for an earlier one
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
        """Add a message; None where somebody else has written."""

        async def append() -> int | None:
            try:
                return await self._stream.append(body, headers, name=name, after=self._after)
            except Fenced:
                last = await self._stream.last()
                return last.sequence if last is not None and last.id == name else None  # its answer was lost

        return await self._persist(append)

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of a call, repeated until it reaches the bus; None once others have the session."""
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
    """Have nobody else write to a session's log: whoever did expects another last message from here on. `holder` is a
    name that is used once. The sequence number after which to write. Raises Unavailable."""
    while True:
        last = await stream.last()
        with suppress(Fenced):
            after = 0 if last is None else last.sequence
            said = {HOLDER: holder, MARKS: "begun"}
            return await stream.append(b"", said, name=f"holder:{holder}", after=after)


def mark_of(agent: str, call: str) -> str:
    """Return a header value that stands for a call: ids come from servers, and may be any text."""
    return sha256(f"{agent} {call}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
