"""Convert an answer to bytes on the wire: HTTP framing, the layout of a stream, and the place where it breaks."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.testing.families import FAMILIES, Answer
from sagent.testing.families.form import encode
from sagent.testing.script import Cut, ErrorEvent, Fail, Headers, Received, Stall, Turn, Wire

Spoken: TypeAlias = Turn | Cut | Stall | ErrorEvent

JSON: Headers = (("content-type", "application/json"),)
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Delivery:
    """An answer decided in full before its first byte: what to write, what goes wrong then, what to write after it."""

    writes: Sequence[bytes]
    fault: Cut | Stall | None = None
    rest: Sequence[bytes] = ()
    ping: bytes = b""
    delay: float = 0.0
    gap: float = 0.0
    breath: int = 16  # how many writes before the event loop gets a turn


def _head(status: int, headers: Headers, received: Received, framing: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in _pairs(headers))
    close = "connection: close\r\n" if received.headers.get("connection", "").lower() == "close" else ""
    return f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\n{lines}{close}{framing}\r\n\r\n".encode("latin-1")


def _pairs(headers: Headers) -> Sequence[tuple[str, str]]:
    return tuple(headers.items()) if isinstance(headers, Mapping) else headers


def _over(defaults: Headers, headers: Headers) -> Headers:
    """Return the headers, and the defaults that they do not name."""
    given = _pairs(headers)
    names = {name.lower() for name, _ in given}
    return (*(pair for pair in _pairs(defaults) if pair[0] not in names), *given)


def plain(status: int, headers: Headers, body: bytes, received: Received) -> Delivery:
    return Delivery((_head(status, headers, received, f"content-length: {len(body)}") + body,))


def failure(fail: Fail, received: Received) -> Delivery:
    """Return an HTTP error, in the family's shape unless the step gives a body."""
    match fail.body:
        case None:
            body = encode(FAMILIES[received.family].error(fail))
        case bytes():
            body = fail.body
        case str():
            body = fail.body.encode()
        case _:
            body = encode(dict(fail.body))
    return plain(fail.status, _over(JSON, fail.headers), body, received)


def deliver(step: Spoken, answer: Answer, wire: Wire) -> Delivery:
    """Return a turn as the request wants it, streamed or whole, with the fault that the step has."""
    family = FAMILIES[answer.request.family]
    rendered = family.render(answer)
    fault = step if isinstance(step, Cut | Stall) else None
    if isinstance(step, Cut) and step.how == "clean" and step.after_events >= 0:
        fault = None  # it ends as if it were whole
    if isinstance(rendered, list):
        return _streamed(step, fault, answer, rendered, wire)
    if isinstance(step, ErrorEvent):
        status = family.statuses.get(step.type, 500)
        return failure(Fail(status, message=step.message, type=step.type), answer.request)
    return _whole(step, fault, answer, rendered)


def _whole(step: Turn | Cut | Stall, fault: Cut | Stall | None, answer: Answer, body: bytes) -> Delivery:
    """Return a reply that is not streamed, with its fault in the middle of the JSON."""
    early = len(body) if isinstance(step, Turn) else len(body) // 2 if step.after_events > 0 else 0
    said, rest = body[:early], body[early:]
    length = len(said) if isinstance(step, Cut) and fault is None else len(body)
    head = _head(200, _over(JSON, answer.turn.headers), answer.request, f"content-length: {length}")
    writes = () if isinstance(fault, Cut) and fault.after_events < 0 else (head + said,)
    return Delivery(writes, fault, (rest,) if isinstance(fault, Stall) else (), delay=answer.turn.delay)


def _streamed(step: Spoken, fault: Cut | Stall | None, answer: Answer, events: list[bytes], wire: Wire) -> Delivery:
    """Return a streamed reply: events in the wire's layout, in HTTP chunks, with the step's fault."""
    turn, received = answer.turn, answer.request
    family = FAMILIES[received.family]
    count = len(events) if isinstance(step, Turn) else max(0, step.after_events)
    before, after = events[:count], events[count:]
    if isinstance(step, ErrorEvent):
        before.append(family.error_event(step))
    usual = (("content-type", family.streams_as), ("cache-control", "no-cache"))
    head = _head(200, _over(usual, turn.headers), received, "transfer-encoding: chunked")
    unopened = isinstance(fault, Cut) and fault.after_events < 0
    return Delivery(
        () if unopened else _joined(head, _chunks(before, wire), _LAST_CHUNK if fault is None else b""),
        fault,
        _joined(b"", _chunks(after, wire), _LAST_CHUNK) if isinstance(fault, Stall) else (),
        ping=b"".join(_chunks([family.ping], Wire(newline=wire.newline))),
        delay=turn.delay,
        gap=turn.gap,
        breath=16 if wire.chunks in ("event", "whole") else 1,
    )


def _chunks(events: list[bytes], wire: Wire) -> list[bytes]:
    """Return the HTTP chunks that carry the events; each will be one write."""
    if wire.comment:
        events = [b": %b\n\n%b" % (wire.comment.encode(), event) for event in events]
    if wire.newline != "\n":  # JSON has no raw newlines, so all newlines belong to the stream
        events = [event.replace(b"\n", wire.newline.encode()) for event in events]
    if wire.chunks != "event":
        whole = b"".join(events)
        size = len(whole) if wire.chunks == "whole" else 1 if wire.chunks == "bytes" else wire.chunks
        events = [whole[at : at + size] for at in range(0, len(whole), size)] if whole else []
    return [b"%x\r\n%b\r\n" % (len(event), event) for event in events]


def _joined(head: bytes, writes: list[bytes], tail: bytes) -> list[bytes]:
    """Return the writes, with head and tail in the first and the last of them: two system calls fewer."""
    if not writes:
        return [head + tail] if head or tail else []
    writes[0] = head + writes[0]
    writes[-1] += tail
    return writes
