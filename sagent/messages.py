"""Messages and their typed parts, frozen, without any vendor's types."""

from dataclasses import replace
from typing import Annotated, Literal, TypeAlias

from sagent.lib.adapted import Base64, Tagged
from sagent.lib.dataclass import dataclass
from sagent.lib.json import (
    GIVEN_EMPTY,
    GivenJson,
    GivenObject,
    Json,  # noqa: F401  # pyright: ignore[reportUnusedImport] -- the type of a field names it
    JsonObject,  # noqa: F401  # pyright: ignore[reportUnusedImport] -- and this
)

Role: TypeAlias = Literal["user", "assistant"]

StopReason: TypeAlias = Literal[
    "end",  # a normal end
    "tool_use",  # it waits for results
    "max_tokens",
    "stop_sequence",
    "refusal",
    "content_filter",
    "pause",  # the provider paused a long turn; send the history again to continue
    "context_overflow",  # the window was full before the answer was
    "interrupted",  # we stopped it
    "error",  # the provider reports a broken reply, such as a malformed call
]

WITHDRAWN: tuple[StopReason, ...] = ("refusal", "content_filter", "interrupted", "error")
"""Ends of a reply whose calls must not be made."""
CUT: tuple[StopReason, ...] = ("max_tokens", "context_overflow", "stop_sequence", "pause")
"""Ends of a reply that may lie inside its last call."""

DENIED = "Permission denied: "
"""Tells the model that the policy refused a call. Programs use `ToolResult.denied`."""


@dataclass(frozen=True, slots=True)
class Private:
    """Provider-private data (signatures, encrypted reasoning, item ids). Only the family that wrote it reads it."""

    family: str
    data: GivenJson


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    private: Private | None = None


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning as shown; `text` is empty if the provider encrypts it."""

    text: str
    private: Private | None = None


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str  # "image/png", "image/jpeg", "image/gif", "image/webp"
    data: Base64


@dataclass(frozen=True, slots=True)
class Document:
    media_type: str  # "application/pdf"
    data: Base64
    name: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asks for. `malformed` holds the raw arguments when they were not a JSON object.

    Without `whole` nothing proves that all of the call has arrived: it is answered with an error and never made.
    """

    id: str
    name: str
    arguments: GivenObject = GIVEN_EMPTY
    malformed: str | None = None
    private: Private | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call. If `denied`, the policy refused it and it was not run; it is then also an error."""

    call_id: str
    content: tuple[Annotated[Text | Image | Document, Tagged()], ...]
    is_error: bool = False
    denied: bool = False

    @property
    def text(self) -> str:
        """The text of the result, without media."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class Opaque:
    """A provider-specific block (a server tool's call or result): kept, sent back to its family, shown as text."""

    text: str
    private: Private


Part: TypeAlias = Annotated[Text | Thinking | Image | Document | ToolCall | ToolResult | Opaque, Tagged()]


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `sender` is "" for the model itself and the person, otherwise its source ("job:3", "root/review").

    `model` is "provider/id" of the author of an assistant message.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    sender: str = ""
    model: str = ""
    stop: StopReason | None = None

    def __post_init__(self) -> None:
        """Mark the calls that its stop reason casts doubt on as not whole."""
        shown = (at for at, part in enumerate(self.parts) if not isinstance(part, Opaque) or part.text)
        last = max(shown, default=0) if self.stop in CUT else len(self.parts)  # a signature may follow it
        doubted = self.parts if self.stop in WITHDRAWN else self.parts[last:]
        if any(isinstance(part, ToolCall) and part.whole for part in doubted):
            marked = (replace(part, whole=False) if isinstance(part, ToolCall) else part for part in doubted)
            object.__setattr__(self, "parts", (*self.parts[: -len(doubted)], *marked))

    @property
    def content(self) -> str:
        """The visible text, without thinking and tool traffic."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def whole_calls(self) -> tuple[ToolCall, ...]:
        """The calls that arrived whole; others are never made."""
        return tuple(call for call in self.calls if call.whole)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


def user(text: str, *parts: Part, sender: str = "") -> Message:
    """Return a user message of text and further parts."""
    return Message("user", (*((Text(text),) if text else ()), *parts), sender=sender)


def assistant(text: str, *parts: Part, model: str = "", stop: StopReason | None = "end") -> Message:
    """Return an assistant message of text and further parts."""
    return Message("assistant", (*((Text(text),) if text else ()), *parts), model=model, stop=stop)
