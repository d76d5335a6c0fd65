"""The number of tokens of a conversation, and the most that its next request can have."""

from sagent.cost.budget import InputBound
from sagent.lib.dataclass import dataclass
from sagent.model import Request


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

    def bound(self, request: Request, max_input: int) -> InputBound:
        """Return the most input tokens of a request: by the count, if it begins with what was counted, else by its
        bytes."""
        begins = bool(self.parts) and _parts(request)[: len(self.parts)] == self.parts
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

    def learn(self, request: Request, max_input: int, counted: int) -> None:
        """Take over what the provider counted; 0 if it did not."""
        if counted > 0:
            self.max_input, self.counted, self.parts = max_input, counted, _parts(request)


def _parts(request: Request) -> tuple[object, ...]:
    return request.system, request.tools, request.output_schema, *request.messages
