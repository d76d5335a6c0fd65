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
class StoredMessage:
    """A message; `encoded` is its JSON."""

    encoded: Mapping[str, object]

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
    def text(self) -> str:
        """The visible text."""
        return "".join(self.texts("text"))

    @property
    def calls(self) -> tuple[StoredCall, ...]:
        """The tool calls, in order."""
        return tuple(
            StoredCall(as_str(part.get("id")), as_str(part.get("name")), _json_text(part.get("arguments")))
            for part in self._parts()
            if part.get("type") == "tool_call"
        )

    @property
    def has_results(self) -> bool:
        """Whether it carries results of calls."""
        return any(part.get("type") == "tool_result" for part in self._parts())

    @property
    def media(self) -> tuple[StoredMedia, ...]:
        return _media(self._parts())

    @property
    def blobs(self) -> Iterator[str]:
        """The names of all blobs it needs."""
        for part in self._parts():
            yield from _blobs((part, *map(as_object, as_array(part.get("content")))))

    def texts(self, *kinds: str) -> Sequence[str]:
        """The text of each part of some kinds: "text", "thinking", "opaque"."""
        return [as_str(part.get("text")) for part in self._parts() if part.get("type") in kinds]

    def _parts(self) -> Iterator[Mapping[str, object]]:
        return map(as_object, as_array(self.encoded.get("parts")))


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A tool result; `encoded` is its JSON."""

    encoded: Mapping[str, object]

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

    @property
    def text(self) -> str:
        """The text, media left out."""
        return "".join(as_str(part.get("text")) for part in self._parts() if part.get("type") == "text")

    @property
    def media(self) -> tuple[StoredMedia, ...]:
        return _media(self._parts())

    @property
    def blobs(self) -> Iterator[str]:
        """The names of all blobs it needs."""
        return _blobs(self._parts())

    def _parts(self) -> Iterator[Mapping[str, object]]:
        return map(as_object, as_array(self.encoded.get("content")))


def _media(parts: Iterator[Mapping[str, object]]) -> tuple[StoredMedia, ...]:
    return tuple(
        StoredMedia(as_str(part.get("media_type")), as_str(part.get("blob")))
        for part in parts
        if part.get("type") in ("image", "document")
    )


def _blobs(parts: "Iterator[Mapping[str, object]] | Sequence[Mapping[str, object]]") -> Iterator[str]:
    return (name for part in parts if (name := as_str(part.get("blob"))))


def _json_text(value: object) -> str:
    """Arguments are kept as text; where somebody kept an object, its text."""
    return value if isinstance(value, str) else json_dump(value)
