"""An agent's context: what its next request consists of, how many tokens that is, and where it is made smaller."""

from collections.abc import Mapping
from dataclasses import field

from sagent.engine.extension import Extension
from sagent.engine.limits import RunLimits
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject
from sagent.messages import Message
from sagent.model import Effort, Model, Request, ToolSpec
from sagent.session.contents import Compacted
from sagent.session.folds import compact


@dataclass(slots=True)
class Meter:
    """How many tokens a conversation has: the provider's last count, and an estimate from bytes for what came since.

    `max_input` is what `Model.max_input_tokens` returns for a request.
    """

    max_input: int = 0  # of the last request that was counted
    counted: int = 0  # what the provider said it was
    window: int | None = None  # as an overflow error stated it
    most_output: int | None = None  # tokens that may be asked for, as a refusal stated it
    shrunk: bool = False  # the conversation no longer begins with what was counted

    def bound(self, max_input: int) -> int:
        """The most input tokens such a request can have."""
        if not self.counted or self.shrunk or max_input < self.max_input:
            return max_input
        return min(max_input, self.counted + max_input - self.max_input)

    def estimate(self, max_input: int) -> int:
        """How many tokens it likely has; text has three to four bytes to a token."""
        if not self.counted:
            return max_input // 3
        if self.shrunk or max_input < self.max_input:
            return self.counted * max_input // self.max_input
        return self.counted + (max_input - self.max_input) // 3

    def learn(self, max_input: int, counted: int) -> None:
        """Take over what the provider counted."""
        if counted > 0:
            self.max_input, self.counted, self.shrunk = max_input, counted, False


@dataclass(slots=True)
class Context:
    """What the next model call sends, and to which model. `history` only grows, except in `replace`."""

    conversation: str  # by which providers and caches know it
    model: Model
    system: str
    limits: RunLimits
    effort: Effort | None = None
    options: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])  # of requests, by provider
    specs: tuple[ToolSpec, ...] = ()
    output_schema: JsonObject | None = None  # that the answer of this run is to fit
    extension: Extension | None = None
    history: list[Message] = field(default_factory=list[Message])
    meter: Meter = field(default_factory=Meter)
    proven: tuple[Model, Meter] | None = None  # the model before the one that has not answered yet
    compacted_length: int = -1  # messages there were when a compaction was made because the window was full

    def request(self) -> Request:
        """The next model call, with the current history."""
        request = Request(
            conversation=self.conversation,
            messages=self.history,
            system=self.system,
            tools=self.specs,
            max_output=self.limits.max_response_tokens,
            effort=self.effort,
            options=self.options.get(self.model.provider, EMPTY),
            output_schema=self.output_schema,
        )
        return request if self.extension is None else self.extension.prepare(request)

    def max_input_tokens(self) -> int:
        """The most tokens that the next request can have."""
        return self.model.max_input_tokens(self.request())

    def tokens(self) -> int:
        """How many it likely has."""
        return self.meter.estimate(self.max_input_tokens())

    def replace(self, entry: Compacted) -> None:
        """Apply a compaction to the history; nothing else makes it smaller."""
        compact(self.history, entry)
        self.meter.shrunk = True
