"""The number of tokens of a conversation, and the most that its next request can have."""

from typing import Protocol, runtime_checkable

from sagent.cost.budget import InputBound
from sagent.lib.dataclass import dataclass
from sagent.model import Model, Request


@runtime_checkable
class Adapting(Protocol):
    """A Model whose protocol changes while it is used."""

    def protocol_of(self, request: Request) -> str:
        """Return the name of the protocol in which a request goes out, or went out."""
        ...


@dataclass(slots=True)
class Meter:
    """The size of a conversation in tokens: the provider's last count, and the bytes of what came since.

    `max_input` is what `Model.max_input_tokens` returns for a request. Money is held by `bound`, never by `estimate`.
    """

    max_input: int = 0  # of the last request that was counted
    counted: int = 0  # what the provider said it was
    window: int | None = None  # as an overflow error stated it
    most_output: int | None = None  # tokens that may be asked for, as a refusal stated it
    parts: tuple[object, ...] = ()  # of the request that was counted; none if the conversation was made smaller

    def bound(self, request: Request, max_input: int, model: Model | None = None) -> InputBound:
        """Return the most input tokens of a request: by the count, if it begins with what was counted, else by its
        bytes. A model that is spoken to in another protocol than before reads another text."""
        begins = bool(self.parts) and _parts(request, model)[: len(self.parts)] == self.parts
        if not begins or max_input < self.max_input:
            return InputBound(max_input)
        return InputBound(min(max_input, self.counted + max_input - self.max_input), "provider")

    def estimate(self, max_input: int) -> int:
        """Return how many tokens it likely has; text has three to four bytes to a token."""
        if not self.counted:
            return max_input // 3
        if not self.parts or max_input < self.max_input:
            return self.counted * max_input // self.max_input
        return self.counted + (max_input - self.max_input) // 3

    def learn(self, request: Request, max_input: int, counted: int, model: Model | None = None) -> None:
        """Take over what the provider counted; 0 if it did not."""
        if counted > 0:
            self.max_input, self.counted, self.parts = max_input, counted, _parts(request, model)


def _parts(request: Request, model: Model | None) -> tuple[object, ...]:
    spoken = model.protocol_of(request) if isinstance(model, Adapting) else ""
    return spoken, request.system, request.tools, request.output_schema, *request.messages
