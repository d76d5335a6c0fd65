"""Interfaces given to the REPL: the way to open a session, and the session when it is open."""

import asyncio
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.errors import SagentError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.surface import Surface

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from decimal import Decimal

    from sagent.agent import Agent
    from sagent.config import Settings
    from sagent.events import Event
    from sagent.messages import ToolCall
    from sagent.peer import Switch
    from sagent.policy import Ask
    from sagent.policy.permissions import Mode, PermissionPolicy
    from sagent.policy.rules import Rules
    from sagent.providers.wire.exchange import Told
    from sagent.repl.root import Permissions, RootAgent
    from sagent.sandbox import Sandbox, SandboxMode
    from sagent.tools.ask import Answerer

Listener: TypeAlias = "Callable[[Event], None]"
Asker: TypeAlias = "Callable[[ToolCall, Ask], Awaitable[str | None]]"
"""Puts a question to the person: None is yes, a text the reason for no."""
Opening: TypeAlias = "Callable[[Settings, Listener, Asker, Answerer, Told], AbstractAsyncContextManager[Opened]]"
"""Opens the session that settings describe, and closes it at the end: the listener gets its events, the asker is asked
what its policy leaves to a person, the answerer what its agents want to know from one, and the last is told what calls
to local servers wait for. Raises SagentError."""


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """Differences of a session that runs in another process. `where` is the place, "" while it rests in its `home`;
    `begin` starts passing on its events, once its conversation is on the screen, and calls back when its figures
    change; `again` is the command that comes back to it. `read` gives the text of a file there that a call would
    change, None where it is not known, and `modes` the permission modes that may be chosen."""

    where: "Callable[[], str]"
    home: str
    begin: "Callable[[Callable[[], None]], None]"
    again: str
    read: "Callable[[str], str | None]"
    modes: "Callable[[], Sequence[str]]"


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that is open. `policy` is the one that judges its agents' calls: its mode and rules may be changed.
    `sandbox` is what holds their commands, where that is known; `surface` has what parts of the agent add for the
    person. One that runs `elsewhere` goes on when it is closed here."""

    agent: "RootAgent"
    policy: "Permissions"
    sandbox: "Sandbox | None" = None
    surface: Surface = field(default_factory=Surface)
    elsewhere: RemoteSession | None = None


@dataclass(frozen=True, slots=True)
class OpenedHere(Opened):
    """One that runs in this process."""

    agent: "Agent"
    policy: "PermissionPolicy"


@dataclass(frozen=True, slots=True)
class SessionChoices:
    """Choices of a person in a session, to be kept in one that takes its place, which opens by the settings. Without
    rules or a budget it has those of its settings."""

    switches: "Sequence[Switch]"  # to model, effort, advisors
    mode: "Mode"
    rules: "Rules | None"
    sandbox: "SandboxMode | None"
    cap: "Decimal | None"

    @classmethod
    def of(cls, opened: Opened) -> "SessionChoices":
        policy, sandbox = opened.policy, opened.sandbox
        held, cap = sandbox.wanted if sandbox else None, opened.agent.ledger.cap
        return cls(_switches_to(opened.agent), policy.mode, policy.rules, held, cap)

    def mark(self, settings: "Settings") -> "Settings":
        """Return the settings to open it by: who answers was said in the session, so it goes where that one went."""
        return replace(settings, origins={**settings.origins, "model": "/model"})

    async def make(self, opened: Opened) -> list[str]:
        """Choose the same in another session: what could not be, in words."""
        opened.policy.mode, opened.policy.rules = self.mode, self.rules or opened.policy.rules
        ledger, wrong = opened.agent.ledger, list[str]()
        if self.cap is not None and ledger.cap not in (None, self.cap):
            ledger.cap = self.cap
        if opened.sandbox is not None and self.sandbox not in (None, opened.sandbox.wanted):
            try:
                await asyncio.to_thread(opened.sandbox.switch, self.sandbox)
            except SagentError as error:
                wrong.append(str(error))
        there = _switches_to(opened.agent)
        for switch in self.switches:
            if switch not in there:
                try:
                    opened.agent.apply(switch)
                except SagentError as error:
                    wrong.append(str(error))
        return wrong


def _switches_to(agent: "RootAgent") -> "list[Switch]":
    """Return the changes that make another agent answer and be advised as this one."""
    from sagent.advisor.extension import AdvisorExtension
    from sagent.peer import Switch

    status = agent.status()
    found = [Switch(model=status.model), *([Switch(effort=status.effort)] if status.effort else [])]
    if isinstance(agent.advisory, AdvisorExtension):
        active = agent.advisory.roster.active
        for one in agent.advisory.roster.every:
            found += [Switch(advisor=str(one)), Switch(advisor=f"{one.name}={'on' if one in active else 'off'}")]
    return found


class CurrentSession:
    """The settings in force and the session that is open, while there are any."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._opened: Opened | None = None

    def use(self, settings: "Settings") -> None:
        """Set the settings of the session that is opened next."""
        self._settings = settings

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

    @property
    def elsewhere(self) -> RemoteSession | None:
        """Return the remote side of the open session; None if it runs here, or none is open."""
        try:
            return self.opened.elsewhere
        except UsageError:
            return None

    def require_here(self, what: str) -> None:
        """Refuse a command that needs the session's own machine. Raises UsageError on any other."""
        if (elsewhere := self.elsewhere) is not None:
            place = elsewhere.where()
            where = f"it runs on {place}" if place else f"it is idle, and runs on a node of {elsewhere.home}"
            raise UsageError(f"{what} works only on the machine that runs the session: {where}.")

    @property
    def local(self) -> "Agent":
        """The agent of the open session, which runs in this process. Raises UsageError where it does not."""
        from sagent.agent import Agent

        self.require_here("This")
        agent = self.opened.agent
        assert isinstance(agent, Agent)
        return cast("Agent", agent)
