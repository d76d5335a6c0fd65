"""Messages and results as a log has them: JSON, in which media are blobs by name.

They stay JSON until they are asked for. `load` brings everything back and is strict; what is read off them without
their blobs is lenient, as whoever looks at a damaged log needs it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sagent.codec import (
    Fetch,
    Keep,
    decode_message,
    decode_result_part,
    encode_message,
    encode_result_part,
    was_denied,
)
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str, json_dump
from sagent.messages import Message, ToolResult


class StoredCall(NamedTuple):
    """A tool call; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class StoredMedia(NamedTuple):
    """An image or a document, by the name of its blob; "" where it is inside the entry."""

    media_type: str
    blob: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """`encoded` is the JSON of something with parts."""

    encoded: Mapping[str, object]

    @property
    def text(self) -> str:
        """The visible text, that of results and media left out."""
        return "".join(self.texts("text"))

    @property
    def media(self) -> tuple[StoredMedia, ...]:
        """Images and documents, those inside results left out."""
        return tuple(
            StoredMedia(as_str(part.get("media_type")), as_str(part.get("blob")))
            for part in self._parts("image", "document")
        )

    @property
    def blobs(self) -> Iterator[str]:
        """The names of all blobs it needs."""
        for outer in self._parts():
            parts = (outer, *map(as_object, as_array(outer.get("content"))))
            yield from (name for part in parts if (name := as_str(part.get("blob"))))

    def texts(self, *kinds: str) -> Sequence[str]:
        """The text of each part of some kinds: "text", "thinking", "opaque"."""
        return [as_str(part.get("text")) for part in self._parts(*kinds)]

    def _parts(self, *kinds: str) -> Iterator[Mapping[str, object]]:
        """Those of some kinds; all where none is named."""
        parts = map(as_object, as_array(self.encoded.get("parts") or self.encoded.get("content")))
        return (part for part in parts if not kinds or part.get("type") in kinds)


@dataclass(frozen=True, slots=True)
class StoredMessage(_Stored):
    """A message; `encoded` is its JSON."""

    @classmethod
    def of(cls, message: Message, keep: Keep | None) -> "StoredMessage":
        """Encode a message. Media go through `keep`, or inline where it is None."""
        return cls(encode_message(message, keep))

    def load(self, fetch: Fetch | None) -> Message:
        """The message, its media included. Raises ValueError for what cannot be read, and whatever `fetch` raises."""
        return decode_message(self.encoded, fetch)

    @property
    def role(self) -> str:
        """Whose turn it is: "user" or "assistant"."""
        return as_str(self.encoded.get("role"))

    @property
    def sender(self) -> str:
        """Who put it there; "" for the model itself and the person."""
        return as_str(self.encoded.get("sender"))

    @property
    def model(self) -> str:
        """Who wrote it, as "provider/id"; "" for what no model wrote."""
        return as_str(self.encoded.get("model"))

    @property
    def stop(self) -> str:
        return as_str(self.encoded.get("stop"))

    @property
    def calls(self) -> tuple[StoredCall, ...]:
        """The tool calls, in order."""
        return tuple(
            StoredCall(as_str(part.get("id")), as_str(part.get("name")), json_text(part.get("arguments")))
            for part in self._parts("tool_call")
        )

    @property
    def has_results(self) -> bool:
        """Whether it carries results of calls."""
        return any(self._parts("tool_result"))


@dataclass(frozen=True, slots=True)
class StoredResult(_Stored):
    """A tool result; `encoded` is its JSON."""

    @classmethod
    def of(cls, result: ToolResult, keep: Keep | None) -> "StoredResult":
        """Encode a result. Media go through `keep`, or inline where it is None."""
        return cls(encode_result_part(result, keep))

    def load(self, fetch: Fetch | None) -> ToolResult:
        """The result, its media included. Raises ValueError for what cannot be read, and whatever `fetch` raises."""
        return decode_result_part(self.encoded, fetch)

    @property
    def call_id(self) -> str:
        return as_str(self.encoded.get("call_id"))

    @property
    def is_error(self) -> bool:
        return self.encoded.get("is_error") is True

    @property
    def denied(self) -> bool:
        """Whether the policy refused the call."""
        return was_denied(self.encoded)


def json_text(value: object) -> str:
    """Arguments are kept as text; where somebody kept an object, its text."""
    try:
        return value if isinstance(value, str) else json_dump(value)
    except (ValueError, RecursionError):  # JSON has no word for an infinite number
        return str(value)
