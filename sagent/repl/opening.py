"""Interfaces for the REPL: a way to open a session, and the open session."""

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
    from sagent.policy import Allow, Ask
    from sagent.policy.permissions import Mode, PermissionPolicy
    from sagent.policy.rules import Rules
    from sagent.providers.wire.exchange import OnWaiting
    from sagent.repl.root import Permissions, RootAgent
    from sagent.sandbox import Sandbox, SandboxMode
    from sagent.tools.ask import Answerer

Listener: TypeAlias = "Callable[[Event], None]"
Asker: TypeAlias = "Callable[[ToolCall, Ask], Awaitable[str | Allow | None]]"
"""Puts a question to the person: None is yes, a text the reason for no, and Allow has a changed call."""
Opening: TypeAlias = "Callable[[Settings, Listener, Asker, Answerer, OnWaiting], AbstractAsyncContextManager[Opened]]"
"""Opens the session that settings describe, and closes it at the end. The listener receives its events, the asker
answers its policy's questions, the answerer those of its agents, and the last receives why calls to local servers wait.
Raises SagentError."""


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """Properties of a session that runs in another process. `where` is the place, "" while it rests in its `home`;
    `begin` starts passing on its events once its conversation is on the screen, and calls back when its figures change;
    `again` is the command to return to it. `read` returns the text of a remote file that a call would change, None if
    unknown, and `modes` are the available permission modes."""

    where: "Callable[[], str]"
    home: str
    begin: "Callable[[Callable[[], None]], None]"
    again: str
    read: "Callable[[str], str | None]"
    modes: "Callable[[], Sequence[str]]"


@dataclass(frozen=True, slots=True)
class Opened:
    """An open session. `policy` judges its agents' calls: its mode and rules may be changed. `sandbox` confines their
    commands, if known; `surface` has additions of the agent's parts for the person. One that runs `elsewhere` continues
    when it is closed here."""

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
    """A person's choices in a session, to repeat in its successor, which is opened by the settings. Without rules or a
    budget it uses those of its settings."""

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
        """Return the settings with which to open it; the choice of a model came from the session, so it applies like
        that session's. One that was left without a message is not there to be reopened: another begins."""
        path = settings.session if settings.session and settings.session.exists() else None
        return replace(settings, session=path, origins={**settings.origins, "model": "/model"})

    async def make(self, opened: Opened) -> list[str]:
        """Repeat the choices in another session; return a sentence for each that failed."""
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
    """Return the switches to this agent's model and advisors."""
    from sagent.advisor.extension import AdvisorExtension
    from sagent.peer import Switch

    status = agent.status()
    found = [Switch(model=status.model), *([Switch(effort=status.effort)] if status.effort else [])]
    if isinstance(agent.advisory, AdvisorExtension):
        active = agent.advisory.roster.active
        for one in agent.advisory.roster.every:
            found += [Switch(advisor=str(one)), Switch(advisor=f"{one.name}={'on' if one in active else 'off'}")]
    return found


class NoSession(UsageError):
    """No session is open, or not yet."""


class CurrentSession:
    """The current settings and open session, if any."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._opened: Opened | None = None

    def use(self, settings: "Settings") -> None:
        """Set the settings of the session that is opened next."""
        self._settings = settings

    @property
    def settings(self) -> "Settings":
        """The current settings. Raises UsageError while they load."""
        if self._settings is None:
            raise UsageError("The settings are not loaded yet.")
        return self._settings

    @property
    def opened(self) -> Opened:
        """The open session. Raises NoSession while there is none."""
        if self._opened is None:
            raise NoSession("No session is open yet: /setup, /login or /model NAME begins one.")
        return self._opened

    @property
    def elsewhere(self) -> RemoteSession | None:
        """The remote side of the open session; None if it runs here, or none is open."""
        try:
            return self.opened.elsewhere
        except UsageError:
            return None

    def require_here(self, command: str) -> None:
        """Reject a command that needs the session's own machine. Raises UsageError if that is another one."""
        if (elsewhere := self.elsewhere) is not None:
            raise UsageError(f"{command} works only where the session runs: {elsewhere.where() or elsewhere.home}.")

    @property
    def local(self) -> "Agent":
        """The agent of the open session, which runs in this process. Raises UsageError if it does not."""
        from sagent.agent import Agent

        self.require_here("This")
        agent = self.opened.agent
        assert isinstance(agent, Agent)
        return cast("Agent", agent)
