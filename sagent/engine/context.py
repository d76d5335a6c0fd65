"""An agent's context: what its next request consists of (limits, system prompt, tools, history), and how many tokens
that is."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import field, replace

from sagent.cost.budget import Meter
from sagent.engine.neighbours import Extension
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_object, json_freeze_object, sha256_hex, wire_bytes
from sagent.messages import Message
from sagent.model import Effort, Model, Request, ToolSpec
from sagent.session.contents import Compacted, PromptEntry, StoredTool
from sagent.session.folds import compact
from sagent.tool import Tool, traits_of

_OBJECT = {"type": "object"}
_ASIDE: Mapping[str, object] = {"background": {"type": "boolean"}, "delay": {"type": "number"}}


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run. None is no limit. Tokens are per request and per reply; times are in seconds."""

    max_turns: int | None = None
    max_tool_call_rounds: int | None = None
    max_request_tokens: int | None = None
    max_response_tokens: int | None = None
    max_retries: int = 8
    fallback_after: int = 1_000  # retries before a fallback takes over, if that is sooner
    longest_wait: float = 120.0  # a provider that asks for more than this is not waited for
    compact_at: float = 0.8  # how full the usable window may be, 0 to 1, before the context is made smaller; 0 is never
    foreground_seconds: float | None = None  # a call that runs longer continues in the background
    wait_for_jobs: bool = True  # a run does not end before its jobs and the agents below it are done


CHANGEABLE = ("max_turns", "max_tool_call_rounds", "max_request_tokens", "max_response_tokens")
"""The bounds that may be changed while an agent runs."""


def is_reached(limit: int | None, count: int) -> bool:
    """Return True at the limit, which may have been lowered below the current count."""
    return limit is not None and count >= limit


def limits_of(run: RunLimits) -> Mapping[str, int]:
    """Return the limits that are set."""
    return {name: value for name in CHANGEABLE if (value := getattr(run, name)) is not None}


def with_limits(run: RunLimits, limits: Mapping[str, int | str]) -> RunLimits:
    """Return RunLimits with some changed; 0 or "none" removes a limit. Raises UsageError that names all limits."""
    changed: dict[str, int | None] = {}
    for name, value in limits.items():
        if name not in CHANGEABLE:
            raise UsageError(f"there is no limit {name!r}; the limits are {', '.join(CHANGEABLE)}")
        if value != "none" and not (isinstance(value, int) and value >= 0):
            raise UsageError(f"{name}: give a whole number or none, not {value!r}")
        changed[name] = value or None if isinstance(value, int) else None
    return replace(run, **changed)


@dataclass(slots=True)
class Context:
    """Content of the next model call, and its model. `history` only grows, except in `replace`."""

    conversation: str  # its id for providers and caches
    model: Model
    system: str
    limits: RunLimits
    effort: Effort | None = None
    options: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])  # of requests, by provider
    specs: tuple[ToolSpec, ...] = ()
    output_schema: JsonObject | None = None  # that this run's answer has to match
    extension: Extension | None = None
    history: list[Message] = field(default_factory=list[Message])
    meter: Meter = field(default_factory=Meter)
    proven: tuple[Model, Meter] | None = None  # the last model that has answered, until a new one does
    compacted_length: int = -1  # number of messages at the last compaction for a full window

    def request(self) -> Request:
        """Return the next model call, with the current history."""
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
        """Return the most tokens that the next request can have."""
        return self.model.max_input_tokens(self.request())

    def tokens(self) -> int:
        """Estimate how many tokens the next request has."""
        return self.meter.estimate(self.max_input_tokens())

    def replace(self, entry: Compacted) -> None:
        """Apply a compaction to the history; nothing else shortens it."""
        compact(self.history, entry)
        self.meter.parts = ()


class Prompts:
    """Prepared system prompts and tools, shared by all agents that have the same."""

    def __init__(self) -> None:
        self._specs: dict[tuple[int, ...], tuple[Sequence[Tool], tuple[ToolSpec, ...]]] = {}
        self._entries: dict[tuple[str, int], tuple[tuple[ToolSpec, ...], str, PromptEntry]] = {}

    def specs(self, tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
        """Return the tools as the model sees them; equal tools give the very same tuple."""
        key = tuple(map(id, tools))
        if key not in self._specs:
            self._specs[key] = (tuple(tools), specs_of(tools))
        return self._specs[key][1]

    def entry(self, system: str, specs: tuple[ToolSpec, ...]) -> tuple[str, PromptEntry]:
        """Return the hash and the log entry of a system prompt and tools."""
        key = (system, id(specs))
        if key not in self._entries:
            entry = PromptEntry(system, tuple(map(StoredTool.of, specs)))
            self._entries[key] = (specs, sha256_hex(wire_bytes((system, entry.tools))), entry)
        return self._entries[key][1:]


def specs_of(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """Return tools as the model sees them. If a tool manages jobs, calls of those that are not `quick` can be put into
    the background; if a tool calls others by name, `deferrable` ones after it are left to it."""
    names = [tool.name for tool in tools]
    late = names.index("call_tool") if "call_tool" in names else len(names)
    return tuple(_spec(tool, names, later=place >= late) for place, tool in enumerate(tools))


def _spec(tool: Tool, names: Container[str], *, later: bool) -> ToolSpec:
    # that no other arguments are taken need not be sent: a call with one is refused; without a type requests are
    parameters = JsonObject({key: each for key, each in tool.parameters.items() if each is not False} | _OBJECT)
    traits = traits_of(tool)
    if "BackgroundTask" in names and not traits.quick:
        own = as_object(parameters.get("properties"))
        parameters = json_freeze_object({**parameters, "properties": {**own, **_ASIDE, **own}})
    deferred = later and "call_tool" in names and bool(traits.deferrable)
    return ToolSpec(tool.name, tool.description, parameters, deferred)
