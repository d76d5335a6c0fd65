"""What an agent's engine may ask of its surroundings: a person, other agents, models and files."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

from sagent.engine.extension import Extension
from sagent.messages import Message, ToolCall
from sagent.model import Model, ModelLimits
from sagent.policy import Ask
from sagent.tool import Effect

T = TypeVar("T")
Asker: TypeAlias = Callable[[ToolCall, Ask], Awaitable[str | None]]
"""Puts a question to a person: None means yes, a string is the reason for no."""


class Neighbours(Protocol):
    """The surroundings of one agent."""

    @property
    def ask(self) -> Asker | None:
        """Puts a question to the person; None if nobody can be asked."""
        ...

    @property
    def busy(self) -> bool:
        """Whether agents below are working or a message is on its way: then the run continues."""
        ...

    def resolve(self, name: str) -> Model:
        """A model by "provider/id". Raises UsageError."""
        ...

    def sizes(self, model: Model) -> ModelLimits:
        """A model's sizes: from its provider's list, otherwise from the model itself."""
        ...

    def extension(self) -> Extension | None:
        """The agent's extension, once an action switches it on; the same object each time."""
        ...

    def deliver(self, path: str, message: Message) -> None:
        """Let another agent read a message in its next pause, if it still exists."""
        ...

    def wake_above(self) -> None:
        """Wake the agents above, which may wait for this agent's jobs."""
        ...

    async def before_compaction(self, reason: str, hints: str) -> str:
        """What a summary should keep, before the context is made smaller; `hints` are those of the request."""
        ...

    async def watch(self, call: ToolCall, effect: Effect, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work of a call that may change files, and record which it changed."""
        ...
