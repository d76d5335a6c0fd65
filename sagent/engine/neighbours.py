"""Interfaces of an agent's engine to its surroundings: a person, other agents, models and files; and extensions, such
as its advisors."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from sagent.errors import ModelError
from sagent.events import Advice, AdvisorTally
from sagent.lib.dataclass import dataclass
from sagent.messages import Message, ToolCall
from sagent.model import Model, ModelLimits, Reply, Request
from sagent.peer import Action
from sagent.policy import Allow, Ask
from sagent.session.contents import AdviceContent
from sagent.tool import Effect

T = TypeVar("T")
Asker: TypeAlias = Callable[[ToolCall, Ask], Awaitable[str | Allow | None]]
"""Asks a person: None means yes, a string is the reason for no, and Allow may have other arguments, judged again."""


class ExtraCost(NamedTuple):
    """The cost of other models that a provider runs inside one call, and the roles they are billed as, by the roles
    that the provider's adapter gives them."""

    usd: Decimal
    roles: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """The state of an extension: a description of its advisors; each one's activity; remarks at the end of a run."""

    advisors: str = ""
    tallies: Mapping[str, AdvisorTally] = field(default_factory=dict[str, AdvisorTally])
    remarks: Sequence[str] = ()


class Extension(Protocol):
    """An extension of an agent's engine, which adds its own tools and policy to the agent."""

    def prepare(self, request: Request) -> Request:
        """Return the next request, with the extension's additions."""
        ...

    def extra_cost(self, max_input: int) -> ExtraCost:
        """Return the additional maximum cost of a request with so many tokens of input."""
        ...

    def after_reply(self, reply: Reply) -> None:
        """Note that a reply was accepted and its call billed."""
        ...

    def refused(self, error: ModelError) -> bool:
        """Return True if a refused request should be prepared again and repeated."""
        ...

    def plan(self, action: Action) -> Callable[[], None]:
        """Check what an action asks of the extension, and return the function that does it. Raises UsageError."""
        ...

    async def consult(self, question: str = "", name: str = "") -> Sequence[Advice]:
        """Ask an advisor by its name, or the first; a panel is asked as a whole. Raises UsageError if there is none."""
        ...

    def resume(self, entries: Sequence[AdviceContent]) -> None:
        """Join the conversation from here on; these entries of its log are from before."""
        ...

    def report(self) -> Report: ...


class Neighbours(Protocol):
    """The surroundings of one agent."""

    @property
    def ask(self) -> Asker | None:
        """A function that asks the person; None if nobody can be asked."""
        ...

    @property
    def busy(self) -> bool:
        """True if agents below are working or a message is on its way: then the run continues."""
        ...

    def resolve(self, name: str) -> Model:
        """Return a model by "provider/id". Raises UsageError."""
        ...

    def sizes(self, model: Model) -> ModelLimits:
        """Return a model's sizes: from its provider's list, otherwise from the model itself."""
        ...

    def extension(self) -> Extension | None:
        """Return the agent's extension, once an action switches it on; the same object each time."""
        ...

    def deliver(self, path: str, message: Message) -> None:
        """Let another agent read a message in its next pause, if it still exists."""
        ...

    def wake_above(self) -> None:
        """Wake the agents above, which may wait for this agent's jobs."""
        ...

    async def before_compaction(self, reason: str, hints: str) -> str:
        """Return hints for a summary before the context is made smaller; `hints` are those of the request."""
        ...

    async def watch(self, call: ToolCall, effect: Effect, work: Callable[[], Awaitable[T]]) -> T:
        """Run a call that may change files, and record its changes."""
        ...
