"""The events of a session, reconstructed from its logs: complete ones, without streamed pieces."""

import heapq
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sagent.errors import SessionCorrupt
from sagent.events import (
    Advised,
    Denial,
    Denied,
    Event,
    Notice,
    Received,
    ReplyFinished,
    SessionOpened,
    Switched,
    ToolFinished,
)
from sagent.messages import DENIED, Message, ToolCall
from sagent.session import contents
from sagent.session.entries import Entry, parse_line
from sagent.session.names import agent_of
from sagent.session.view import branch
from sagent.usage import Sum

_Fetch = Callable[[str], bytes]


def replay(
    session: Path, sizes: Mapping[Path, int], after: str, fetch: _Fetch, known: Mapping[str, Event] | None = None
) -> Iterator[tuple[str, Event]]:
    """Yield the events of a session's logs, cut to the given sizes in bytes, each with the id of its entry. With
    `after`, a prefix of an entry's id, yield only events after that entry, on any branch; without it, or if there is no
    such entry, everything except abandoned branches. `known` are events without an entry of their own, by the entries
    that they follow, also by the one with `after`. Raises OSError."""
    streams = [_entries(session, file, size) for file, size in sizes.items()]
    merged = list(heapq.merge(*streams, key=lambda each: each[0]))
    start = next((place + 1 for place, (_, _, entry) in enumerate(merged) if after and entry.id.startswith(after)), 0)
    kept: set[str] | None = None
    if not start:
        kept = {entry.id for entry in branch([entry for _, agent, entry in merged if agent == "root"])}
    logs: dict[str, _Replay] = {}
    for place, (_, agent, entry) in enumerate(merged):
        if kept is None or agent != "root" or entry.id in kept:
            log = logs.setdefault(agent, _Replay(agent, session, fetch))
            yield from ((merged[at][2].id, event) for at, event in log.read(place, entry) if at >= start)
            if known and entry.id in known and place >= start - 1:
                yield from ((merged[at][2].id, event) for at, event in log.end() if at >= start)
                yield entry.id, known[entry.id]
    for log in logs.values():
        yield from ((merged[at][2].id, event) for at, event in log.end() if at >= start)


def _entries(session: Path, file: Path, size: int) -> Iterator[tuple[str, str, Entry]]:
    """Yield the entries of a log that can be read, up to the first that cannot."""
    agent, at = agent_of(session, file), ""
    with file.open("rb") as lines:
        for line in lines:
            size -= len(line)
            if size < 0 or not line.endswith(b"\n"):
                return
            try:
                entry = parse_line(line)
            except ValueError:
                return
            at = max(at, entry.at)  # a clock that went back does not change the order
            yield at, agent, entry


class _Replay:
    """Reads one agent's log. A reply waits for its charges, which are logged after it."""

    def __init__(self, agent: str, session: Path, fetch: _Fetch) -> None:
        self._agent, self._session, self._fetch = agent, session, fetch
        self._calls: dict[str, ToolCall] = {}
        self._reply: Message | None = None
        self._place = 0  # position of its completion
        self._charges = Sum()

    def read(self, place: int, entry: Entry) -> Iterator[tuple[int, Event]]:
        """Yield the events of an entry, each with the position of the entry that completes it."""
        try:
            content = entry.content
            if isinstance(content, contents.ChargeEntry):
                if self._reply is not None and not content.charge.role.startswith("advisor"):
                    self._charges.add(content.charge)
                    self._place = place
                return
            yield from self.end()
            self._place = place
            yield from ((place, event) for event in self._events(content))
        except (SessionCorrupt, ValueError) as error:
            yield place, Notice(self._agent, "error", f"An entry cannot be read: {error}")

    def end(self) -> Iterator[tuple[int, Event]]:
        """Yield the reply that waits."""
        if (reply := self._reply) is not None:
            self._reply = None
            yield self._place, ReplyFinished(self._agent, reply, self._charges.usage, self._charges.price)

    def _events(self, content: contents.Content) -> Iterator[Event]:
        agent = self._agent
        match content:
            case contents.Opened(session):
                yield SessionOpened(agent, session, str(self._session), "")
            case contents.MessageEntry(stored):
                yield from self._message(stored.load(self._fetch))
            case contents.ResultEntry(stored, seconds, diff):
                result = stored.load(self._fetch)
                call = self._calls.pop(result.call_id, ToolCall(result.call_id, ""))
                if result.denied:
                    yield Denied(agent, Denial(call.name, call.id, result.text.removeprefix(DENIED)))
                yield ToolFinished(agent, call, result, seconds, diff=diff)
            case contents.ConsultationEntry(advice):
                yield Advised(agent, advice)
            case contents.SwitchedEntry(model, effort):
                yield Switched(agent, f"model {model}, effort {effort or 'default'}" if model else content.advisor)
            case contents.NoticeEntry(text):
                yield Notice(agent, "info", text)
            case contents.FailedEntry(_, message):
                yield Notice(agent, "error", message)
            case contents.Compacted(_, before, after):
                yield Notice(agent, "info", f"The context went from about {before:,} tokens to {after:,}.")
            case _:
                return

    def _message(self, message: Message) -> Iterator[Event]:
        if message.role == "assistant":
            self._reply, self._charges = message, Sum()
            self._calls |= {call.id: call for call in message.calls}
        elif message.role == "user":
            yield Received(self._agent, message)
