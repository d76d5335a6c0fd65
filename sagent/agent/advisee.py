"""An agent as its advisors use it."""

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from sagent.engine.side_call import make_side_call
from sagent.engine.state import AgentState
from sagent.errors import UsageError
from sagent.events import Event
from sagent.messages import Message, ToolCall
from sagent.model import Model, ModelLimits, Request
from sagent.peer import Action, Peer, SpawnRequest
from sagent.policy import Ask
from sagent.policy.advisory import Hear, SideReply
from sagent.session.contents import AdviceContent
from sagent.tool import Blobs
from sagent.usage import Cost, Usage

if TYPE_CHECKING:
    from sagent.agent.agent import Agent


class AgentAdvisee:
    """See sagent.policy.advisory.Advisee."""

    def __init__(self, agent: "Agent", state: AgentState) -> None:
        self._agent, self._state = agent, state

    @property
    def path(self) -> str:
        """Its name in the tree."""
        return self._state.path

    @property
    def model(self) -> Model:
        """What answers now."""
        return self._state.model

    @property
    def role(self) -> str:
        """Who its calls are billed as."""
        return self._state.role

    @property
    def attended(self) -> bool:
        """Whether there is a person to ask."""
        return self._state.ask is not None

    @property
    def blobs(self) -> Blobs:
        """Where its log keeps what is large."""
        return self._state.log.blobs

    @property
    def closing(self) -> bool:
        """Whether the run in progress makes no further model call."""
        state = self._state
        return bool(state.run.stop) or state.run.turns == state.limits.max_turns

    def request(self) -> Request:
        """What its next call would send."""
        return self._state.request()

    def resolve(self, name: str) -> Model:
        """A model by "provider/id". Raises UsageError."""
        state = self._state
        if state.resolve is not None:
            return state.resolve(name)
        if name != f"{state.model.provider}/{state.model.id}":
            raise UsageError(f"{name} cannot be used: this agent has only {state.model.provider}/{state.model.id}")
        return state.model

    def limits(self, model: Model) -> ModelLimits:
        """A model's sizes."""
        return self._state.listed(model) if self._state.listed else model.limits

    def cost(self) -> Cost:
        """What the whole tree has spent."""
        return self._state.ledger.cost()

    def used(self) -> Usage:
        """Tokens that it has used itself."""
        return self._state.ledger.usage().get((self._state.path, self._state.role), Usage())

    def billed(self, role: str) -> tuple[Usage, Decimal | None]:
        """What a role was billed in the whole tree."""
        return self._state.ledger.billed(role)

    def price(self, provider: str, model: str, usage: Usage) -> Decimal | None:
        """USD that a model would be billed for tokens."""
        return self._state.ledger.prices.price(provider, model, usage)

    def worst(self, model: Model, weight: int, output: int) -> Decimal | None:
        """USD that a call may cost at most."""
        ceiling = self._state.ledger.prices.ceiling(model.provider, model.id)
        return None if ceiling is None else ceiling.cost(weight, output)

    def record(self, content: AdviceContent) -> str:
        """Append to its log."""
        return self._state.record(content)

    def emit(self, event: Event) -> None:
        """Tell its listeners."""
        self._state.emit(event)

    async def side_call(self, model: Model, request: Request, role: str, hear: Hear) -> SideReply:
        """Call a model beside the conversation."""
        return await make_side_call(self._state, model, request, role, hear)

    async def spawn(self, order: SpawnRequest) -> Peer:
        """A new agent below it."""
        return await self._agent.spawn(order)

    async def ask(self, call: ToolCall, question: Ask) -> str | None:
        """Put a question to a person: None for yes, else why not."""
        return None if self._state.ask is None else await self._state.ask(call, replace(question, agent=self.path))

    def deliver(self, message: Message) -> None:
        """Have a message read before the next model call."""
        self._state.receive(message, "next")

    def apply(self, action: Action) -> None:
        """Do something to it between two model calls."""
        self._agent.apply(action)
