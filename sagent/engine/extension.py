"""What can be added to an agent from above: advisors are such an extension."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import NamedTuple, Protocol

from sagent.errors import ModelError
from sagent.events import Advice, AdvisorTally
from sagent.lib.dataclass import dataclass
from sagent.model import Reply, Request
from sagent.peer import Action
from sagent.session.contents import AdviceContent


class ExtraCost(NamedTuple):
    """What other models that a provider asks inside one call may cost, and the roles they are billed as, by the roles
    that the provider's adapter gives them."""

    usd: Decimal
    roles: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """The state of an extension: its advisors, in words; what each has done in this session; remarks at the end of a
    run."""

    advisors: str = ""
    tallies: Mapping[str, AdvisorTally] = field(default_factory=dict[str, AdvisorTally])
    remarks: Sequence[str] = ()


class Extension(Protocol):
    """What an agent's engine asks of an extension, which adds its own tools and policy to the agent."""

    def prepare(self, request: Request) -> Request:
        """The next request, with the extension's additions."""
        ...

    def extra_cost(self, max_input: int) -> ExtraCost:
        """What a request with so many tokens of input may cost in addition."""
        ...

    def after_reply(self, reply: Reply) -> None:
        """A reply was accepted, and its call was billed."""
        ...

    def refused(self, error: ModelError) -> bool:
        """A provider has refused a request: whether it should be prepared again and repeated."""
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
