"""One entry of a log, the line that it is written as, and how its content is written as JSON and read.

The `id` is the sha256 of the canonical JSON of `{at, body, kind, parent}`. A line is exactly those bytes with the id
put in front, so that appending encodes a body once, and checking hashes a slice of the line as it is on the disk: no
byte of a log is outside a hash, including white space and escapes.

No other code looks into a body. It is read leniently: what is missing or damaged has its default, members that are not
known are ignored, and a kind that is not known is kept as it is, so that the logs of a newer version can be looked at.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from operator import attrgetter
from typing import Generic, NamedTuple, TypeAlias, TypeVar, get_args

from sagent.codec import decode_usage, encode_usage
from sagent.errors import SessionCorrupt
from sagent.events import Advice, AdviceStatus, AdviceVerdict, Failure
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_number, as_object, as_str, canonical_bytes, json_dump, json_parse
from sagent.lib.money import number
from sagent.session import contents
from sagent.session.contents import Content, StoredMessage, StoredResult
from sagent.session.touches import Touched, decode_touched, encode_touched
from sagent.usage import Charge, Usage

_C_co = TypeVar("_C_co", covariant=True)
_Body: TypeAlias = Mapping[str, object]
_HEAD = b'{"id":"'
_AFTER_ID = len(_HEAD) + 64 + len(b'",')
_AT = _AFTER_ID + len(b'"at":"')
_AFTER_AT = _AT + len("2026-11-21T03:15:00.123456Z")
_BODY = _AFTER_AT + len(b'","body":')
_TICK = timedelta(microseconds=1)


def encode(content: contents.Content) -> tuple[str, _Body]:
    """Return the kind and the body of an entry."""
    if isinstance(content, contents.Unknown):
        return content.kind, content.body
    form = _BY_CLASS[type(content)]
    return form.kind, form.write(content)


def decode(kind: str, body: _Body) -> contents.Content:
    """Decode the body of an entry."""
    for form in _BY_KIND.get(kind, ()):
        if not form.mark or form.mark in body:
            return form.read(body)
    return contents.Unknown(kind, body)


def kind_of(of: type[contents.Content]) -> str:
    return _BY_CLASS[of].kind


class _Member(NamedTuple):
    """Encoding of a field in a body. `name` is its name there, if different; a `flat` field takes the whole body. An
    `optional` field is left out if its encoded value is None."""

    read: Callable[[object], object]
    write: Callable[..., object] | None = None
    optional: bool = False
    name: str = ""
    flat: bool = False


class _Form(Generic[_C_co]):
    """Encoding of a class: each field by its type, except those in `members`. If a kind has several classes, the body
    of one with a `mark` has a member of that name."""

    def __init__(self, kind: str, of: Callable[..., _C_co], mark: str = "", /, **members: _Member) -> None:
        self.kind, self.of, self.mark = kind, of, mark
        self._special = members

    @cached_property
    def _members(self) -> list[tuple[str, _Member]]:
        assert isinstance(self.of, type)
        every = {field.name: self._special.get(field.name) or _BY_TYPE[field.type] for field in fields(self.of)}
        return [(name, member._replace(name=member.name or name)) for name, member in every.items()]

    def write(self, content: object) -> _Body:
        body: dict[str, object] = {}
        for field, (_, write, optional, name, flat) in self._members:
            value: object = getattr(content, field)
            written = value if write is None else write(value)
            if flat:
                body.update(as_object(written))
            elif written is not None or not optional:
                body[name] = written
        return body

    def flat(self) -> _Member:
        """Return a field of this class in a body that has all of its members."""
        return _Member(self.read, self.write, flat=True)

    def read(self, body: object) -> _C_co:
        said = as_object(body)
        return self.of(**{
            field: member.read(said if member.flat else said.get(member.name)) for field, member in self._members
        })  # fmt: skip


def _usd(value: object) -> Decimal | None:
    try:
        usd = Decimal(value) if isinstance(value, str) else None
    except ArithmeticError:
        return None
    return usd if usd is not None and usd.is_finite() and abs(usd.adjusted()) < 30 else None  # sums would overflow


def _rounded(value: object) -> float:
    return round(as_number(value), 3)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _is_true(value: object) -> bool:
    return value is True


def _message(value: object) -> StoredMessage:
    return StoredMessage(as_object(value))


def _result(value: object) -> StoredResult:
    return StoredResult(as_object(value))


def _strings(value: object) -> tuple[str, ...]:
    return tuple(map(as_str, as_array(value)))


def _or_none(value: object) -> object:
    return value or None


def _digits(value: object) -> str | None:
    return None if value is None else str(value)  # a log keeps all digits


_STR = _Member(as_str)
_INT = _Member(as_int)
_USD = _Member(_usd, _digits)
_TEXT = _Member(_text)
_OBJECT = _Member(as_object)
_STR_OR_NULL = _Member(as_str, _or_none)
_STR_IF_ANY = _Member(as_str, _or_none, optional=True)
_OBJECT_IF_ANY = _Member(as_object, _or_none, optional=True)
_WHOLE_IF_ANY = _Member(_whole, optional=True)
_INT_IF_ANY = _Member(as_int, _or_none, optional=True)
_BY_TYPE: Mapping[object, _Member] = {
    str: _STR,
    int: _INT,
    bool: _Member(_is_true),
    float: _Member(as_number, _rounded),
    str | None: _TEXT._replace(optional=True),
    int | None: _Member(_whole),
    Decimal | None: _USD,
    Usage: _Member(decode_usage, encode_usage),
    tuple[str, ...]: _Member(_strings),
    Mapping[str, object]: _OBJECT,
    StoredMessage: _Member(_message, attrgetter("encoded")),
    StoredResult: _Member(_result, attrgetter("encoded")),
}


def _write_tools(tools: Sequence[contents.StoredTool]) -> object:
    return [
        {"name": tool.name, "description": tool.description, "schema": tool.schema}
        | ({"deferred": True} if tool.deferred else {})
        for tool in tools
    ]


def _read_tools(value: object) -> tuple[contents.StoredTool, ...]:
    return tuple(map(_read_tool, map(as_object, as_array(value))))


def _read_tool(tool: _Body) -> contents.StoredTool:
    schema = tool.get("schema")
    ordered = isinstance(schema, str)  # version 1 had the parameters themselves
    text = schema if isinstance(schema, str) else json_dump(as_object(tool.get("parameters")))
    name, description = as_str(tool.get("name")), as_str(tool.get("description"))
    return contents.StoredTool(name, description, text, ordered, tool.get("deferred") is True)


class _Switched(_Form[contents.SwitchedEntry]):
    """Encoding of a switch: what became of an advisor is logged without the model."""

    def write(self, content: object) -> _Body:
        body = super().write(content)
        return {"advisor": body["advisor"]} if "advisor" in body else body


def show_usage(usage: Usage) -> dict[str, object]:
    """Encode tokens for readers: cache writes of all lifetimes are one number."""
    shown: dict[str, object] = {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write + usage.cache_write_1h,
        "reasoning": usage.reasoning,
    }
    return {**shown, "fees": dict(usage.fees)} if usage.fees else shown


def show_advice(advice: Advice) -> dict[str, object]:
    """Encode a consultation for readers, under its members' names, without empty members."""
    measured: dict[str, object] = {
        "usage": show_usage(advice.usage),
        "usd": number(advice.usd),
        "seconds": round(advice.seconds, 3),
    }
    said = {field.name: getattr(advice, field.name) for field in fields(advice) if field.name not in measured}
    return {name: value for name, value in said.items() if value} | measured


class _Advice(_Form[Advice]):
    """As for readers, but with every digit of USD."""

    def write(self, content: object) -> _Body:
        assert isinstance(content, Advice)
        return {**show_advice(content), "usd": _digits(content.usd)}


def _one_of(accepted: object, default: str) -> _Member:
    words: Sequence[str] = get_args(accepted)

    def read(value: object) -> str:
        return next((word for word in words if word == value), default)

    return _Member(read)


_ADVICE = _Advice("", Advice, status=_one_of(AdviceStatus, "failed"), verdict=_one_of(AdviceVerdict, ""))
_FAILURE = _Form("", Failure)


def _read_failure(value: object) -> Failure | None:
    return _FAILURE.read(error) if (error := as_object(value)) else None


_GIVEN = _Form(
    "",
    contents.HandoffGiven,
    sha256=_STR._replace(name="prompt_sha256"),
    size=_INT._replace(name="prompt_bytes"),
    budget=_USD._replace(name="budget_usd"),
    cap=_USD._replace(name="cap_usd"),
    shown=_OBJECT_IF_ANY,
    handoff_tokens=_WHOLE_IF_ANY,
    handoff_bytes=_WHOLE_IF_ANY,
)
_SAID = _Form("", contents.HandoffSaid, size=_INT._replace(name="bytes"), error=_Member(_read_failure))


def show_said(report: contents.HandoffSaid) -> _Body:
    """Encode a role's hand-off as JSON."""
    if report.error is not None:
        return {"agent": report.agent, "error": _FAILURE.write(report.error)}
    return {"agent": report.agent, "sha256": report.sha256, "bytes": report.size}


def show_given(start: contents.HandoffGiven) -> _Body:
    """Encode the start of a role as JSON. USD are texts, with every digit."""
    return _GIVEN.write(start)


class _Handoff(_Form[contents.Handoff]):
    """Encoding of a hand-off: members about the team are an object of their own."""

    def write(self, content: object) -> _Body:
        assert isinstance(content, contents.Handoff)
        team = {"name": content.team, "mode": content.mode, "model": content.model}
        given: _Body = {} if content.given is None else show_given(content.given)
        said = show_said(content.said)
        return {"team": team, "from": content.giver, "to": content.taker, "said": said, "given": given}

    def read(self, body: object) -> contents.Handoff:
        members = as_object(body)
        team, said, given = (as_object(members.get(name)) for name in ("team", "said", "given"))
        name, mode, model = (as_str(team.get(member)) for member in ("name", "mode", "model"))
        giver, taker = as_str(members.get("from")), as_str(members.get("to"))
        begins = _GIVEN.read(given) if given else None
        return contents.Handoff(name, mode, model, giver, taker, _SAID.read(said), begins)


def _rows(*, optional: bool = False, **members: Callable[[object], object]) -> _Member:
    """Rows, each an object with these members."""

    def read(value: object) -> object:
        found = map(as_object, as_array(value))
        return tuple(tuple(read(one.get(name)) for name, read in members.items()) for one in found)

    def write(rows: Sequence[Sequence[object]]) -> object:
        return [dict(zip(members, row, strict=True)) for row in rows] or (None if optional else [])

    return _Member(read, write, optional)


def _place(value: object) -> int:
    return as_int(value, -1)


def _read_kept(value: object) -> tuple[int, ...] | None:
    return None if value is None else tuple(map(_place, as_array(value)))


def _write_summary(summary: tuple[int, str] | None) -> object:
    return summary and {"at": summary[0], "text": summary[1]}


def _read_summary(value: object) -> tuple[int, str] | None:
    return (as_int(summary.get("at")), as_str(summary.get("text"))) if (summary := as_object(value)) else None


def _read_lost(value: object) -> tuple[str, ...] | None:
    return None if value is None else _strings(value)


class _Touched(_Form[Touched]):
    def write(self, content: object) -> _Body:
        assert isinstance(content, Touched)
        return encode_touched(content)

    def read(self, body: object) -> Touched:
        return decode_touched(as_object(body))


_CHARGE = _Form("", Charge, at_most=_USD._replace(optional=True)).flat()
_WHOLE_MESSAGE = _BY_TYPE[StoredMessage]._replace(flat=True)
_TABLE: "tuple[_Form[contents.Content], ...]" = (
    _Form("opened", contents.Opened),
    _Form("environment", contents.Environment, facts=_OBJECT._replace(flat=True)),
    _Form("prompt", contents.PromptEntry, system=_TEXT, tools=_Member(_read_tools, _write_tools)),
    _Form("message", contents.MessageEntry, message=_WHOLE_MESSAGE, received=_STR_IF_ANY),
    _Form("request", contents.RequestSent, role=_STR_IF_ANY),
    _Form("result", contents.ResultEntry, diff=_STR_IF_ANY, summary=_STR_IF_ANY, made=_OBJECT_IF_ANY),
    _Switched("switched", contents.SwitchedEntry, effort=_STR_OR_NULL, advisor=_STR_IF_ANY, reason=_STR_IF_ANY),
    _Form("reserved", contents.Released, "of"),
    _Form("reserved", contents.Reserved, charge=_CHARGE),
    _Form("spent", contents.ChargeEntry, charge=_CHARGE, reserved=_STR_IF_ANY),
    _Form("advice", contents.AdviceRated, "by"),
    _Form("advice", contents.AdviceOutcome, "outcome"),
    _Form(
        "advice",
        contents.ConsultationEntry,
        advice=_ADVICE.flat(),
        **dict.fromkeys(("said", "system", "last"), _STR_IF_ANY),
        **dict.fromkeys(("epoch", "quoted", "left_out"), _INT_IF_ANY),
    ),
    _Form("spawned", contents.Spawned, effort=_STR_OR_NULL, options=_OBJECT_IF_ANY),
    _Form("returned", contents.Returned),
    _Form("sent", contents.MessagePosted, "due"),
    _Form("sent", contents.MessageDelivered, "of"),
    _Form("sent", contents.MessageSent),
    _Form("received", contents.MessageWithdrawn, "of"),
    _Form("received", contents.MessageReceived),
    _Handoff("handoff", contents.Handoff),
    _Form("job", contents.JobEntry),
    _Touched("touched", Touched),
    _Form(
        "compacted",
        contents.Compacted,
        stubs=_rows(message=_place, call_id=as_str, text=as_str),
        kept=_Member(_read_kept, optional=True),
        summary=_Member(_read_summary, _write_summary, optional=True),
        notes=_rows(optional=True, sender=as_str, text=as_str),
    ),
    _Form("notice", contents.NoticeEntry),
    _Form("failed", contents.FailedEntry),
    _Form("label", contents.Label, by=_STR_IF_ANY),
    _Form("forked", contents.Forked),
    _Form("repaired", contents.Repaired, lost=_Member(_read_lost, optional=True)),
)
_BY_CLASS: "Mapping[object, _Form[contents.Content]]" = {form.of: form for form in _TABLE}
_BY_KIND: "Mapping[str, tuple[_Form[contents.Content], ...]]" = {
    kind: tuple(form for form in _TABLE if form.kind == kind) for kind in {form.kind for form in _TABLE}
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One event in a log. `parent` is "" for the first; `at` is UTC, ISO 8601 with microseconds; `line` is its line in
    the file."""

    id: str
    parent: str
    at: str
    kind: str
    line: bytes

    @property
    def content(self) -> Content:
        """The entry's content, read from the line on each access. Raises SessionCorrupt if it is unreadable."""
        return decode(self.kind, read_body(self))


def seal(parent: str, content: Content, after: str = "") -> Entry:
    """Return a new entry, with a time after `after` even if the clock was set back. Raises ValueError or TypeError for
    values that JSON cannot express."""
    kind, body = encode(content)
    if not (kind.isascii() and kind.isidentifier()):
        raise ValueError(f"not a kind of entry: {kind!r}")
    try:
        text = canonical_bytes(body)
    except RecursionError as error:
        raise ValueError("the body is nested too deeply") from error
    return _sealed(parent, _time(after), kind, text)


def seal_again(parent: str, entry: Entry, body: Mapping[str, object] | None = None) -> Entry:
    """Seal an entry again with another parent and, if given, another body."""
    said = entry.line[_BODY : -len(_tail(entry.kind, entry.parent))] if body is None else canonical_bytes(body)
    return _sealed(parent, entry.at, entry.kind, said)


def _time(after: str) -> str:
    now = datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    if now <= after:
        with suppress(ValueError, OverflowError):  # the log may be foreign
            return (datetime.fromisoformat(after) + _TICK).isoformat(timespec="microseconds")[:-6] + "Z"
    return now


def _sealed(parent: str, at: str, kind: str, text: bytes) -> Entry:
    rest = b'"at":"%b","body":%b%b' % (at.encode(), text, _tail(kind, parent))
    entry_id = hashlib.sha256(b"{" + rest[:-1]).hexdigest()
    return Entry(entry_id, parent, at, kind, b'{"id":"%b",%b' % (entry_id.encode(), rest))


def scan_line(line: bytes) -> tuple[str, str, str]:
    """Return the id, parent and kind of a line, including its line end, without parsing the rest. Raises ValueError for
    a changed line."""
    entry_id = hashlib.sha256(b"{" + line[_AFTER_ID:-1]).hexdigest()
    if line[:_AFTER_ID] != b'{"id":"%b",' % entry_id.encode():
        raise ValueError("the content does not match its id")
    name, parts, parent = line[line.rfind(b',"kind":"') + 9 : -3].partition(b'","parent":"')
    kind = name.decode("ascii", "replace")
    laid_out = line[_AFTER_ID:_AT] == b'"at":"' and line[_AFTER_AT : _BODY + 1] == b'","body":{'
    if not (laid_out and parts and line[-3:] == b'"}\n' and kind.isidentifier()):
        raise ValueError("this is not the line of an entry")
    return entry_id, parent.decode("ascii", "replace"), kind


def parse_line(line: bytes, scanned: tuple[str, str, str] | None = None) -> Entry:
    """Return the entry of a line, including its line end, if `scan_line` found it. Raises ValueError if changed."""
    entry_id, parent, kind = scanned or scan_line(line)
    return Entry(entry_id, parent, line[_AT:_AFTER_AT].decode("ascii", "replace"), kind, line)


def read_body(entry: Entry) -> Mapping[str, object]:
    """Return JSON of an entry, for readers that do not need its meaning. Raises SessionCorrupt if it is not JSON."""
    try:
        text = entry.line[_BODY : -len(_tail(entry.kind, entry.parent))].decode()
        body = json_parse(text)
        if "\\ud" in text or "\\uD" in text:  # lone surrogates, which cannot be encoded for output
            body = json_parse(canonical_bytes(body).decode())
        return as_object(body)
    except (ValueError, RecursionError) as error:  # its id is right, so it was written like this
        raise unreadable(entry, error) from error


def unreadable(entry: Entry, error: Exception) -> SessionCorrupt:
    """Return the error for an entry with unknown content."""
    return SessionCorrupt(
        f"entry {entry.id} ({entry.kind}, {entry.at}) cannot be read: {error}. "
        "It was written by another version of sagent: use that one, or a newer one."
    )


def _tail(kind: str, parent: str) -> bytes:
    return f',"kind":"{kind}","parent":"{parent}"}}\n'.encode()
