"""What the REPL is given: the way to open a session, the session when it is open."""

from typing import TYPE_CHECKING, TypeAlias

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from sagent.agent import Agent
    from sagent.config import Settings
    from sagent.events import Event
    from sagent.messages import ToolCall
    from sagent.policy import Ask
    from sagent.policy.permissions import PermissionPolicy
    from sagent.sandbox import Sandbox
    from sagent.tools.ask import Answerer

Listener: TypeAlias = "Callable[[Event], None]"
Asker: TypeAlias = "Callable[[ToolCall, Ask], Awaitable[str | None]]"
"""Puts a question to the person: None is yes, a text the reason for no."""
Opening: TypeAlias = "Callable[[Settings, Listener, Asker, Answerer], AbstractAsyncContextManager[Opened]]"
"""Opens the session that settings describe, and closes it at the end: the listener is told its events, the asker asked
what its policy leaves to a person, and the answerer what its agents want to know from one. Raises SagentError."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that is open. `policy` is the one that judges its agents' calls: its mode and rules may be changed.
    `sandbox` is what holds their commands, where that is known."""

    agent: "Agent"
    policy: "PermissionPolicy"
    sandbox: "Sandbox | None" = None


class Current:
    """The settings in force and the session that is open, while there are any."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._opened: Opened | None = None

    @property
    def settings(self) -> "Settings":
        """The settings in force. Raises UsageError while they load."""
        if self._settings is None:
            raise UsageError("The settings are not loaded yet.")
        return self._settings

    @property
    def opened(self) -> Opened:
        """The open session. Raises UsageError while there is none."""
        if self._opened is None:
            raise UsageError("No session is open yet.")
        return self._opened
