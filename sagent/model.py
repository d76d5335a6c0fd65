"""Interface of a model: it takes a request, and returns deltas and exactly one reply."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias, cast, get_args, runtime_checkable

from sagent.events import Advice
from sagent.lib.dataclass import dataclass
from sagent.lib.json import GIVEN_EMPTY, GIVEN_NONE, GivenObject, GivenObjectOrNone
from sagent.lib.raised import as_exception
from sagent.messages import Message
from sagent.usage import Charge, Usage

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """A model's sizes in tokens; None if unknown."""

    window: int | None = None
    max_output: int | None = None
    least_output: int = 0  # tokens it may write even if less is requested


REPLY_ROOM = 64_000  # the most tokens of a window that are kept free for a reply


def input_budget(limits: ModelLimits) -> int | None:
    """Return the tokens of input that leave room for a reply; None if the window is unknown.

    The room is the output limit, but at most a quarter of the window: many listings give an output limit as large as
    the window itself, which would leave nothing for the input.
    """
    if limits.window is None:
        return None
    return limits.window - min(limits.max_output or REPLY_ROOM, REPLY_ROOM, limits.window // 4)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is a JSON Schema object. If `deferred`, it must be found first."""

    name: str
    description: str
    parameters: GivenObject
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One model call. `conversation` names the history, which only grows while the name stays the same. Adapters keep
    what they encoded under that name, so that request N+1 begins with the bytes of request N."""

    conversation: str
    messages: Sequence[Message]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    max_output: int | None = None
    effort: Effort | None = None
    options: GivenObject = field(default=GIVEN_EMPTY)  # family-specific body members, sent as they are
    capped: bool = False  # billing by list price is required, if the provider has a choice
    output_schema: GivenObjectOrNone = GIVEN_NONE  # schema of the answer, an object; models without support ignore it


@dataclass(frozen=True, slots=True)
class TextPart:
    """Visible text arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Shown reasoning arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class Billed:
    """The cost of the call so far: it counts if the call ends before its reply. A charge is `estimated` if its input
    may still grow."""

    charges: tuple[Charge, ...]
    unshown: int = 0  # bytes of a cancelled reply that had come in no delta: arguments of calls


Delta: TypeAlias = TextPart | ThinkingPart | Billed


@dataclass(frozen=True, slots=True)
class RequestDigest:
    """Record of a sent request: sha256 of the exact body, and the parameters worth reading without the body."""

    sha256: str
    size: int
    model: str
    parameters: GivenObject = GIVEN_EMPTY


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply of a call. `charges` is the whole bill; `usage` the executor's own share, for its context meter."""

    message: Message
    usage: Usage
    charges: tuple[Charge, ...]
    digest: RequestDigest
    response_id: str = ""
    notes: tuple[str, ...] = ()  # descriptions of clamped or left-out parts
    advice: tuple[Advice, ...] = ()  # from advisors that the provider asked itself, meanwhile


class Model(Protocol):
    """One model of one provider."""

    @property
    def provider(self) -> str:
        """The provider's name: "anthropic"."""
        ...

    @property
    def id(self) -> str: ...

    @property
    def limits(self) -> ModelLimits: ...

    def max_input_tokens(self, request: Request) -> int:
        """Return an upper bound of the input tokens of this request, in tokens, computed without a network.

        A token stands for at least one byte, so the encoded size is such a bound; media count by their own rules.
        """
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Make the call: deltas as they come, then exactly one Reply, last. Raises only ModelError.

        Closing the iterator early stops the call and frees its connection.
        """
        ...


def full_name(model: Model) -> str:
    """Return a model's name with its provider's, as people and logs use it: "anthropic/claude-opus-5"."""
    return f"{model.provider}/{model.id}"


def is_same_model(model: Model, other: Model) -> bool:
    """Return True for the same model at the same address with the same key."""
    source, other_source = (getattr(each, "source", each) for each in (model, other))
    return model is other or (full_name(model) == full_name(other) and source == other_source)


@runtime_checkable
class Structuring(Protocol):
    """A Model whose provider takes `Request.output_schema` and makes the answer match it."""

    def structures(self, request: Request) -> bool:
        """Return True if this applies to the model, schema and tools. If not, describe the schema in words."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A Model that can ask how many tokens a request has, without a charge."""

    async def count_tokens(self, request: Request) -> int | None:
        """Return the maximum of input tokens, by the provider's own count; None if it gives none."""
        ...


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A row of a provider's catalogue. `usd` has the prices it states: USD per million tokens by billed bucket."""

    id: str
    limits: ModelLimits = ModelLimits()
    name: str = ""
    usd: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal], hash=False)
    weights: int | None = None  # parameters, if the listing has their number
    server: str = ""  # the program that serves it, if the listing names one, such as "llamacpp"


class Provider(Protocol):
    """Credentials and an endpoint that create models. Also has `from_env()` and `from_key(key, base_url=)`."""

    @property
    def name(self) -> str:
        """The provider's name in "provider/model"."""
        ...

    def model(self, model_id: str) -> Model:
        """Return a model by id. Any id is accepted; an unknown one only lacks limits and a price."""
        ...

    async def models(self) -> Sequence[ModelInfo]:
        """Return the provider's own list of models. Raises ModelError."""
        ...

    async def aclose(self) -> None: ...


@asynccontextmanager
async def closing(items: AsyncIterator[Delta | Reply]) -> AsyncGenerator[AsyncIterator[Delta | Reply]]:
    """Close a model's stream at the end of the block: a partly read one would go on until it is collected."""
    try:
        yield items
    except BaseException as error:  # third-party code; otherwise it would end the program silently
        raise as_exception(error) from error.__cause__
    finally:
        if (close := cast("Callable[[], Awaitable[None]] | None", getattr(items, "aclose", None))) is not None:
            await close()
