"""The interface of a chat service; supporting another service means implementing this protocol."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeAlias

from sagent.errors import SagentError
from sagent.lib.dataclass import dataclass


class ChatError(SagentError):
    """A chat service refused a request, or is unreachable."""

    kind = "chat"


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation by its place (a channel) and its own name there."""

    place: str
    name: str


@dataclass(frozen=True, slots=True)
class Person:
    """Author of a message or a press. `is_member`: of the workspace itself, not a guest from another one."""

    id: str
    is_member: bool = True


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message; `source` is how its surface finds it."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """A message of a person. `message` is its name in its place; `addressed` is True if it is meant for us."""

    thread: Thread
    message: str
    person: Person
    text: str
    addressed: bool = False
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Pressed:
    """A button of one of our messages was pressed."""

    person: Person
    choice: str


@dataclass(frozen=True, slots=True)
class Commanded:
    """A command, outside of any thread; `reply` is how its surface answers it."""

    place: str
    person: Person
    words: tuple[str, ...]
    reply: str


Incoming: TypeAlias = SlackMessage | Pressed | Commanded


@dataclass(frozen=True, slots=True)
class Button:
    """`choice` is returned when it is pressed: a name without other meaning."""

    choice: str
    label: str
    is_danger: bool = False


class ChatSurface(Protocol):
    """A chat service. Texts are Markdown. Every call raises ChatError.

    A message may have `most_text` characters, and be edited once in `pause` seconds. `incoming` yields all events,
    perhaps more than once, and ends when the connection is closed."""

    most_text: int
    pause: float

    def incoming(self) -> AsyncIterator[Incoming]: ...

    async def post(self, thread: Thread, text: str, buttons: Sequence[Button] = ()) -> str:
        """Write into a thread; the message's name."""
        ...

    async def edit(self, thread: Thread, message: str, text: str) -> None:
        """Have a message say another text, without its buttons."""
        ...

    async def upload(self, thread: Thread, name: str, data: bytes) -> None: ...

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return a file of at most so many bytes."""
        ...

    async def answer(self, command: Commanded, text: str) -> None:
        """Answer a command, visible only to its author."""
        ...
