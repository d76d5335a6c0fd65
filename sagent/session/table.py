"""How the entries of a log are written as JSON and read: nobody else looks into a body.

A body is read leniently: what is missing or damaged has its default, members that are not known are ignored, and a kind
that is not known is kept as it is, so that the logs of a newer version can be looked at.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import NamedTuple, TypeAlias, TypeVar, get_args

from sagent.codec import decode_usage, encode_usage
from sagent.events import Advice, AdviceStatus, AdviceVerdict, Failure
from sagent.lib.json import as_array, as_int, as_object, as_str, json_dump
from sagent.session.contents import (
    AdviceOutcome,
    AdviceRated,
    ChargeEntry,
    Compacted,
    ConsultationEntry,
    Content,
    Environment,
    FailedEntry,
    Forked,
    Handoff,
    HandoffGiven,
    HandoffSaid,
    JobEntry,
    Label,
    MessageDelivered,
    MessageEntry,
    MessagePosted,
    MessageReceived,
    MessageSent,
    NoticeEntry,
    Opened,
    PromptEntry,
    Repaired,
    RequestSent,
    ResultEntry,
    Returned,
    Spawned,
    StoredTool,
    SwitchedEntry,
    Unknown,
)
from sagent.session.stored import StoredMessage, StoredResult
from sagent.session.touches import Touched, decode_touched, encode_touched
from sagent.usage import Charge, Usage

_C = TypeVar("_C", bound=Content)
_Body: TypeAlias = Mapping[str, object]


def encode(content: Content) -> tuple[str, _Body]:
    """The kind and the body of an entry."""
    if isinstance(content, Unknown):
        return content.kind, content.body
    form = _BY_CLASS[type(content)]
    return form.kind, form.write(content)


def decode(kind: str, body: _Body) -> Content:
    """What a body says."""
    for form in _BY_KIND.get(kind, ()):
        if not form.mark or form.mark in body:
            return form.read(body)
    return Unknown(kind, body)


def kind_of(of: type[Content]) -> str:
    """The kind of entry that says this."""
    return _BY_CLASS[of].kind


class _Form(NamedTuple):
    """How one class is written and read. Where a kind has several, those with a `mark` have a member of that name."""

    kind: str
    of: object  # the class
    write: Callable[[object], _Body]
    read: Callable[[_Body], Content]
    mark: str = ""


class _Member(NamedTuple):
    """One member of a body: how it is read and written. One that is `optional` is left out where it is None."""

    read: Callable[[object], object]
    write: Callable[[object], object] | None = None
    optional: bool = False


def _form(kind: str, of: type[_C], write: Callable[[_C], _Body], read: Callable[[_Body], _C]) -> _Form:
    def write_checked(content: object) -> _Body:
        assert isinstance(content, of)
        return write(content)

    return _Form(kind, of, write_checked, read)


def _plain(kind: str, of: Callable[..., Content], mark: str = "", /, **members: _Member) -> _Form:
    """The form of a class whose fields are members of the same names."""

    def write(content: object) -> _Body:
        body: dict[str, object] = {}
        for name, member in members.items():
            value: object = getattr(content, name)
            written = value if member.write is None else member.write(value)
            if written is not None or not member.optional:
                body[name] = written
        return body

    def read(body: _Body) -> Content:
        return of(**{name: member.read(body.get(name)) for name, member in members.items()})

    return _Form(kind, of, write, read, mark)


def _usd(value: object) -> Decimal | None:
    try:
        usd = Decimal(value) if isinstance(value, str) else None
    except ArithmeticError:
        return None
    return usd if usd is not None and usd.is_finite() and abs(usd.adjusted()) < 30 else None  # else no sum holds it


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return 0.0


def _strings(value: object) -> tuple[str, ...]:
    return tuple(map(as_str, as_array(value)))


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


def _encoded(stored: object) -> object:
    return stored.encoded if isinstance(stored, StoredMessage | StoredResult) else None


def _or_null(value: object) -> object:
    return value or None


def _digits(value: object) -> str | None:
    return None if value is None else str(value)  # a log keeps all of them


def _rounded(value: object) -> float:
    return round(_number(value), 3)


_STR = _Member(as_str)
_STR_IF_ANY = _Member(as_str, _or_null, optional=True)
_STR_OR_NULL = _Member(as_str, _or_null)
_TEXT_IF_ANY = _Member(_text, optional=True)
_INT = _Member(as_int)
_INT_OR_NULL = _Member(_whole)
_BOOL = _Member(_is_true)
_SECONDS = _Member(_number, _rounded)
_OBJECT = _Member(as_object)
_STRINGS = _Member(_strings)
_USD = _Member(_usd, _digits)
_MESSAGE = _Member(_message, _encoded)
_RESULT = _Member(_result, _encoded)


def _write_prompt(prompt: PromptEntry) -> _Body:
    tools = [{"name": each.name, "description": each.description, "schema": each.schema} for each in prompt.tools]
    return {"system": prompt.system, "tools": tools}


def _read_prompt(body: _Body) -> PromptEntry:
    system = body.get("system")
    tools = map(_read_tool, map(as_object, as_array(body.get("tools"))))
    return PromptEntry(system if isinstance(system, str) else None, tuple(tools))


def _read_tool(tool: _Body) -> StoredTool:
    name, description, schema = as_str(tool.get("name")), as_str(tool.get("description")), tool.get("schema")
    if isinstance(schema, str):
        return StoredTool(name, description, schema)
    return StoredTool(name, description, json_dump(as_object(tool.get("parameters"))), ordered=False)  # version 1


def _write_message(entry: MessageEntry) -> _Body:
    return {**entry.message.encoded, "received": entry.received} if entry.received else entry.message.encoded


def _read_message(body: _Body) -> MessageEntry:
    return MessageEntry(StoredMessage(body), as_str(body.get("received")))


def _write_switched(entry: SwitchedEntry) -> _Body:
    if entry.advisor:
        return {"advisor": entry.advisor}
    reason = {"reason": entry.reason} if entry.reason else {}
    return {"model": entry.model, "effort": entry.effort or None, "limits": entry.limits, **reason}


def _read_switched(body: _Body) -> SwitchedEntry:
    model, effort, advisor, reason = (as_str(body.get(name)) for name in ("model", "effort", "advisor", "reason"))
    return SwitchedEntry(model, effort, as_object(body.get("limits")), advisor, reason)


def _write_charge(entry: ChargeEntry) -> _Body:
    bill = entry.charge
    return {
        "agent": bill.agent,
        "role": bill.role,
        "provider": bill.provider,
        "model": bill.model,
        "usage": encode_usage(bill.usage),
        "usd": None if bill.usd is None else str(bill.usd),
        "tier": bill.tier,
        "estimated": bill.estimated,
        **({} if bill.at_most is None else {"at_most": str(bill.at_most)}),
    }


def _read_charge(body: _Body) -> ChargeEntry:
    return ChargeEntry(
        Charge(
            agent=as_str(body.get("agent")),
            role=as_str(body.get("role")),
            provider=as_str(body.get("provider")),
            model=as_str(body.get("model")),
            usage=decode_usage(body.get("usage")),
            usd=_usd(body.get("usd")),
            tier=as_str(body.get("tier")),
            estimated=body.get("estimated") is True,
            at_most=_usd(body.get("at_most")),
        )
    )


def show_usage(usage: Usage) -> dict[str, object]:
    """Tokens as people read them: cache writes of all lives are one number."""
    shown: dict[str, object] = {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write + usage.cache_write_1h,
        "reasoning": usage.reasoning,
    }
    return {**shown, "fees": dict(usage.fees)} if usage.fees else shown


def show_advice(advice: Advice) -> dict[str, object]:
    """A consultation, its members under their own names; what there is nothing to say of is left out."""
    shown: dict[str, object] = {"advisor": advice.advisor, "model": advice.model, "trigger": advice.trigger}
    shown |= {"status": advice.status, "text": advice.text, "verdict": advice.verdict, "gaps": list(advice.gaps)}
    shown |= {"next": advice.next, "check": advice.check, "reason": advice.reason, "question": advice.question}
    measured = {
        "usage": show_usage(advice.usage),
        "usd": None if advice.usd is None else float(advice.usd),
        "seconds": round(advice.seconds, 3),
    }
    return {name: value for name, value in shown.items() if value} | measured


def _write_consultation(entry: ConsultationEntry) -> _Body:
    advice = {**show_advice(entry.advice), "usd": None if entry.advice.usd is None else str(entry.advice.usd)}
    place = {"epoch": entry.epoch, "quoted": entry.quoted, "last": entry.last, "left_out": entry.left_out}
    sent = {"said": entry.said, "system": entry.system}
    return {**advice, **{name: value for name, value in {**place, **sent}.items() if value}}


def _read_consultation(body: _Body) -> ConsultationEntry:
    status: AdviceStatus = next((each for each in get_args(AdviceStatus) if each == body.get("status")), "failed")
    advice = Advice(
        advisor=as_str(body.get("advisor")),
        model=as_str(body.get("model")),
        trigger=as_str(body.get("trigger")),
        status=status,
        text=as_str(body.get("text")),
        verdict=next((each for each in get_args(AdviceVerdict) if each == body.get("verdict")), ""),
        gaps=_strings(body.get("gaps")),
        next=as_str(body.get("next")),
        check=as_str(body.get("check")),
        reason=as_str(body.get("reason")),
        question=as_str(body.get("question")),
        usage=decode_usage(body.get("usage")),
        usd=_usd(body.get("usd")),
        seconds=_number(body.get("seconds")),
    )
    said, system, last = (as_str(body.get(name)) for name in ("said", "system", "last"))
    epoch, quoted, left_out = (as_int(body.get(name)) for name in ("epoch", "quoted", "left_out"))
    return ConsultationEntry(advice, said, system, epoch, quoted, last, left_out)


def _write_handoff(entry: Handoff) -> _Body:
    said, given = entry.said, entry.given
    begins: _Body = {} if given is None else show_given(given)
    team = {"name": entry.team, "mode": entry.mode, "model": entry.model}
    return {"team": team, "from": entry.giver, "to": entry.taker, "said": show_said(said), "given": begins}


def show_said(said: HandoffSaid) -> _Body:
    """What is passed on, as JSON."""
    if said.error is not None:
        return {"agent": said.agent, "error": {"kind": said.error.kind, "message": said.error.message}}
    return {"agent": said.agent, "sha256": said.sha256, "bytes": said.size}


def show_given(given: HandoffGiven) -> _Body:
    """What a role begins with, as JSON. USD are texts: a log keeps every digit."""
    return {
        "agent": given.agent,
        "prompt_sha256": given.sha256,
        "prompt_bytes": given.size,
        "model": given.model,
        "budget_usd": None if given.budget is None else str(given.budget),
        "cap_usd": None if given.cap is None else str(given.cap),
        "visible": given.visible,
        "left_out": given.left_out,
    }


def _read_handoff(body: _Body) -> Handoff:
    team, said, given = (as_object(body.get(name)) for name in ("team", "said", "given"))
    error = as_object(said.get("error"))
    passed_on = HandoffSaid(
        as_str(said.get("agent")),
        as_str(said.get("sha256")),
        as_int(said.get("bytes")),
        Failure(as_str(error.get("kind")), as_str(error.get("message"))) if error else None,
    )
    name, mode, model = (as_str(team.get(member)) for member in ("name", "mode", "model"))
    giver, taker = as_str(body.get("from")), as_str(body.get("to"))
    return Handoff(name, mode, model, giver, taker, passed_on, _read_given(given) if given else None)


def _read_given(given: _Body) -> HandoffGiven:
    return HandoffGiven(
        as_str(given.get("agent")),
        as_str(given.get("prompt_sha256")),
        as_int(given.get("prompt_bytes")),
        as_str(given.get("model")),
        _usd(given.get("budget_usd")),
        _usd(given.get("cap_usd")),
        _strings(given.get("visible")),
        _strings(given.get("left_out")),
    )


def _write_compacted(entry: Compacted) -> _Body:
    stubs = [{"message": place, "call_id": call, "text": text} for place, call, text in entry.stubs]
    body: dict[str, object] = {"stubs": stubs, "before": entry.before, "after": entry.after, "reason": entry.reason}
    if entry.kept is not None:
        body["kept"] = entry.kept
    if entry.summary is not None:
        body["summary"] = {"at": entry.summary[0], "text": entry.summary[1]}
    return body


def _read_compacted(body: _Body) -> Compacted:
    summary = as_object(body.get("summary"))
    return Compacted(
        tuple(
            (as_int(stub.get("message"), -1), as_str(stub.get("call_id")), as_str(stub.get("text")))
            for stub in map(as_object, as_array(body.get("stubs")))
        ),
        as_int(body.get("before")),
        as_int(body.get("after")),
        as_str(body.get("reason")),
        tuple(as_int(place, -1) for place in as_array(body["kept"])) if "kept" in body else None,
        (as_int(summary.get("at")), as_str(summary.get("text"))) if summary else None,
    )


_TABLE: tuple[_Form, ...] = (
    _plain("opened", Opened, version=_INT, session=_STR, agent=_STR, cwd=_STR, environment=_OBJECT),
    _form("environment", Environment, lambda entry: entry.facts, Environment),
    _form("prompt", PromptEntry, _write_prompt, _read_prompt),
    _form("message", MessageEntry, _write_message, _read_message),
    _plain("request", RequestSent, sha256=_STR, size=_INT, model=_STR, parameters=_OBJECT, role=_STR_IF_ANY),
    _plain("result", ResultEntry, result=_RESULT, seconds=_SECONDS, diff=_STR_IF_ANY),
    _form("switched", SwitchedEntry, _write_switched, _read_switched),
    _form("spent", ChargeEntry, _write_charge, _read_charge),
    _plain("advice", AdviceRated, "by", advisor=_STR, outcome=_STR, by=_INT),
    _plain("advice", AdviceOutcome, "outcome", advisor=_STR, of=_STR, outcome=_STR, reason=_STR),
    _form("advice", ConsultationEntry, _write_consultation, _read_consultation),
    _plain(
        "spawned",
        Spawned,
        agent=_STR,
        entry=_STR,
        persistent=_BOOL,
        share=_STR,
        model=_STR,
        effort=_STR_OR_NULL,
        tools=_STRINGS,
        system=_TEXT_IF_ANY,
        max_turns=_INT_OR_NULL,
        max_depth=_INT_OR_NULL,
        budget_usd=_USD,
    ),
    _plain("returned", Returned, agent=_STR, entry=_STR),
    _plain("sent", MessagePosted, "due", to=_STR, message=_MESSAGE, due=_STR),
    _plain("sent", MessageDelivered, "of", to=_STR, of=_STR),
    _plain("sent", MessageSent, to=_STR, text=_STR),
    _plain("received", MessageReceived, message=_MESSAGE, moment=_STR, answer=_BOOL),
    _form("handoff", Handoff, _write_handoff, _read_handoff),
    _plain("job", JobEntry, job=_STR, call=_STR, tool=_STR, state=_STR),
    _form("touched", Touched, encode_touched, decode_touched),
    _form("compacted", Compacted, _write_compacted, _read_compacted),
    _plain("notice", NoticeEntry, text=_STR),
    _plain("failed", FailedEntry, kind=_STR, message=_STR),
    _plain("label", Label, text=_STR),
    _plain("forked", Forked, left=_STR),
    _plain("repaired", Repaired, kept=_INT, dropped_bytes=_INT, aside=_STR, reason=_STR),
)
_BY_CLASS: dict[object, _Form] = {form.of: form for form in _TABLE}
_BY_KIND: dict[str, tuple[_Form, ...]] = {
    kind: tuple(form for form in _TABLE if form.kind == kind) for kind in {form.kind for form in _TABLE}
}
