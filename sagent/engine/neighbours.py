"""What an agent's engine may ask of those around it: a person, other agents, whoever knows models and files."""

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
    """Those around one agent."""

    @property
    def ask(self) -> Asker | None:
        """Puts a question to the person; None where there is nobody to ask."""
        ...

    @property
    def busy(self) -> bool:
        """Whether agents below are at work, or a message is on its way: with it the run goes on."""
        ...

    def resolve(self, name: str) -> Model:
        """A model by "provider/id". Raises UsageError."""
        ...

    def sizes(self, model: Model) -> ModelLimits:
        """A model's sizes: as its provider's listing has them, else as it knows them itself."""
        ...

    def extension(self) -> Extension | None:
        """What the agent is extended by once an action switches it on; the same one each time."""
        ...

    def deliver(self, path: str, message: Message) -> None:
        """Have another agent read a message in its next pause, if it is still there."""
        ...

    def wake_above(self) -> None:
        """Wake those above, who may wait for this agent's jobs."""
        ...

    async def before_compaction(self, reason: str, hints: str) -> str:
        """What a summary is to keep, before the context is made smaller; `hints` are what was asked for."""
        ...

    async def watch(self, call: ToolCall, effect: Effect, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work of a call that may change files, and record which it changed."""
        ...
