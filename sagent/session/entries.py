"""One entry of a log, and the line it is written as.

The `id` is the sha256 of the canonical JSON of `{at, body, kind, parent}`. A line is exactly those bytes with the id
put in front, so that appending encodes a body once and checking hashes a slice of the line as it lies on the disk: no
byte of a log is outside a hash, white space and escapes included.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal, TypeAlias

from sagent.codec import VERSION, decode_usage, encode_usage
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_object, as_str, canonical_bytes, json_freeze
from sagent.usage import Charge

Kind: TypeAlias = Literal[
    "opened",  # who, where, which version: the first entry of a log
    "environment",  # what the agent was told about the machine, git commit and dirtiness
    "prompt",  # the system prompt and the tools as sent
    "message",  # a message as it entered the history
    "request",  # what was sent: sha256 of the body, model, parameters
    "result",  # a call's result, the moment it was known; the message that carries it comes later
    "switched",  # model, effort or limits
    "spent",  # one charge
    "advice",
    "spawned",  # a child, by path and by the first entry of its log
    "returned",  # a child, by path and by the head of its log
    "sent",  # a message to another agent; with `due` one that arrives later, with `of` the arrival of that
    "received",  # a message for this agent; the `message` that it becomes when it is read names this entry
    "handoff",  # work passed on in a team, by role: what the one said and what the other was given, each by its sha256
    "job",
    "touched",  # files before and after a call, by blob: once when it begins, once when it has ended
    "compacted",  # what gave way in the history, and to what; the entries before still have it whole
    "notice",
    "failed",
    "label",  # a name a person gave to the session
    "forked",  # its parent is an earlier entry; `left` names the line before, so that the chain covers every line
    "repaired",  # what followed was damaged and is not here
    "closed",
]
"""The kinds known today. A log keeps others too, and its readers pass over them."""

_HEAD = b'{"id":"'
_AFTER_ID = len(_HEAD) + 64 + len(b'",')
_AT = _AFTER_ID + len(b'"at":"')
_AFTER_AT = _AT + len("2026-11-21T03:15:00.123456Z")
_BODY = _AFTER_AT + len(b'","body":')


@dataclass(frozen=True, slots=True)
class Entry:
    """What happened. `parent` is "" for the first; `at` is UTC, ISO 8601 with microseconds; `line` as in the file."""

    id: str
    parent: str
    at: str
    kind: str
    line: bytes

    @property
    def body(self) -> Mapping[str, object]:
        """What the kind says of it, parsed from the line each time it is asked for. Raises ValueError if it is none."""
        try:
            return as_object(json.loads(self.line[_BODY : -len(_tail(self.kind, self.parent))].decode()))
        except RecursionError as error:
            raise ValueError("the body is nested too deeply") from error


def seal(parent: str, kind: str, body: Mapping[str, object]) -> Entry:
    """A new entry. Raises ValueError or TypeError for what JSON cannot say."""
    if not (kind.isascii() and kind.isidentifier()):
        raise ValueError(f"not a kind of entry: {kind!r}")
    try:
        content = canonical_bytes(body)
    except RecursionError as error:
        raise ValueError("the body is nested too deeply") from error
    at = datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    rest = b'"at":"%b","body":%b%b' % (at.encode(), content, _tail(kind, parent))
    entry_id = _hash(rest)
    return Entry(entry_id, parent, at, kind, b'{"id":"%b",%b' % (entry_id.encode(), rest))


def scan_line(line: bytes) -> tuple[str, str, str]:
    """The id, the parent and the kind of a line, new line included, without making anything of the rest. Raises
    ValueError for a line that is not what was written."""
    entry_id = hashlib.sha256(b"{" + line[_AFTER_ID:-1]).hexdigest()
    if line[:_AFTER_ID] != b'{"id":"%b",' % entry_id.encode():
        raise ValueError("the content does not match its id")
    name, parts, parent = line[line.rfind(b',"kind":"') + 9 : -3].partition(b'","parent":"')
    kind = name.decode("ascii", "replace")
    laid_out = line[_AFTER_ID:_AT] == b'"at":"' and line[_AFTER_AT : _BODY + 1] == b'","body":{'
    if not (laid_out and parts and line[-3:] == b'"}\n' and kind.isidentifier()):
        raise ValueError("this is not the line of an entry")
    return entry_id, parent.decode("ascii", "replace"), kind


def parse_line(line: bytes) -> Entry:
    """The entry of a line, new line included. Raises ValueError for a line that is not what was written."""
    entry_id, parent, kind = scan_line(line)
    return Entry(entry_id, parent, line[_AT:_AFTER_AT].decode("ascii", "replace"), kind, line)


def _tail(kind: str, parent: str) -> bytes:
    return f',"kind":"{kind}","parent":"{parent}"}}\n'.encode()


def _hash(rest: bytes | memoryview) -> str:
    """The id, from the line behind it."""
    found = hashlib.sha256(b"{")
    found.update(rest[:-1])
    return found.hexdigest()


def recompute_id(entry: Entry) -> str:
    """The id by its definition, from the parsed members: what anybody can check without this package."""
    members = {"at": entry.at, "body": entry.body, "kind": entry.kind, "parent": entry.parent}
    return hashlib.sha256(canonical_bytes(members)).hexdigest()


# -- bodies ------------------------------------------------------------------------------------------------------------


def opened(session_id: str, agent: str, cwd: str, environment: Mapping[str, object]) -> JsonObject:
    """The body of the first entry. `environment` is what a reader may want to know later: versions, git, platform."""
    return JsonObject(
        {
            "version": VERSION,
            "session": session_id,
            "agent": agent,
            "cwd": cwd,
            "environment": json_freeze(environment),
        }
    )


def spent(charge: Charge) -> JsonObject:
    """The body of a charge. USD are a string: a log keeps every digit."""
    return JsonObject(
        {
            "agent": charge.agent,
            "role": charge.role,
            "provider": charge.provider,
            "model": charge.model,
            "usage": json_freeze(encode_usage(charge.usage)),
            "usd": None if charge.usd is None else str(charge.usd),
            "tier": charge.tier,
            "estimated": charge.estimated,
        }
    )


def read_spent(body: Mapping[str, object]) -> Charge:
    """The charge of a body. A price that cannot be read counts as unknown."""
    try:
        usd = Decimal(as_str(body.get("usd"), "none"))
    except ArithmeticError:
        usd = None
    return Charge(
        model=as_str(body.get("model")),
        usage=decode_usage(body.get("usage")),
        tier=as_str(body.get("tier")),
        usd=usd,
        estimated=body.get("estimated") is True,
        role=as_str(body.get("role")),
        provider=as_str(body.get("provider")),
        agent=as_str(body.get("agent")),
    )


def spawned(agent: str, first: str) -> JsonObject:
    """A child by its path and the id of the first entry of its log."""
    return JsonObject({"agent": agent, "entry": first})


def returned(agent: str, head: str) -> JsonObject:
    """A child by its path and the head of its log when it returned: the parent's head then vouches for the child's."""
    return JsonObject({"agent": agent, "entry": head})


def received(message: Mapping[str, object], moment: str, *, answer: bool) -> JsonObject:
    """A message in the inbox, encoded. `answer` says that its sender waits for one."""
    return JsonObject({"message": json_freeze(message), "moment": moment, "answer": answer})


def posted(to: str, message: Mapping[str, object], due: str) -> JsonObject:
    """A message, encoded, that is to reach an agent at a time: UTC, ISO 8601."""
    return JsonObject({"to": to, "message": json_freeze(message), "due": due})


def delivered(to: str, entry: str) -> JsonObject:
    """The arrival, or return, of a message that was sent by an entry."""
    return JsonObject({"to": to, "of": entry})


def compacted(
    stubs: Iterable[tuple[int, str, str]],
    before: int,
    after: int,
    reason: str,
    *,
    kept: Iterable[int] | None = None,
    summary: tuple[int, str] | None = None,
) -> JsonObject:
    """Results that gave way to stubs: each by the number of its message in the history, its call's id and the stub's
    text. `before` and `after` are estimates of the next request, in tokens. With `kept`, only the messages of these
    numbers stay; with `summary`, a message of sagent's with that text is put among these, at that place."""
    rows = tuple(JsonObject({"message": message, "call_id": call, "text": text}) for message, call, text in stubs)
    stay = {} if kept is None else {"kept": tuple(kept)}
    told = {} if summary is None else {"summary": JsonObject({"at": summary[0], "text": summary[1]})}
    return JsonObject({"stubs": rows, "before": before, "after": after, "reason": reason, **stay, **told})


def handoff(
    team: Mapping[str, object], source: str, target: str, said: Mapping[str, object], given: Mapping[str, object]
) -> JsonObject:
    """Work passed on from one role of a team to another; "" is whoever asked the team. `said` tells the agent, sha256
    and bytes of what is passed on, or its error; `given` those of the prompt the other begins with, {} if it does not
    begin yet."""
    return JsonObject(
        {
            "team": json_freeze(team),
            "from": source,
            "to": target,
            "said": json_freeze(said),
            "given": json_freeze(given),
        }
    )


def forked(left: str) -> JsonObject:
    """The entry that was the last one until another was taken up again."""
    return JsonObject({"left": left})


def label(text: str) -> JsonObject:
    """A name for the session."""
    return JsonObject({"text": text})
