"""Folds of a log's entries: the conversation, the cost, a title. Nothing else stores these."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar, cast

from sagent.codec import Fetch
from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.messages import Message, Text, ToolResult, user
from sagent.session.contents import (
    ChargeEntry,
    Compacted,
    Content,
    Forked,
    JobEntry,
    Label,
    MessageDelivered,
    MessageEntry,
    MessagePosted,
    MessageReceived,
    MessageWithdrawn,
    Opened,
    Released,
    Repaired,
    RequestSent,
    Reserved,
    ResultEntry,
    SwitchedEntry,
)
from sagent.session.entries import Entry, kind_of, parse_line, unreadable
from sagent.session.view import LogView, MemoryLogView
from sagent.usage import Charge, Totals, Usage

LOST = Charge("in a damaged log", Usage(), role="lost", provider="lost")
"""Stands for unknown charges."""

_SEARCHED_CHARS = 4_000  # of a title to search for secrets before it is cut

_A = TypeVar("_A")
_C = TypeVar("_C", bound=Content)
_T = TypeVar("_T")


def last_model(contents: LogView) -> str:
    """Return the last model of a conversation; "" if there is none yet."""
    for entry in contents.latest(kind_of(MessageEntry), kind_of(SwitchedEntry)):
        match entry.content:
            case MessageEntry(message) if message.model:
                return message.model
            case SwitchedEntry(model) if model:
                return model
            case _:
                pass
    return ""


def readable(lines: Iterable[bytes]) -> Iterator[Entry]:
    """Yield the entries of readable lines; `sagent verify` reports truncated and damaged ones."""
    for line in lines:
        try:
            entry = parse_line(line)
            _ = entry.content
        except (ValueError, SessionCorrupt):
            continue
        yield entry


def contents(entries: Iterable[Entry], *of: type[_C]) -> tuple[_C, ...]:
    """Return the contents of all entries of some classes."""
    return _of(_of_kinds(entries, *map(kind_of, of)), of)


def branch_contents(entries: Iterable[Entry], *of: type[_C]) -> tuple[_C, ...]:
    """Return the contents of some types, without those of abandoned branches."""
    return _of(_on_branch(entries, *map(kind_of, of)), of)


def _of(entries: Iterable[Entry], of: tuple[type[_C], ...]) -> tuple[_C, ...]:
    return tuple(content for entry in entries if isinstance(content := entry.content, of))


def _of_kinds(entries: Iterable[Entry], *kinds: str) -> Iterator[Entry]:
    """Yield the entries of some kinds; from a view of a log, only these are read."""
    return entries.of(*kinds) if isinstance(entries, LogView) else (entry for entry in entries if entry.kind in kinds)


def _on_branch(entries: Iterable[Entry], *kinds: str) -> Iterator[Entry]:
    """Yield the entries of some kinds, without those of abandoned branches; all if no kind is given."""
    return (entries if isinstance(entries, LogView) else MemoryLogView(tuple(entries))).branch(*kinds)


def history(entries: Iterable[Entry], fetch: Fetch) -> tuple[Message, ...]:
    """Return the conversation for the next request. `fetch` returns media by their sha256.

    If the process died after a result but before its message, a message is made for it. Calls without any result stay
    open: the code that builds a request answers them. Raises SessionCorrupt for an unreadable message.
    """
    messages: list[Message | _LazyMessage] = []
    early: list[Entry] = []  # results since the last message

    def collect() -> tuple[Message | _LazyMessage, ...]:
        if not early or not messages:
            return ()
        reply, ids = messages[-1], [_CALL.search(entry.line) for entry in early]
        if isinstance(reply, Message) or reply.reply is not None or None in ids:
            return _collect(early, _whole(reply, fetch), fetch)
        asked = any(found and b'"id":"%b"' % found[1] in reply.entries[0].line for found in ids)
        return (_LazyMessage(tuple(early), reply),) if asked else ()

    for entry in _on_branch(entries, "message", "result", "compacted"):
        if entry.kind == "result":
            early.append(entry)
            continue
        if early and not (entry.kind == "message" and _RESULT in entry.line):  # what carries results carries all
            messages += collect()
        early.clear()
        if entry.kind == "message":
            messages.append(_LazyMessage((entry,)))
        else:
            _compact(messages, _content_as(entry, Compacted))
    messages += collect()
    return tuple(_whole(message, fetch) for message in messages)


def last_messages(entries: Sequence[Entry], limit: int) -> tuple[Message, ...]:
    """Return the last messages of a conversation, from the entries at the end of its log, without their media; () if
    these entries are not enough, because they are too few or include a compaction. Raises SessionCorrupt."""
    start, count = len(entries), 0
    while start and count < limit:
        start -= 1
        if entries[start].kind == "compacted":
            return ()
        count += entries[start].kind == "message"
    return () if count < limit and entries and entries[0].parent else history(entries[start:], lambda _: b"")


# in canonical JSON only a part of a message has these bytes
_RESULT = b'"type":"tool_result"'
_STANDS = ("forked", "touched", "opened", "environment")  # kinds of entries that do not continue a conversation
_CALL = re.compile(rb'"result":\{"call_id":"([^"\\]+)"')


@dataclass(frozen=True, slots=True)
class _LazyMessage:
    """A message that is decoded only if needed: summaries have replaced most of a long session. It is in one entry; or
    it consists of results, one an entry, and `reply` is the message with their calls."""

    entries: tuple[Entry, ...]
    reply: "_LazyMessage | None" = None
    stubs: tuple[tuple[str, str], ...] = ()


def _whole(message: Message | _LazyMessage, fetch: Fetch) -> Message:
    if isinstance(message, Message):
        return message
    if message.reply is None:
        found = _load(message.entries[0], fetch)
    else:
        (found,) = _collect(message.entries, _whole(message.reply, fetch), fetch)
    for call_id, text in message.stubs:
        found = _stub(found, call_id, text)
    return found


def _stub_kept(message: Message | _LazyMessage, call_id: str, text: str) -> Message | _LazyMessage:
    if isinstance(message, Message):
        return _stub(message, call_id, text)
    return replace(message, stubs=(*message.stubs, (call_id, text)))


def _stub(message: Message, call_id: str, text: str) -> Message:
    """Return a message with a call's result, or without a call all of it, replaced by a text."""
    if not call_id:
        return replace(message, parts=(Text(text),))
    parts = tuple(
        replace(part, content=(Text(text),)) if isinstance(part, ToolResult) and part.call_id == call_id else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def compact(messages: list[Message], compacted: Compacted) -> None:
    """Apply a compaction to a history."""
    _compact(cast("list[Message | _LazyMessage]", messages), compacted)


def _compact(messages: list[Message | _LazyMessage], compacted: Compacted) -> None:
    """Apply a compaction to the messages, both while an agent runs and on resume."""
    for place, call_id, text in compacted.stubs:
        if 0 <= place < len(messages):
            messages[place] = _stub_kept(messages[place], call_id, text)
    if compacted.kept is not None:
        places = set(compacted.kept)
        messages[:] = [message for place, message in enumerate(messages) if place in places]
    if compacted.summary is not None:
        place, text = compacted.summary
        said = [("sagent", text), *compacted.notes]
        messages[place:place] = [user(text, sender=sender) for sender, text in said]


@dataclass(frozen=True, slots=True)
class Point:
    """A request of a person that a session can be rewound to. Its past ends at entry `before`; its continuation, on the
    branch used last, at `tip`. `after` is the entry of the previous request, "" for none, `depth` counts the requests
    that led to it, and `current` is True in the current conversation."""

    entry: str
    before: str
    tip: str
    at: str
    text: str
    after: str
    depth: int
    current: bool


def points(entries: Iterable[Entry]) -> tuple[Point, ...]:
    """Return the requests of a person, on every branch, in order."""
    if not isinstance(entries, LogView):
        entries = MemoryLogView(tuple(entries))
    forks = {entry.parent: cast("_Asked | None", None) for entry in entries.of("forked")}  # what led to these entries
    every = entries if forks else entries.of("message", "received")
    came: dict[str, str] = {}  # by received message, the entry before it
    asked: list[_Asked] = []
    last: _Asked | None = None
    stands = ""  # target of the last rewind, until something follows it
    for entry in every:
        if entry.kind not in _STANDS:
            stands = ""
        if entry.kind == "forked":
            _reach(last, stands or _content_as(entry, Forked).left)
            last, stands = forks[entry.parent], entry.parent
        elif entry.kind == "received":
            came[entry.id] = entry.parent
        elif entry.kind == "message" and (said := _spoken(entry)) is not None:
            before = came.get(said[1], entry.parent)
            last = _Asked(entry, before, said[0], last, 0 if last is None else last.depth + 1)
            asked.append(last)
        if entry.id in forks:
            forks[entry.id] = last
    _reach(last, stands or next((entry.id for entry in entries.latest()), ""))
    here: set[str] = set()
    while last is not None:
        here.add(last.entry.id)
        last = last.after
    return tuple(
        Point(
            entry=each.entry.id,
            before=each.before,
            tip=each.tip,
            at=each.entry.at,
            text=each.text,
            after=each.after.entry.id if each.after else "",
            depth=each.depth,
            current=each.entry.id in here,
        )
        for each in asked
    )


@dataclass(slots=True)
class _Asked:
    """A request and the previous one."""

    entry: Entry
    before: str
    text: str
    after: "_Asked | None"
    depth: int
    tip: str = ""


def _reach(request: _Asked | None, tip: str) -> None:
    """Mark the end of a branch: the requests that led there continue up to here."""
    while request is not None:
        request.tip = tip
        request = request.after


def _spoken(entry: Entry) -> tuple[str, str] | None:
    """Return a person's request in a message, and the entry that received it; None if it is nobody's request."""
    if _RESULT in entry.line or b'"role":"user"' not in entry.line:
        return None
    said = _content_as(entry, MessageEntry)
    return None if said.message.role != "user" or said.message.sender else (said.message.text, said.received)


@dataclass(frozen=True, slots=True)
class Unread:
    """A message that was in the inbox when the process ended; `entry` received it."""

    entry: str
    message: Message
    moment: str
    answer: bool


def unread(entries: Iterable[Entry], fetch: Fetch) -> tuple[Unread, ...]:
    """Return the messages that were received and never entered the history. Raises SessionCorrupt."""
    return tuple(
        Unread(entry.id, _load(entry, fetch), received.moment, received.answer)
        for entry in waiting(entries)
        if (received := _content_as(entry, MessageReceived))
    )


def waiting(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries of messages that were received and not read."""
    found: dict[str, Entry] = {}
    if isinstance(entries, LogView) and next(entries.of("received"), None) is None:
        return ()  # most logs have none: skip the search
    for entry in _on_branch(entries, "received", "message"):
        if entry.kind == "received":
            if isinstance(content := entry.content, MessageWithdrawn):
                found.pop(content.of, None)
            else:
                found[entry.id] = entry
        elif found and b'"received":"' in entry.line:
            found.pop(_content_as(entry, MessageEntry).received, None)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Posted:
    """A message that had not been delivered when the process ended; `entry` sent it."""

    entry: str
    to: str
    message: Message
    due_at: datetime


def on_their_way(entries: Iterable[Entry], fetch: Fetch) -> tuple[Posted, ...]:
    """Return the delayed messages that were not delivered. Raises SessionCorrupt."""
    found: dict[str, tuple[Entry, MessagePosted]] = {}
    for entry in _of_kinds(entries, "sent"):
        match entry.content:
            case MessagePosted() as posted:
                found[entry.id] = (entry, posted)
            case MessageDelivered(of=of):
                found.pop(of, None)
            case _:
                pass
    return tuple(
        Posted(entry.id, posted.to, _load(entry, fetch), _reading(entry, datetime.fromisoformat, posted.due))
        for entry, posted in found.values()
    )


def unfinished(entries: Iterable[Entry], returned: Iterable[str]) -> bool:
    """Return True if an agent's process ended during a turn. `returned` are the heads of logs that ended one."""
    heads = set(returned)
    open_turn = False
    for entry in _on_branch(entries):
        if entry.kind in ("message", "result"):
            open_turn = True
        if entry.id in heads:
            open_turn = False
    return open_turn


def lost_jobs(entries: Iterable[Entry]) -> tuple[JobEntry, ...]:
    """Return the jobs that ran when the process ended."""
    running: dict[str, JobEntry] = {}
    for job in contents(entries, JobEntry):
        if job.state == "running":
            running[job.job] = job
        else:
            running.pop(job.job, None)
    return tuple(running.values())


def last_job(entries: Iterable[Entry]) -> int:
    """Return the number of the latest job, 0 if there was none."""
    names = (job.job.removeprefix("job:") for job in contents(entries, JobEntry))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _collect(early: Iterable[Entry], reply: Message, fetch: Fetch) -> tuple[Message, ...]:
    """Return a message of the results that no message carried, in the order of the calls of the reply."""
    asked = [call.id for call in reply.calls]
    results = [_reading(entry, _content_as(entry, ResultEntry).result.load, fetch) for entry in early]
    known = {result.call_id: result for result in results}
    found = tuple(known[call_id] for call_id in asked if call_id in known)
    return (Message("user", found),) if found else ()


def _load(entry: Entry, fetch: Fetch) -> Message:
    """Return the message of an entry. Raises SessionCorrupt."""
    content = entry.content
    assert isinstance(content, MessageEntry | MessageReceived | MessagePosted)
    return _reading(entry, content.message.load, fetch)


def _content_as(entry: Entry, of: type[_C]) -> _C:
    """Return the content of an entry if it has the expected class."""
    content = entry.content
    assert isinstance(content, of)
    return content


def _reading(entry: Entry, read: Callable[[_A], _T], argument: _A) -> _T:
    try:
        return read(argument)
    except ValueError as error:
        raise unreadable(entry, error) from error


def counted(entries: LogView, role: str) -> tuple[str, int, int]:
    """Return the last answered request of a conversation that was billed to `role`: its model, its bytes, and how many
    tokens these are; 0 if unknown."""
    tokens = 0
    for entry in entries.latest("request", "spent"):
        match entry.content:
            case ChargeEntry(charge) if charge.role == role:
                tokens = charge.usage.total_input
            case RequestSent(_, size, model, role="") if tokens:
                return model, size, tokens
            case _:
                pass
    return "", 0, 0


def charges(entries: Iterable[Entry]) -> Iterator[Charge]:
    """Yield all charges, including those of abandoned branches, which were paid. A reserved call without a known end
    (its process was killed, or is making it now) counts with its worst case. Charges that a damaged log has lost are
    replaced by one without a price."""
    reserved: dict[str, Charge] = {}
    lost, agent = 0, "root"
    for entry in _of_kinds(entries, "reserved", "spent", "repaired"):
        match entry.content:
            case Reserved(charge):
                reserved[entry.id] = charge
            case Released(of):
                reserved.pop(of, None)
            case ChargeEntry(charge, of):
                reserved.pop(of, None)
                agent = charge.agent or agent
                yield charge
            case Repaired(has_lost_cost=True):
                lost += 1
            case _:
                pass
    yield from reserved.values()
    yield from [replace(LOST, agent=agent)] * lost


def spend(entries: Iterable[Entry]) -> Totals:
    """Return the sum of every charge."""
    totals = Totals()
    for charge in charges(entries):
        totals.add(charge)
    return totals


def title(entries: Iterable[Entry], length: int = 80) -> str:
    """Return a session's name from a person, otherwise the beginning of their first prompt without likely secrets; ""
    if there is none yet."""
    from sagent.lib.secrets import redact  # only lists of sessions need its patterns

    words = redact(" ".join(title_source(entries)[:_SEARCHED_CHARS].split()))[0]
    return words if len(words) <= length else words[: length - 1].rstrip() + "…"


def title_source(entries: Iterable[Entry]) -> str:
    """Return the complete text that a title is made from."""
    found = ""
    for entry in _of_kinds(entries, "label", "message"):
        if entry.kind == "label":
            found = _content_as(entry, Label).text
        elif not found:
            message = _content_as(entry, MessageEntry).message
            found = message.text if message.role == "user" and not message.sender else ""
    return found.strip()


def origin(entries: Iterable[Entry]) -> Opened:
    """Return the first `opened` entry, or an empty one."""
    return next((_content_as(entry, Opened) for entry in _of_kinds(entries, "opened")), Opened())
