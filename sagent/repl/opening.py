"""What the REPL is given: an open session and the way to open another."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from sagent.agent import Agent
from sagent.config import Settings
from sagent.events import Event
from sagent.lib.dataclass import dataclass
from sagent.messages import ToolCall
from sagent.policy import Ask
from sagent.policy.permissions import PermissionPolicy
from sagent.tools.ask import Answerer

Listener: TypeAlias = Callable[[Event], None]
Asker: TypeAlias = Callable[[ToolCall, Ask], Awaitable[str | None]]
"""Puts a question to the person: None is yes, a text the reason for no."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that is open. `policy` is the one that judges its agents' calls: its mode and rules may be changed."""

    agent: Agent
    policy: PermissionPolicy


class Opening(Protocol):
    """Opens the session that settings describe, and closes it at the end. Raises SagentError."""

    def __call__(
        self, settings: Settings, listener: Listener, ask: Asker, answer: Answerer
    ) -> AbstractAsyncContextManager[Opened]:
        """The session; `listener` is told its events, `ask` is asked what its policy leaves to a person, and `answer`
        what its agents want to know from one."""
        ...
