"""An agent and its advisors, as each sees the other: the engine and the advisors are strangers, and meet here."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from sagent.events import Advice, AdvisorTally, Event
from sagent.lib.json import JsonObject
from sagent.messages import Message, ToolCall
from sagent.model import Model, ModelLimits, Reply, Request, TextPart, ThinkingPart
from sagent.peer import Action, Peer, SpawnRequest
from sagent.policy import Ask, Policy
from sagent.tool import Blobs, Tool
from sagent.usage import Charge, Cost, Usage

if TYPE_CHECKING:
    from sagent.session.contents import AdviceContent

Hear: TypeAlias = Callable[[TextPart | ThinkingPart], None]
"""Told of what a model says as it comes."""


class SideReply(NamedTuple):
    """The reply of a call beside the conversation, and its price; None where that is not known."""

    reply: Reply
    usd: Decimal | None


class Advisee(Protocol):
    """An agent as its advisors use it."""

    @property
    def path(self) -> str:
        """Its name in the tree."""
        ...

    @property
    def model(self) -> Model:
        """What answers now."""
        ...

    @property
    def role(self) -> str:
        """Who its calls are billed as."""
        ...

    @property
    def attended(self) -> bool:
        """Whether there is a person to ask."""
        ...

    @property
    def blobs(self) -> Blobs:
        """Where its log keeps what is large."""
        ...

    @property
    def closing(self) -> bool:
        """Whether the run in progress makes no further model call."""
        ...

    def request(self) -> Request:
        """What its next call would send."""
        ...

    def resolve(self, name: str) -> Model:
        """A model by "provider/id". Raises UsageError."""
        ...

    def limits(self, model: Model) -> ModelLimits:
        """A model's sizes."""
        ...

    def cost(self) -> Cost:
        """What the whole tree has spent."""
        ...

    def used(self) -> Usage:
        """Tokens that it has used itself, its advisors' left out."""
        ...

    def billed(self, role: str) -> tuple[Usage, Decimal | None]:
        """What a role was billed in the whole tree; None where a call of it has no known price."""
        ...

    def price(self, provider: str, model: str, usage: Usage) -> Decimal | None:
        """USD that a model would be billed for tokens; None where its price is not known."""
        ...

    def worst(self, model: Model, weight: int, output: int) -> Decimal | None:
        """USD that a call may cost at most; None where its price is not known."""
        ...

    def record(self, content: "AdviceContent") -> str:
        """Append to its log; the entry's id, "" where nothing is kept any more."""
        ...

    def emit(self, event: Event) -> None:
        """Tell its listeners."""
        ...

    async def side_call(self, model: Model, request: Request, role: str, hear: Hear) -> SideReply:
        """Call a model beside the conversation: reserved, retried, billed to the role. Raises ModelError and
        BudgetExceeded."""
        ...

    async def spawn(self, order: SpawnRequest) -> Peer:
        """A new agent below it. Raises UsageError, BudgetExceeded and OSError: none was begun."""
        ...

    async def ask(self, call: ToolCall, question: Ask) -> str | None:
        """Put a question to a person: None for yes, else why not."""
        ...

    def deliver(self, message: Message) -> None:
        """Have a message read before the next model call."""
        ...

    def apply(self, action: Action) -> None:
        """Do something to it; it takes effect between two model calls."""
        ...


class Advisory(Protocol):
    """One agent's advisors."""

    @property
    def tool(self) -> Tool | None:
        """By which the agent asks; None without advisors."""
        ...

    def judge(self, inner: Policy) -> Policy:
        """The agent's policy with what its advisors see to put around it."""
        ...

    def heir(self, advisee: Advisee) -> "Advisory":
        """The same advisors for an agent below; what bounds a session is counted together."""
        ...

    async def consult(self, question: str = "", name: str = "", trigger: str = "asked") -> Sequence[Advice]:
        """Ask one, or all where they are a panel. Raises UsageError for a name that none has; nothing else."""
        ...

    def cancel(self) -> None:
        """End the consultation in progress; the turn goes on."""
        ...

    def check(self, change: str) -> None:
        """Raise UsageError for a change that cannot be made."""
        ...

    def switch(self, change: str) -> str:
        """Make it, and say what it was."""
        ...

    def messages(self, advice: Sequence[Advice]) -> Sequence[Message]:
        """Answers as messages of the conversation."""
        ...

    def options(self, model: Model) -> JsonObject | None:
        """What a request to a model that asks its advisor by itself says of it; None where it does not."""
        ...

    def beside(self, model: Model, weight: int) -> Decimal:
        """USD that consultations inside one request of this weight may cost at most."""
        ...

    def named(self, charges: tuple[Charge, ...]) -> tuple[Charge, ...]:
        """The charges of a reply, those of an advisor under its name."""
        ...

    def heard(self, advice: Sequence[Advice]) -> None:
        """Take note of advice that came inside a reply."""
        ...

    def declined(self, model: Model, reason: str) -> bool:
        """A provider has refused a request. Whether it is worth making again, without `options`."""
        ...

    def describe(self) -> str:
        """Who they are, in words."""
        ...

    def rate(self, good: Literal[1, -1], name: str = "") -> str:
        """A person's word on the last advice; whose it was. Raises UsageError where there is none."""
        ...

    def forget(self) -> None:
        """The agent went back to an earlier point: what was told of its history holds no longer."""
        ...

    def restore(self, entries: "Sequence[AdviceContent]", blob: Callable[[str], bytes]) -> None:
        """Take up what the log of an earlier process tells."""
        ...

    def tally(self) -> Mapping[str, AdvisorTally]:
        """What each came to in this session, by name."""
        ...

    def remarks(self) -> Sequence[str]:
        """What is worth telling at the end of a run about how they were used."""
        ...

    def in_force(self) -> Sequence[Message]:
        """The last advice of each, as messages, for a conversation that has lost it."""
        ...


AdvisoryFactory: TypeAlias = Callable[[Advisee], Advisory]
