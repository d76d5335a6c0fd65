"""What a log says, read off its entries: the conversation, the money, a title. There is no second store."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar, cast

from sagent.codec import Fetch, decode_message, decode_result_part
from sagent.errors import SessionCorrupt
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.messages import Message, Text, ToolResult, user
from sagent.session.entries import Entry, read_spent
from sagent.session.view import LogView, MemoryLogView, follow
from sagent.usage import Charge, Totals

_T = TypeVar("_T")


def branch(entries: Iterable[Entry], head: str = "") -> tuple[Entry, ...]:
    """The entries from the first one to `head`, or to the last one written; abandoned branches left out.

    Raises ValueError when there is no entry of that id.
    """
    return follow(entries, head)


def _every(entries: Iterable[Entry], *kinds: str) -> Iterator[Entry]:
    """Those of some kinds; of a log's contents only these are read."""
    return entries.of(*kinds) if isinstance(entries, LogView) else (each for each in entries if each.kind in kinds)


def _here(entries: Iterable[Entry], *kinds: str) -> Iterator[Entry]:
    """The same, those of abandoned branches left out; all where no kind is named."""
    if isinstance(entries, LogView):
        return entries.branch(*kinds)
    return (entry for entry in branch(entries) if not kinds or entry.kind in kinds)


def history(entries: Iterable[Entry], fetch: Fetch) -> tuple[Message, ...]:
    """The conversation, as the next request needs it. `fetch` brings media back by their sha256.

    Results that were known when the process died, and whose message was not, are given one. Calls without any result
    stay open: whoever builds a request answers them. Raises SessionCorrupt for a message that cannot be read.
    """
    messages: list[Message | _Kept] = []
    early: list[Entry] = []  # results since the last message

    def collect() -> tuple[Message | _Kept, ...]:
        if not early or not messages:
            return ()
        reply, ids = messages[-1], [_CALL.search(entry.line) for entry in early]
        if isinstance(reply, Message) or reply.reply is not None or None in ids:
            return _collect(early, _whole(reply, fetch), fetch)
        asked = any(found and b'"id":"%b"' % found[1] in reply.entries[0].line for found in ids)
        return (_Kept(tuple(early), reply),) if asked else ()

    for entry in _here(entries, "message", "result", "compacted"):
        if entry.kind == "result":
            early.append(entry)
            continue
        if early and not (entry.kind == "message" and _RESULT in entry.line):  # what carries results carries all
            messages += collect()
        early.clear()
        if entry.kind == "message":
            messages.append(_Kept((entry,)))
        else:
            _compact(messages, entry.body, _stub_kept, lambda message: message)
    messages += collect()
    return tuple(_whole(message, fetch) for message in messages)


# in a line of canonical JSON nothing but a part of a message has these bytes
_RESULT = b'"type":"tool_result"'
_CALL = re.compile(rb'"result":\{"call_id":"([^"\\]+)"')


@dataclass(frozen=True, slots=True)
class _Kept:
    """A message that is not read before it is known to be needed: most of a long session gave way to summaries.

    It is in one entry; or it is that of results, which are each in one, and then `reply` is what asked for them.
    """

    entries: tuple[Entry, ...]
    reply: "_Kept | None" = None
    stubs: tuple[tuple[str, str], ...] = ()


def _whole(message: Message | _Kept, fetch: Fetch) -> Message:
    if isinstance(message, Message):
        return message
    if message.reply is None:
        found = _read(message.entries[0], lambda body: decode_message(body, fetch))
    else:
        (found,) = _collect(message.entries, _whole(message.reply, fetch), fetch)
    for call_id, text in message.stubs:
        found = _stub(found, call_id, text)
    return found


def _stub_kept(message: Message | _Kept, call_id: str, text: str) -> Message | _Kept:
    if isinstance(message, Message):
        return _stub(message, call_id, text)
    return replace(message, stubs=(*message.stubs, (call_id, text)))


def _stub(message: Message, call_id: str, text: str) -> Message:
    """A message in which a call's result gave way to a text."""
    parts = tuple(
        replace(part, content=(Text(text),)) if isinstance(part, ToolResult) and part.call_id == call_id else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def compact(messages: list[Message], body: Mapping[str, object]) -> None:
    """Do to a history what a `compacted` entry says."""
    _compact(messages, body, _stub, lambda message: message)


def _compact(
    messages: list[_T],
    body: Mapping[str, object],
    stub: Callable[[_T, str, str], _T],
    told_by: Callable[[Message], _T],
) -> None:
    """The one place that does, while an agent runs and on resume."""
    for told in map(as_object, as_array(body.get("stubs"))):
        place, call_id, text = as_int(told.get("message"), -1), as_str(told.get("call_id")), as_str(told.get("text"))
        if 0 <= place < len(messages):
            messages[place] = stub(messages[place], call_id, text)
    if "kept" in body:
        places = {as_int(place, -1) for place in as_array(body.get("kept"))}
        messages[:] = [message for place, message in enumerate(messages) if place in places]
    if summary := as_object(body.get("summary")):
        messages.insert(as_int(summary.get("at")), told_by(user(as_str(summary.get("text")), sender="sagent")))


@dataclass(frozen=True, slots=True)
class Point:
    """Something a person asked for, to which a session can be wound back: what was before it ends at entry `before`,
    and what came of it, as far as it was followed last, at `tip`.

    `depth` counts the requests that led to it, `current` tells whether it is part of the conversation as it stands.
    """

    entry: str
    before: str
    tip: str
    at: str
    text: str
    depth: int
    current: bool


def points(entries: Iterable[Entry]) -> tuple[Point, ...]:
    """What a person asked for, on every branch, in the order in which it was said."""
    if not isinstance(entries, LogView):
        entries = MemoryLogView(tuple(entries))
    forks = {entry.parent: cast("_Asked | None", None) for entry in entries.of("forked")}  # what led to these entries
    every = entries if forks else entries.of("message", "received")
    came: dict[str, str] = {}  # what was before a message that was received
    asked: list[_Asked] = []
    last: _Asked | None = None
    for entry in every:
        if entry.kind == "forked":
            _reach(last, as_str(entry.body.get("left")))
            last = forks[entry.parent]
        elif entry.kind == "received":
            came[entry.id] = entry.parent
        elif entry.kind == "message" and (said := _spoken(entry)) is not None:
            before = came.get(said[1], entry.parent)
            last = _Asked(entry, before, said[0], last, 0 if last is None else last.depth + 1)
            asked.append(last)
        if entry.id in forks:
            forks[entry.id] = last
    _reach(last, next((entry.id for entry in entries.latest()), ""))
    here: set[str] = set()
    while last is not None:
        here.add(last.entry.id)
        last = last.after
    return tuple(
        Point(each.entry.id, each.before, each.tip, each.entry.at, each.text, each.depth, each.entry.id in here)
        for each in asked
    )


@dataclass(slots=True)
class _Asked:
    """A request, and the one that it was made after."""

    entry: Entry
    before: str
    text: str
    after: "_Asked | None"
    depth: int
    tip: str = ""


def _reach(asked: _Asked | None, tip: str) -> None:
    """A branch ends at an entry: the requests that led there were followed so far."""
    while asked is not None:
        asked.tip = tip
        asked = asked.after


def _spoken(entry: Entry) -> tuple[str, str] | None:
    """What a person asked for by a message, and the entry that received it; None where nobody did."""
    if _RESULT in entry.line or b'"role":"user"' not in entry.line:
        return None
    body = entry.body
    if body.get("role") != "user" or body.get("sender"):
        return None
    parts = map(as_object, as_array(body.get("parts")))
    text = "".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")
    return text, as_str(body.get("received"))


@dataclass(frozen=True, slots=True)
class Unread:
    """A message that was in the inbox when the process ended. `entry` is the one that received it."""

    entry: str
    message: Message
    moment: str
    answer: bool


def unread(entries: Iterable[Entry], fetch: Fetch) -> tuple[Unread, ...]:
    """The messages that were received and never entered the history. Raises SessionCorrupt."""
    return tuple(
        Unread(
            entry.id,
            _read(entry, lambda body: decode_message(as_object(body.get("message")), fetch)),
            as_str(entry.body.get("moment")),
            entry.body.get("answer") is True,
        )
        for entry in waiting(entries)
    )


def waiting(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries of the messages that were received and not read."""
    found: dict[str, Entry] = {}
    if isinstance(entries, LogView) and next(entries.of("received"), None) is None:
        return ()  # most logs have none, and need not be gone through
    for entry in _here(entries, "received", "message"):
        if entry.kind == "received":
            found[entry.id] = entry
        elif found and b'"received":"' in entry.line:
            found.pop(as_str(entry.body.get("received")), None)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Posted:
    """A message that had not reached its agent when the process ended. `entry` is the one that sent it."""

    entry: str
    to: str
    message: Message
    due: datetime


def on_their_way(entries: Iterable[Entry], fetch: Fetch) -> tuple[Posted, ...]:
    """The messages that were to arrive later and have not. Raises SessionCorrupt."""
    found: dict[str, Entry] = {}
    for entry in _every(entries, "sent"):
        body = entry.body
        if "due" in body:
            found[entry.id] = entry
        found.pop(as_str(body.get("of")), None)
    return tuple(_read(entry, lambda body, of=entry.id: _posted(of, body, fetch)) for entry in found.values())


def _posted(entry: str, body: Mapping[str, object], fetch: Fetch) -> Posted:
    message = decode_message(as_object(body.get("message")), fetch)
    return Posted(entry, as_str(body.get("to")), message, datetime.fromisoformat(as_str(body.get("due"))))


def unfinished(entries: Iterable[Entry], returned: Iterable[str]) -> bool:
    """Whether an agent was in a turn when its process ended. `returned` are the heads of its log that ended one."""
    heads = set(returned)
    open_turn = False
    for entry in _here(entries):
        if entry.kind in ("message", "result"):
            open_turn = True
        if entry.id in heads:
            open_turn = False
    return open_turn


def lost_jobs(entries: Iterable[Entry]) -> tuple[Mapping[str, object], ...]:
    """The jobs that ran when the process ended, by the bodies of their first entries."""
    running: dict[str, Mapping[str, object]] = {}
    for entry in _every(entries, "job"):
        body = entry.body
        if body.get("state") == "running":
            running[as_str(body.get("job"))] = body
        else:
            running.pop(as_str(body.get("job")), None)
    return tuple(running.values())


def last_job(entries: Iterable[Entry]) -> int:
    """The number of the latest job, 0 where there was none."""
    names = (as_str(entry.body.get("job")).removeprefix("job:") for entry in _every(entries, "job"))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def bodies(entries: Iterable[Entry], kind: str) -> tuple[Mapping[str, object], ...]:
    """What all entries of a kind say."""
    return tuple(entry.body for entry in _every(entries, kind))


def _collect(early: Iterable[Entry], reply: Message, fetch: Fetch) -> tuple[Message, ...]:
    """A message of the results that no message carried, in the order of the calls of the reply that asked for them."""
    asked = [call.id for call in reply.calls]
    results = [_read(entry, lambda body: decode_result_part(body.get("result"), fetch)) for entry in early]
    known = {result.call_id: result for result in results}
    found = tuple(known[call_id] for call_id in asked if call_id in known)
    return (Message("user", found),) if found else ()


def _read(entry: Entry, decode: Callable[[Mapping[str, object]], _T]) -> _T:
    try:
        return decode(entry.body)
    except ValueError as error:
        raise SessionCorrupt(
            f"entry {entry.id} ({entry.kind}, {entry.at}) cannot be read: {error}. "
            "It was written by another version of sagent: use that one, or a newer one."
        ) from error


def charges(entries: Iterable[Entry]) -> Iterator[Charge]:
    """Every charge, those of abandoned branches too: they were paid."""
    return (read_spent(entry.body) for entry in _every(entries, "spent"))


def spend(entries: Iterable[Entry]) -> Totals:
    """The sum of every charge."""
    totals = Totals()
    for charge in charges(entries):
        totals.add(charge)
    return totals


def title(entries: Iterable[Entry], length: int = 80) -> str:
    """The name a person gave to the session, else how their first prompt begins; "" before there is one."""
    found = ""
    for entry in _every(entries, "label", "message"):
        if entry.kind == "label":
            found = as_str(entry.body.get("text"))
        elif not found:
            body = entry.body
            if body.get("role") == "user" and not body.get("sender"):
                parts = map(as_object, as_array(body.get("parts")))
                found = "".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")
    words = " ".join(found.split())
    return words if len(words) <= length else words[: length - 1].rstrip() + "…"


def counts(entries: Iterable[Entry]) -> Mapping[str, int]:
    """How many entries there are of each kind."""
    found: dict[str, int] = {}
    for entry in entries:
        found[entry.kind] = found.get(entry.kind, 0) + 1
    return found


def origin(entries: Iterable[Entry]) -> Mapping[str, object]:
    """The body of the first `opened` entry, {} where there is none."""
    return next((entry.body for entry in _every(entries, "opened")), as_object(None))
