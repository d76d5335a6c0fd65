"""A bus between agents: messages to addresses, answers, streams of frames, and cards, wherever the agents run.

Every bus promises this (`sagent.plugins.mesh.bus_suite` has the list as tests):

- Messages to one address are delivered in the order in which `send` returned, one at a time: the next comes when the
  one before was acknowledged. An unacknowledged message is delivered again, to the current receiver at that address.
- A message with the id of a delivered one is not delivered again. (A receiver with a log should record the id, because
  an acknowledgement may be lost together with the receiver.)
- Answers arrive in order, each exactly once, even if the connection was lost in between.
- Nothing is delivered after its deadline, and a message kept for a limited time is either delivered, or its sender
  learns that nobody was there, never both.
- An inbox is bounded: when it is full, senders wait.
"""

import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field, fields
from typing import Literal, Protocol, TypeAlias

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import GivenJson, Json, JsonObject, as_int, as_object, as_str, json_freeze, json_load, wire_bytes
from sagent.plugins.mesh import names
from sagent.plugins.mesh.cards import Card, Change, Query, check_name
from sagent.plugins.mesh.errors import Cancelled, DeadlineExceeded, Failed, NobodyThere, TooLarge, WrongVersion

MAX_BODY_BYTES = 32 << 20
"""Bytes of a message's body as JSON."""

FrameKind: TypeAlias = Literal["frame", "restart", "reply", "failed"]
_KINDS: dict[str, FrameKind] = {"frame": "frame", "reply": "reply", "failed": "failed"}


@dataclass(frozen=True, slots=True)
class Address:
    """The receiver of a message: the dotted name of an inbox, and an agent in the tree that reads it ("" for its
    root)."""

    name: str
    path: str = ""

    @classmethod
    def of(cls, text: str) -> "Address":
        """Parse "team.review" or "team.review/root/child". Raises UsageError."""
        name, _, path = text.partition("/")
        return cls(check_name(name), path)

    def __str__(self) -> str:
        return f"{self.name}/{self.path}" if self.path else self.name


def new_id() -> str:
    """Return a unique message id."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message. After `deadline` its answer is useless; after `kept_until` it is dropped if nobody has taken it (UTC,
    seconds since the epoch); `answers_to` is where the sender listens, set by the bus."""

    to: Address
    body: GivenJson
    kind: str = "message"
    id: str = field(default_factory=new_id)
    sender: str = ""
    deadline: float | None = None
    kept_until: float | None = None
    answers_to: str = ""

    @property
    def is_late(self) -> bool:
        """True if its deadline is over."""
        return self.deadline is not None and time.time() > self.deadline


def message(
    to: Address | str, body: object, *, kind: str = "message", sender: str = "", keep: float | None = None
) -> Envelope:
    """Return a message with a JSON body, dropped if nobody takes it within `keep` seconds. Raises UsageError."""
    until = None if keep is None else time.time() + keep
    address = Address.of(to) if isinstance(to, str) else to
    return Envelope(address, json_freeze(body), kind, sender=sender, kept_until=until)


@dataclass(frozen=True, slots=True)
class Frame:
    """A part of an answer: a frame of a stream, or its end, which is the reply or a failure (`kind` and `message`).

    "restart" means that earlier frames are sent anew: the answering process is gone, and another has begun (`attempt`).
    """

    kind: FrameKind
    body: GivenJson
    number: int = 1
    attempt: int = 1

    @property
    def is_last(self) -> bool:
        return self.kind in ("reply", "failed")


class Delivery(Protocol):
    """A message that is ours to handle."""

    @property
    def envelope(self) -> Envelope: ...

    @property
    def sequence(self) -> int:
        """The message's place in the inbox: later messages have higher ones."""
        ...

    @property
    def deliveries(self) -> int:
        """Number of deliveries of this message, including this one."""
        ...

    async def ack(self) -> None:
        """Acknowledge the message: it was handled or saved. It is not delivered again, and the next one may arrive."""
        ...

    async def emit(self, frame: object) -> None:
        """Send a frame of a streamed answer as JSON; return when the bus has it."""
        ...

    async def reply(self, body: object) -> None:
        """Send the answer as JSON, which ends the stream, and acknowledge the message."""
        ...

    async def fail(self, message: str, kind: str = "failed") -> None:
        """Answer that it could not be done, and acknowledge: a sentence, and the kind of error. No traceback."""
        ...

    async def cancelled(self) -> None:
        """Return when the answer is no longer wanted."""
        ...


class Sent(Protocol):
    """A message that the bus has."""

    @property
    def id(self) -> str: ...

    async def taken(self) -> None:
        """Return when the message is taken. Raises NobodyThere after `kept_until`, when nobody can take it any more.

        Raises UsageError for a message kept without a limit.
        """
        ...


class Bus(Protocol):
    """The connection to other agents."""

    async def send(self, envelope: Envelope, *, timeout: float = 10.0) -> Sent:
        """Put a message into an inbox; return when the bus has stored it.

        Raises TooLarge, Full if there was no room for `timeout` seconds, Unavailable.
        """
        ...

    def asking(
        self, envelope: Envelope, *, timeout: float = 600.0
    ) -> AbstractAsyncContextManager[AsyncIterator[Frame]]:
        """Send a message and read its answer as frames; the last is the reply or a failure.

        Leaving the block earlier cancels the request. The iterator raises DeadlineExceeded if the answer has not ended
        within `timeout` seconds, NobodyThere if the message was not even taken, Unavailable.
        """
        ...

    def receiving(self, name: str) -> AbstractAsyncContextManager[AsyncIterator[Delivery]]:
        """Return the messages to an address during the block. Messages unacknowledged at its end are delivered
        again."""
        ...

    async def put_card(self, card: Card) -> None:
        """Show a card for `names.CARD_TTL` seconds."""
        ...

    async def remove_card(self, address: str) -> None: ...

    async def cards(self, *queries: Query) -> list[Card]:
        """Return the cards shown now that match one of the queries; without queries all."""
        ...

    def watching_cards(self) -> AbstractAsyncContextManager[AsyncIterator[Change | None]]:
        """Return the current cards, then None, then each change. A card may be repeated unchanged."""
        ...


async def request(bus: Bus, envelope: Envelope, *, timeout: float = 600.0) -> Json:
    """Send a message and return the body of its reply; stream frames are skipped.

    Raises Failed with the other side's message, Cancelled, and the errors of `Bus.asking`.
    """
    async with bus.asking(envelope, timeout=timeout) as frames:
        async for frame in frames:
            if frame.is_last:
                return answer_of(frame, envelope)
    raise DeadlineExceeded(f"{envelope.to} did not answer.")


def answer_of(frame: Frame, envelope: Envelope) -> Json:
    """Return the body of a reply. Raises the error in any other last frame."""
    if frame.kind == "reply":
        return frame.body
    members = as_object(frame.body)
    message, kind = as_str(members.get("message"), "It failed."), as_str(members.get("kind"), "failed")
    for error in (DeadlineExceeded, NobodyThere, WrongVersion, Cancelled, TooLarge):
        if kind == error.kind:
            raise error(message)
    raise Failed(f"{envelope.to}: {message}", kind)


def failure(message: str, kind: str) -> Json:
    """Return the body of a frame that says what failed."""
    return JsonObject({"kind": kind, "message": message})


def encode(envelope: Envelope, body_name: str = "") -> bytes:
    """Encode an envelope as JSON; with a `body_name` its body is stored under that name."""
    members: dict[str, object] = {each.name: getattr(envelope, each.name) for each in fields(envelope)}
    members |= {"version": names.VERSION, "to": str(envelope.to), "parcel": body_name}
    members["body"] = None if body_name else envelope.body
    return wire_bytes({name: value for name, value in members.items() if value not in ("", None) or name == "body"})


def encode_body(envelope: Envelope) -> bytes:
    """Return the body alone. Raises TooLarge."""
    data = wire_bytes(envelope.body)
    if len(data) > MAX_BODY_BYTES:
        raise TooLarge(f"A message to {envelope.to} has {len(data):,} bytes; a bus carries at most {MAX_BODY_BYTES:,}.")
    return data


def decode(data: bytes) -> tuple[Envelope, str]:
    """Return an envelope, and the name of its stored body. Raises WrongVersion, and ValueError for anything
    else."""
    members = as_object(json_load(data))
    return envelope_of(members), as_str(members.get("parcel"))


def envelope_of(members: object) -> Envelope:
    """Return an envelope from its JSON object. Raises WrongVersion, ValueError."""
    found = as_object(members)
    if (version := as_int(found.get("version"))) != names.VERSION:
        raise WrongVersion(f"A message is of version {version}; this sagent knows {names.VERSION}.")
    if not (own := as_str(found.get("id"))):
        raise ValueError("a message without an id")
    try:
        to = Address.of(as_str(found.get("to")))
    except UsageError as error:
        raise ValueError(str(error)) from None
    return Envelope(
        to,
        json_freeze(found.get("body")),
        as_str(found.get("kind"), "message"),
        own,
        as_str(found.get("sender")),
        _time(found, "deadline"),
        _time(found, "kept_until"),
        as_str(found.get("answers_to")),
    )


def _time(members: Mapping[str, object], name: str) -> float | None:
    match members.get(name):
        case None:
            return None
        case int() | float() as value if not isinstance(value, bool) and abs(value) < 1e11:
            return float(value)
        case _:
            raise ValueError(f"{name} is not a time in seconds since 1970")


def frame_kind(text: str) -> FrameKind | None:
    """Return a kind of frame by its name."""
    return "restart" if text == "restart" else _KINDS.get(text)


def encode_frame(frame: Frame, body_name: str = "") -> bytes:
    """Encode a frame as JSON; with a `body_name` its body is stored under that name."""
    members: dict[str, object] = {"version": names.VERSION, "kind": frame.kind}
    members |= {"number": frame.number, "attempt": frame.attempt}
    return wire_bytes(members | ({"parcel": body_name} if body_name else {"body": frame.body}))


def decode_frame(data: bytes) -> tuple[Frame, str]:
    """Return a frame, and the name of its stored body. An unreadable frame becomes a failure that says so."""
    members = as_object(json_load(data))
    place = as_int(members.get("number"), 1), as_int(members.get("attempt"), 1)
    if as_int(members.get("version")) != names.VERSION:
        text = f"The answer is of version {members.get('version')}; this sagent knows {names.VERSION}."
        return Frame("failed", failure(text, WrongVersion.kind), *place), ""
    if (kind := _KINDS.get(as_str(members.get("kind")))) is not None:
        return Frame(kind, json_freeze(members.get("body")), *place), as_str(members.get("parcel"))
    return Frame("failed", failure(f"An answer of the unknown kind {members.get('kind')!r}.", "failed"), *place), ""


def no_receiver(envelope: Envelope) -> NobodyThere:
    """Return the error for a message that nobody has taken."""
    return NobodyThere(f"No agent receives at {envelope.to}, so the message was dropped. To list agents: sagent agents")


def answer_timeout(envelope: Envelope) -> DeadlineExceeded:
    """Return the error of an answer that has not come in time."""
    return DeadlineExceeded(f"{envelope.to} has not answered in time; it has been asked to stop.")


def body_object(body: Json) -> JsonObject:
    """Return a body as an object: a text is its `text`."""
    return body if isinstance(body, JsonObject) else JsonObject({"text": body})
