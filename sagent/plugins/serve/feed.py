"""The events of one session for its followers: from memory while they are recent, otherwise from the session's logs."""

import asyncio
import re
import secrets
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import replace
from itertools import chain, islice, pairwise
from pathlib import Path

from sagent.events import (
    Event,
    Finished,
    ReplyFinished,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)
from sagent.lib.dataclass import dataclass
from sagent.lib.json import wire_bytes
from sagent.plugins.serve.replayed import replay
from sagent.session.blobs import BlobDirectory
from sagent.session.log import read_end
from sagent.session.names import agent_of
from sagent.session.store import log_files
from sagent.transcript.event_json import encode_event

MAX_MEMORY_BYTES = 256 << 10  # of one session's events to keep in memory
_CHUNK = 64  # events read from logs at a time
_ENDS = 20  # results of runs to remember, because logs have none
_DIGITS = 16  # of an entry's id that an event's has


@dataclass(frozen=True, slots=True)
class Item:
    """An event as JSON. `id` is the position to resume from, "" for an event that is not repeated, or is followed by
    another of its entry. `name` is "" for an event of an agent, else that of one of the server's own: "status";
    "reset", after which logged events follow, and running calls and unfinished texts start over; "live", after which
    events are current; "rewound"."""

    id: str
    name: str
    data: bytes


class Feed:
    """Keeps the latest events, up to a size; earlier ones are read from the logs of the session at `path`.

    A slow follower falls back to the logs, which have complete texts instead of pieces. `on_follow` is called when a
    client begins to follow, and sees events taken from then on.
    """

    def __init__(self, path: Callable[[], Path], on_follow: Callable[[], None] = lambda: None) -> None:
        self._path, self._on_follow = path, on_follow
        self._life = secrets.token_hex(4)  # ids of another process's events are not ours
        self._items: deque[Item] = deque()
        self._size, self._next = 0, 1  # bytes, and the number of the event to come
        self._drafts: dict[tuple[str, type[TextDelta | ThinkingDelta]], list[str]] = {}
        self._calls: dict[tuple[str, str], ToolStarted] = {}  # that run
        self._ends: dict[str, tuple[Finished, int]] = {}  # by the entry after which a run ended, and its number
        self._waiting: set[asyncio.Event] = set()
        self._last = ""  # the beginning of the id of the last entry, whoever wrote it
        self._heads: dict[str, str] = {}  # the last entry of each agent's log
        self.closed = False

    @property
    def followed(self) -> bool:
        return bool(self._waiting)

    def begin(self) -> None:
        """Record the ends of the logs before the first event. Raises OSError."""
        path, latest = self._path(), ""
        for file in log_files(path):
            try:
                entry = read_end(file)[-1]
            except (IndexError, ValueError):
                continue
            self._heads[agent_of(path, file)] = entry.id
            if entry.at >= latest:
                latest, self._last = entry.at, entry.id[:_DIGITS]

    def publish(self, event: Event, entry: str) -> None:
        """Take an event; `entry` is the last one in its agent's log, "" if unknown."""
        # A piece of a text has no entry of its own: the last one of its log may be older than what others have written.
        if entry and self._heads.get(event.agent) != entry and not isinstance(event, TextDelta | ThinkingDelta):
            self._heads[event.agent], self._last = entry, entry[:_DIGITS]
        match event:
            case TextDelta() | ThinkingDelta():
                self._drafts.setdefault((event.agent, type(event)), []).append(event.text)
            case ToolStarted():
                self._calls[event.agent, event.call.id] = event
            case ToolFinished():
                self._calls.pop((event.agent, event.call.id), None)
            case ReplyFinished() | Retrying() | Finished():
                self._drafts = {key: texts for key, texts in self._drafts.items() if key[0] != event.agent}
                self._calls = {key: call for key, call in self._calls.items() if key[0] != event.agent}
            case _:
                pass
        if isinstance(event, Finished) and entry:
            self._ends[entry] = event, self._next
            while len(self._ends) > _ENDS:
                del self._ends[next(iter(self._ends))]
        self._keep(self._id(self._last, self._next), "", wire_bytes(encode_event(event)))

    def report(self, name: str, data: object) -> None:
        """Take an event of the server's own."""
        self._keep("", name, wire_bytes(data))

    def close(self) -> None:
        """End every stream."""
        self.closed = True
        self._wake()

    async def follow(self, after: str = "", last: int | None = None) -> AsyncGenerator[Item]:
        """Yield all events after the one with an id, or from the beginning of the session, and future ones; at most
        `last` of the logged ones."""
        place = self._place(after)
        wake = asyncio.Event()
        self._waiting.add(wake)
        self._on_follow()
        try:
            while not self.closed:
                if place is None:
                    # at one moment: an event that comes while the logs are read is not in them
                    place, begun, logged = self._next, self._begun(), self._read(self._sizes(), after)
                    yield Item("", "reset", b"{}")
                    async for item in _in_chunks(logged, last):
                        yield item
                        after = item.id or after
                    last, after = None, self._id(_entry(after), place - 1)
                    for item in (*begun, Item(after, "live", b"{}")):
                        yield item
                oldest = self._next - len(self._items)
                if place < oldest:
                    place = None
                    continue
                wake.clear()
                for item in list(islice(self._items, place - oldest, None)):
                    yield item
                    place += 1
                    after = item.id or after
                if place == self._next:
                    await wake.wait()
        finally:
            self._waiting.discard(wake)

    def past(self, after: str = "") -> Iterator[Item]:
        """Yield the logged events after the one with an id, or all. Raises OSError."""
        return self._read(self._sizes(), after)

    def _id(self, entry: str, number: int) -> str:
        return f"{entry}.{self._life}.{number}"

    def _number(self, id_: str) -> int:
        """Return the number of the event with an id; -1 if it is not of this process, or from a log."""
        life, _, number = id_.partition(".")[2].partition(".")
        return int(number) if life == self._life and re.fullmatch(r"\d{1,18}", number) else -1

    def _place(self, after: str) -> int | None:
        """Return the number of the next event after the one with an id; None if it is not in memory."""
        place = self._number(after) + 1
        return place if place and self._next - len(self._items) <= place <= self._next else None

    def _read(self, sizes: dict[Path, int], after: str) -> Iterator[Item]:
        """Return the events of logs, and the results of runs that are known now."""
        seen, ends = self._number(after), dict(self._ends)
        known = {entry: event for entry, (event, number) in ends.items() if number > seen}
        path = self._path()

        def id_of(entry: str, event: Event) -> str:
            return self._id(entry[:_DIGITS], ends[entry][1]) if isinstance(event, Finished) else entry[:_DIGITS]

        events = replay(path, sizes, _entry(after), BlobDirectory(path / "blobs").get, known)
        return (Item(id_of(entry, event), "", wire_bytes(encode_event(event))) for entry, event in events)

    def _sizes(self) -> dict[Path, int]:
        """Return the logs' present sizes."""
        return {file: file.stat().st_size for file in log_files(self._path())}

    def _begun(self) -> list[Item]:
        """Return unlogged state: running calls, and unfinished texts, each as one piece."""
        pieces = (kind(agent, "".join(texts)) for (agent, kind), texts in self._drafts.items())
        return [Item("", "", wire_bytes(encode_event(event))) for event in (*self._calls.values(), *pieces)]

    def _keep(self, id_: str, name: str, data: bytes) -> None:
        self._items.append(Item(id_, name, data))
        self._next += 1
        self._size += len(data)
        while self._size > MAX_MEMORY_BYTES and len(self._items) > 1:
            self._size -= len(self._items.popleft().data)
        self._wake()

    def _wake(self) -> None:
        for wake in self._waiting:
            wake.set()


def _entry(id_: str) -> str:
    """Return the beginning of the id of an event's entry; "" for no id of ours, which could begin any."""
    entry = id_.partition(".")[0]
    return entry if re.fullmatch(rf"[0-9a-f]{{{_DIGITS},}}", entry) else ""


async def _in_chunks(items: Iterator[Item], last: int | None) -> AsyncIterator[Item]:
    """Yield items that are read in a thread, at most the `last` ones. An id that the next one has too is left out: who
    resumed from it would miss that."""
    pairs = pairwise(chain(items, (Item("", "", b""),)))
    found = (replace(item, id="") if item.id == later.id else item for item, later in pairs)
    if last is not None:
        found = iter(await asyncio.to_thread(deque, found, last))
    while chunk := await asyncio.to_thread(lambda: list(islice(found, _CHUNK))):
        for item in chunk:
            yield item
