"""The script of a fake provider, as data: turns, and the ways a provider fails. From Python, or from a JSON file."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias, cast

from sagent.lib.dataclass import dataclass
from sagent.lib.json import Thawed
from sagent.usage import Usage

Headers: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call the model makes. `arguments` as a string are sent raw, well-formed or not.

    `id=None` gives an id typical of the family, the same in every run; any other string is sent as it is. A `cut` call
    is left open, in the way of the family; give the turn its stop reason too, "max_tokens" say.
    """

    name: str
    arguments: Mapping[str, object] | str = field(default_factory=dict[str, object])
    id: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply of the model: its thinking, then its text, then its calls.

    `stop` is one of `sagent.messages.StopReason`, translated for the family, or a family's own word, sent as it is.
    None means "tool_use" when there are calls, else "end". `usage=None` lets the server count. `delay` is the time
    before the first byte, `gap` the time between two writes, both in seconds; `pieces` the characters in one delta
    (0 = all in one). `headers` are added to the response's.
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[Call] = ()
    stop: str | None = None
    usage: Usage | None = None
    model: str | None = None
    delay: float = 0.0
    gap: float = 0.0
    pieces: int = 24
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error. Without `body` it has the family's format, with `message`, `type` and `code` if given.

    A mapping as `body` is sent as JSON.
    """

    status: int
    body: Mapping[str, object] | str | bytes | None = None
    headers: Headers = ()
    message: str = ""
    type: str = ""
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """A turn that breaks off after `after_events` events of its stream (-1: before the response's head).

    "close" drops the connection inside the chunked body, "reset" does so with a TCP RST, "clean" ends the body
    properly, only early. A reply that is not streamed breaks off in the middle of its JSON.
    """

    turn: Turn = Turn()
    after_events: int = 0
    how: Literal["close", "clean", "reset"] = "close"


@dataclass(frozen=True, slots=True)
class Stall:
    """A turn that falls silent for `seconds` (infinity is allowed) after `after_events` events, and then continues.

    With `pings`, the family's keep-alive is sent every `ping_every` seconds during the silence.
    """

    turn: Turn = Turn()
    after_events: int = 0
    seconds: float = float("inf")
    pings: bool = False
    ping_every: float = 0.05


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """A turn that ends in the family's error event after `after_events` events, under HTTP status 200.

    A reply that is not streamed becomes the HTTP error of that type.
    """

    turn: Turn = Turn()
    after_events: int = 0
    type: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True, slots=True)
class Raw:
    """Response of any content: an HTML error page, garbage, an error under status 200."""

    status: int = 200
    headers: Headers = (("content-type", "text/html; charset=utf-8"),)
    body: bytes = b""


Step: TypeAlias = Turn | Fail | Cut | Stall | ErrorEvent | Raw


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server got it. `headers` have lower-case names; `json` is {} unless the body is a JSON object.

    `at` is `time.monotonic()` when the body was complete; `connection` counts TCP connections from 1, so that equal
    numbers prove that a connection was used again; `family` is the name of the wire format ("anthropic", "responses",
    "google", "chat", "converse").
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    json: Mapping[str, Thawed]
    at: float
    connection: int
    family: str


Script: TypeAlias = Sequence[Step] | Callable[[Received], Step | Awaitable[Step]]


@dataclass(frozen=True, slots=True)
class Wire:
    """The form in which the bytes of a stream are sent: the size of one write (and HTTP chunk), newlines, comments.

    `chunks` is "event", "whole", "bytes" (one each) or a number of bytes. A `comment` is sent before every event.
    """

    chunks: Literal["event", "whole", "bytes"] | int = "event"
    newline: Literal["\n", "\r\n", "\r"] = "\n"
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """A row of the fake provider's list of models; sizes in tokens. In Chat Completions a row says who owns it, which
    llama.cpp does with its name, and may say how many parameters it has."""

    id: str
    name: str = ""
    window: int | None = None
    max_output: int | None = None
    owner: str = "fake"
    weights: int | None = None


def read_script(path: Path) -> list[Step]:
    """Return the steps in a JSON file. Raises OSError and ValueError."""
    return parse_script(path.read_text(encoding="utf-8"))


def parse_script(text: str) -> list[Step]:
    """Steps from a JSON array of objects: "kind" ("turn", "fail", "cut", ...; "turn" if absent) and its fields.

    `turn`, `calls` and `usage` are objects; the body of a "raw" is a string, sent as UTF-8. Raises ValueError that
    names the step.
    """
    steps: object = json.loads(text)
    if not isinstance(steps, list):
        raise ValueError("a script is a JSON array of steps")  # noqa: TRY004 -- wrong data, not a wrong argument
    return [_step(number, item) for number, item in enumerate(cast("list[object]", steps), 1)]


_Fields: TypeAlias = dict[str, object]

_KINDS: Mapping[str, Callable[..., Step]] = {
    "turn": Turn,
    "fail": Fail,
    "cut": Cut,
    "stall": Stall,
    "error": ErrorEvent,
    "raw": Raw,
}
_INSIDE: Mapping[str, Callable[..., object]] = {"turn": Turn, "calls": Call, "usage": Usage}


def _step(number: int, item: object) -> Step:
    try:
        fields = _fields(item)
        kind = str(fields.pop("kind", "turn"))
        if kind not in _KINDS:
            raise ValueError(f"unknown kind {kind!r}; there are {', '.join(_KINDS)}")
        if kind == "raw" and "body" in fields:
            fields["body"] = str(fields["body"]).encode()
        return _KINDS[kind](**fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"step {number} of the script: {error}") from error


def _fields(item: object) -> _Fields:
    """Return the members of an object, those inside as the classes that they stand for."""
    if not isinstance(item, dict):
        raise ValueError(f"an object is needed, not {item!r}")  # noqa: TRY004 -- wrong data, not a wrong argument
    fields = dict(cast("_Fields", item))
    for name, made in _INSIDE.items():
        if name == "calls" and name in fields:
            fields[name] = tuple(made(**_fields(call)) for call in cast("list[object]", fields[name]))
        elif name in fields and (name, fields[name]) != ("usage", None):
            fields[name] = made(**_fields(fields[name]))
    return fields
