"""What a log says, read off its entries: the conversation, the money, a title. There is no second store."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from sagent.codec import Fetch, decode_message, decode_result_part
from sagent.errors import SessionCorrupt
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.messages import Message, Text, ToolResult, user
from sagent.session.entries import Bill, Entry, read_spent
from sagent.usage import Cost, Usage

_T = TypeVar("_T")


def branch(entries: Iterable[Entry], head: str = "") -> tuple[Entry, ...]:
    """The entries from the first one to `head`, or to the last one written; abandoned branches left out.

    Raises ValueError when there is no entry of that id.
    """
    every = tuple(entries)
    by_id = {entry.id: entry for entry in every}
    if head and head not in by_id:
        raise ValueError(f"no entry {head!r} in this log")
    path: list[Entry] = []
    entry = by_id[head] if head else every[-1] if every else None
    while entry is not None:
        path.append(entry)
        entry = by_id.get(entry.parent)
    return tuple(reversed(path))


def history(entries: Iterable[Entry], fetch: Fetch) -> tuple[Message, ...]:
    """The conversation, as the next request needs it. `fetch` brings media back by their sha256.

    Results that were known when the process died, and whose message was not, are given one. Calls without any result
    stay open: whoever builds a request answers them. Raises SessionCorrupt for a message that cannot be read.
    """
    messages: list[Message] = []
    early: list[Entry] = []  # results since the last message
    for entry in branch(entries):
        if entry.kind == "result":
            early.append(entry)
        elif entry.kind == "message":
            message = _read(entry, lambda body: decode_message(body, fetch))
            if early and not message.results:  # what carries results carries all of them
                messages += _collect(early, messages, fetch)
            early.clear()
            messages.append(message)
        elif entry.kind == "compacted":
            messages += _collect(early, messages, fetch)
            early.clear()
            compact(messages, entry.body)
    messages += _collect(early, messages, fetch)
    return tuple(messages)


def compact(messages: list[Message], body: Mapping[str, object]) -> None:
    """Do to a history what a `compacted` entry says: the one place that does, while an agent runs and on resume."""
    for stub in map(as_object, as_array(body.get("stubs"))):
        place, call_id, text = as_int(stub.get("message"), -1), as_str(stub.get("call_id")), as_str(stub.get("text"))
        if 0 <= place < len(messages):
            parts = tuple(
                replace(part, content=(Text(text),))
                if isinstance(part, ToolResult) and part.call_id == call_id
                else part
                for part in messages[place].parts
            )
            messages[place] = replace(messages[place], parts=parts)
    if "kept" in body:
        places = {as_int(place, -1) for place in as_array(body.get("kept"))}
        messages[:] = [message for place, message in enumerate(messages) if place in places]
    if summary := as_object(body.get("summary")):
        messages.insert(as_int(summary.get("at")), user(as_str(summary.get("text")), sender="sagent"))


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
    every = tuple(entries)
    by_id = {entry.id: entry for entry in every}
    here = {entry.id for entry in branch(every)}
    led: dict[str, tuple[str, ...]] = {}  # the requests that led to an entry
    tips: dict[str, str] = {}
    asked: list[tuple[Entry, str, str]] = []
    for entry in every:
        body: Mapping[str, object] = entry.body if entry.kind == "message" else {}
        path = led.get(entry.parent, ())
        parts = [as_object(part) for part in as_array(body.get("parts"))]
        spoken = body.get("role") == "user" and not body.get("sender")
        if spoken and not any(part.get("type") == "tool_result" for part in parts):
            text = "".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")
            asked.append((entry, by_id.get(as_str(body.get("received")), entry).parent, text))
            path = (*path, entry.id)
        led[entry.id] = path
        tips |= dict.fromkeys(path, entry.id)
    return tuple(
        Point(entry.id, before, tips[entry.id], entry.at, text, len(led[entry.id]) - 1, entry.id in here)
        for entry, before, text in asked
    )


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
    for entry in branch(entries):
        if entry.kind == "received":
            found[entry.id] = entry
        elif entry.kind == "message" and (came := as_str(entry.body.get("received"))):
            found.pop(came, None)
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
    for entry in entries:
        if entry.kind == "sent":
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
    for entry in branch(entries):
        if entry.kind in ("message", "result"):
            open_turn = True
        if entry.id in heads:
            open_turn = False
    return open_turn


def lost_jobs(entries: Iterable[Entry]) -> tuple[Mapping[str, object], ...]:
    """The jobs that ran when the process ended, by the bodies of their first entries."""
    running: dict[str, Mapping[str, object]] = {}
    for entry in entries:
        if entry.kind == "job":
            body = entry.body
            if body.get("state") == "running":
                running[as_str(body.get("job"))] = body
            else:
                running.pop(as_str(body.get("job")), None)
    return tuple(running.values())


def last_job(entries: Iterable[Entry]) -> int:
    """The number of the latest job, 0 where there was none."""
    names = (as_str(entry.body.get("job")).removeprefix("job:") for entry in entries if entry.kind == "job")
    return max((int(name) for name in names if name.isdecimal()), default=0)


def bodies(entries: Iterable[Entry], kind: str) -> tuple[Mapping[str, object], ...]:
    """What all entries of a kind say."""
    return tuple(entry.body for entry in entries if entry.kind == kind)


def _collect(early: list[Entry], messages: list[Message], fetch: Fetch) -> tuple[Message, ...]:
    """A message of the results that no message carried, in the order of the calls of the reply that asked for them."""
    asked = [call.id for call in messages[-1].calls] if messages else []
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


@dataclass(frozen=True, slots=True)
class Spend:
    """What a log, or several, say was spent."""

    cost: Cost = field(default_factory=Cost)
    usage: Usage = field(default_factory=Usage)
    charges: int = 0


def bills(entries: Iterable[Entry]) -> Iterator[Bill]:
    """Every charge, those of abandoned branches too: they were paid."""
    return (read_spent(entry.body) for entry in entries if entry.kind == "spent")


def spend(entries: Iterable[Entry]) -> Spend:
    """The sum of every charge, by role, model ("provider/id") and agent."""
    by_kind: dict[str, Decimal] = {}
    by_role: dict[str, Decimal] = {}
    by_model: dict[str, Decimal] = {}
    by_agent: dict[str, Decimal] = {}
    unpriced: set[str] = set()
    usage, charges = Usage(), 0
    for bill in bills(entries):
        charges += 1
        usage += bill.usage
        model = f"{bill.provider}/{bill.model}"
        if bill.usd is None:
            unpriced.add(model)
        _add(by_role, bill.role, bill.usd)
        kind = bill.role.partition(":")[0]
        _add(by_kind, kind if kind in {"executor", "advisor"} else "other", bill.usd)
        _add(by_model, model, bill.usd)
        _add(by_agent, bill.agent, bill.usd)
    cost = Cost(
        sum(by_kind.values(), Decimal(0)),
        by_kind.get("executor", Decimal(0)),
        by_kind.get("advisor", Decimal(0)),
        by_kind.get("other", Decimal(0)),
        by_model,
        by_agent,
        tuple(sorted(unpriced)),
        by_role,
    )
    return Spend(cost, usage, charges)


def title(entries: Iterable[Entry], length: int = 80) -> str:
    """The name a person gave to the session, else how their first prompt begins; "" before there is one."""
    found = ""
    for entry in entries:
        if entry.kind == "label":
            found = as_str(entry.body.get("text"))
        elif entry.kind == "message" and not found:
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
    return next((entry.body for entry in entries if entry.kind == "opened"), as_object(None))


def _add(sums: dict[str, Decimal], key: str, usd: Decimal | None) -> None:
    sums[key] = sums.get(key, Decimal(0)) + (usd or Decimal(0))
