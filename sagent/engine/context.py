"""An agent's context: what its next request consists of, how many tokens that is, and where it is made smaller."""

from collections.abc import Mapping
from dataclasses import field

from sagent.cost.meter import Meter
from sagent.engine.extension import Extension
from sagent.engine.limits import RunLimits
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject
from sagent.messages import Message
from sagent.model import Effort, Model, Request, ToolSpec
from sagent.session.contents import Compacted
from sagent.session.folds import compact


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
        self.meter.parts = ()
