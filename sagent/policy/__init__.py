"""Policies decide whether a call may be made, and what to do after a turn."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import GIVEN_NONE, GivenObjectOrNone
from sagent.messages import Message, ToolCall
from sagent.peer import Action
from sagent.tool import Effect, Workspace


@dataclass(frozen=True, slots=True)
class Allow:
    """Make the call. With other `arguments` it becomes a different call, which is judged again."""

    arguments: GivenObjectOrNone = GIVEN_NONE


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not make the call; the model reads the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Let the person decide. If no one can be asked, it is a denial that names `remedy` (a flag, a rule).

    `agent` is the path of the calling agent. `wants` are its requests beyond the sandbox."""

    reason: str
    remedy: str = ""
    agent: str = ""
    wants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Postpone:
    """Verdict "not yet": the model reads the reason, and may make the call again."""

    reason: str


Verdict: TypeAlias = Allow | Deny | Ask | Postpone


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply that a model gave, and the results that its calls got."""

    agent: str
    reply: Message
    results: Message | None


class Policy(Protocol):
    """Judges the calls of an agent."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict: ...

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Return the actions to take after a turn; none by default."""
        del turn
        return ()


class AllowAll(Policy):
    """The library's default: a tool that is passed may be used."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        del call, effect, workspace
        return Allow()
