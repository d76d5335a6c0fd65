"""The records of sessions on the bus in addition to their logs: the request, the node at work, the result."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Literal, TypeAlias, TypeVar, cast

from sagent.cli.flags import plugins_of
from sagent.errors import SessionNotFound, UsageError
from sagent.events import Result
from sagent.lib.dataclass import dataclass
from sagent.messages import Message
from sagent.peer import Moment
from sagent.plugins.hosting.typed import adapter, encode
from sagent.plugins.mesh import names
from sagent.plugins.mesh.bus import MAX_BODY_BYTES, new_id
from sagent.plugins.mesh.errors import TooLarge, WrongVersion
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.large_bodies import LargeBodies
from sagent.plugins.mesh.trace import current_context

SessionState: TypeAlias = Literal["queued", "working", "idle"]
FilesKind: TypeAlias = Literal["git", "shared", "none"]

PARCEL = "Sagent-Parcel"
"""Header: the name of a message's stored body."""


def remote_flags() -> Sequence[str]:
    """Return the settings, of the core and of plugins, that a requester of a session may choose. All others, such as
    keys and policy, are the node's."""
    return [setting.name for setting in plugins_of(sys.argv[1:]).passed_on("remote")]


def check_flags(flags: Mapping[str, object]) -> None:
    """Refuse flags that only the node may set. Raises UsageError."""
    if flags and (unknown := sorted(set(flags) - set(known := remote_flags()))):
        raise UsageError(f"{unknown[0]} is set by the node; you can give {', '.join(known)}.")


def check_label(label: str) -> None:
    """Refuse an invalid name of a node or a label. Raises UsageError."""
    if not names.NAME.fullmatch(label):
        raise UsageError(f"{label!r} is not a valid name of a node or a label: use letters, digits, _ and -.")


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session on the bus. `flags` are among remote_flags(). `files` is the transport of files, `base` their name
    before the first turn (in the object store, or the shared directory) and `now` after the last one. `answered` are
    the numbers of the last messages read before `result`, and `answers` the answers of those for which it is not
    `result`."""

    id: str
    title: str = ""
    label: str = ""
    flags: Mapping[str, str] = field(default_factory=dict[str, str])
    files: FilesKind = "none"
    base: str = ""
    now: str = ""
    state: SessionState = "queued"
    node: str = ""
    answered: tuple[int, ...] = ()
    answers: Mapping[int, Result] = field(default_factory=dict[int, Result])
    result: Result | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])  # trace context of the request
    version: int = names.VERSION


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A message for a session, in its inbox."""

    message: Message
    moment: Moment = "next"
    version: int = names.VERSION


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """A message as it is sent: its bytes, or the name under which they are stored."""

    data: bytes
    body_name: str = ""


T = TypeVar("T", SessionRecord, InboxMessage)


def decode(of: type[T], data: bytes) -> T:
    """Decode a record. Raises WrongVersion."""
    from pydantic import ValidationError

    try:
        found = cast("T", adapter(of).validate_json(data))
    except ValidationError as error:
        raise WrongVersion(f"A {of.__name__} on the bus cannot be read: {error.errors()[0]['msg']}.") from error
    if found.version != names.VERSION:
        raise WrongVersion(
            f"A {of.__name__} on the bus has version {found.version}; sagent reads {names.VERSION} here. Update one."
        )
    return found


class Records:
    """The sessions of a bus. Each method raises Unavailable."""

    def __init__(self, bus: JetStream) -> None:
        self._bus, self._bucket, self._large_bodies = bus, bus.bucket(names.SESSIONS), LargeBodies(bus)

    async def create(self, record: SessionRecord) -> None:
        record = replace(record, trace=record.trace or current_context())
        await self._bucket.create(names.token(record.id), encode(record))

    async def get(self, session: str) -> tuple[SessionRecord, int]:
        """Return a session and its revision. Raises SessionNotFound and WrongVersion."""
        found = await self._bucket.get(names.token(session))
        if found is None or found.value is None:
            raise SessionNotFound(f"There is no session {session} on this bus.")
        return decode(SessionRecord, found.value), found.revision

    async def find(self, name: str) -> SessionRecord:
        """Return a session by its id directly, or by a prefix, which reads all. Raises SessionNotFound and
        WrongVersion."""
        with suppress(SessionNotFound):
            return (await self.get(name))[0]
        found = [entry for entry in await self._bucket.entries() if entry.key.startswith(names.token(name))]
        if len(found) != 1:
            many = "Several sessions of this bus begin" if found else "No session of this bus begins"
            raise SessionNotFound(f"{many} with {name!r}.")
        return decode(SessionRecord, found[0].value or b"")

    async def all(self, session: str = "") -> list[SessionRecord]:
        """Return the readable records, or the one with an id."""
        found: list[SessionRecord] = []
        for entry in await self._bucket.entries(names.token(session) if session else ">"):
            with suppress(WrongVersion):
                found.append(decode(SessionRecord, entry.value or b""))
        return found

    async def change(self, record: SessionRecord, revision: int, **changes: object) -> tuple[SessionRecord, int]:
        """Change a record at this revision. Raises Fenced if another writer has changed it."""
        changed = replace(record, **changes)
        return changed, await self._bucket.update(names.token(record.id), encode(changed), revision)

    async def pack(self, message: InboxMessage) -> EncodedMessage:
        """Return a message as it is sent. Raises TooLarge."""
        if len(data := encode(message)) > MAX_BODY_BYTES:
            raise TooLarge(f"A message has {len(data):,} bytes; a bus carries at most {MAX_BODY_BYTES:,}.")
        body_name = await self._large_bodies.put(data)
        return EncodedMessage(b"" if body_name else data, body_name)

    async def unpack(self, data: bytes, headers: Mapping[str, str]) -> InboxMessage:
        """Return a message as sent. Raises WrongVersion, and Failed if its body is gone."""
        body_name = headers.get(PARCEL)
        return decode(InboxMessage, await self._large_bodies.get(body_name) if body_name else data)

    async def drop_body(self, headers: Mapping[str, str]) -> None:
        """Forget the body of a message that was read."""
        await self._large_bodies.drop(headers.get(PARCEL, ""))

    async def send(self, record: SessionRecord, message: InboxMessage, mark: str = "") -> int:
        """`post` of a message. Raises TooLarge, too."""
        return await self.post(record, await self.pack(message), mark)

    async def post(self, record: SessionRecord, letter: EncodedMessage, mark: str = "") -> int:
        """Put a message into a session's inbox, tell a node to check it, and return its number. The same `mark` within
        two minutes is the same message. Raises Full."""
        subject, headers = (
            names.inbox_subject(f"session.{record.id}"),
            {PARCEL: letter.body_name} if letter.body_name else {},
        )
        number = await self._bus.append(subject, letter.data, id=mark or new_id(), headers=headers)
        await self._bus.append(names.work_subject(record.label), record.id.encode(), id=f"{record.id}:{number}")
        return number
