"""An agent as others see it, and what may be done to it while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from sagent.events import Result
from sagent.messages import Message

Moment: TypeAlias = Literal["now", "idle"]
"""When a message is read: before the next model call, or when the turn would end."""


@dataclass(frozen=True, slots=True)
class Inject:
    """Put a message into the conversation."""

    message: Message
    moment: Moment = "now"


@dataclass(frozen=True, slots=True)
class Switch:
    """Change what the next model call uses. None leaves a thing as it is; `model` is "provider/id"."""

    model: str | None = None
    effort: str | None = None
    limits: Mapping[str, int | str] | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    """Make the context smaller, keeping the task; `hints` says what matters."""

    hints: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the turn before the next model call."""

    reason: str = ""


Action: TypeAlias = Inject | Switch | Compact | Stop


@dataclass(frozen=True, slots=True)
class Status:
    """An agent at a glance. `context_tokens` is what its next request would hold, estimated."""

    path: str
    state: Literal["idle", "working", "ended"]
    model: str
    turns: int
    context_tokens: int


class Peer(Protocol):
    """A local or remote agent: the only thing another agent, a surface or a coordinator may hold."""

    @property
    def path(self) -> str:
        """Its name in the tree: "root", "root/review"."""
        ...

    def send(self, message: Message | str, moment: Moment = "now") -> None:
        """Put a message into its inbox; returns at once."""
        ...

    async def wait(self) -> Result:
        """The result of the run now in progress, or of the last one."""
        ...

    def interrupt(self) -> None:
        """Stop its model call and tools; its history stays valid."""
        ...

    def apply(self, action: Action) -> None:
        """Ask for a change; it takes effect between two model calls. Raises UsageError when it cannot be made."""
        ...

    def status(self) -> Status:
        """How it stands now."""
        ...
