"""The answer to render, and the row that describes a wire family."""

import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias
from urllib.parse import unquote

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_object, as_str, json_dump
from sagent.testing.script import Call, ErrorEvent, Fail, Listed, Received, Turn
from sagent.usage import Usage

Bill: TypeAlias = Literal["script", "worst"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The input of a family that renders a turn. `nonce` makes ids, the same in every run."""

    turn: Turn
    request: Received
    usage: Usage
    nonce: str

    @classmethod
    def of(cls, turn: Turn, request: Received, *, serial: int, bill: Bill) -> "Answer":
        """Return the turn as the answer to a request, counted or billed as the server bills."""
        return cls(turn, request, _usage(turn, request, bill), f"{serial:08d}{binascii.crc32(request.body):08x}")

    @property
    def model(self) -> str:
        """The model that the reply names: the turn's, or the requested one."""
        in_path, _, method = self.request.path.rpartition("/")[2].partition(":")  # Google's way
        if self.request.family == "converse":
            in_path, method = unquote(self.request.path.split("/")[-2]), "converse"
        return self.turn.model or as_str(self.request.json.get("model")) or (in_path if method else "fake-model")

    @property
    def streamed(self) -> bool:
        """True if the request's body, or at Google and Bedrock its path, asks for a stream."""
        path = self.request.path
        return self.request.json.get("stream") is True or path.endswith((":streamGenerateContent", "/converse-stream"))

    @property
    def stop(self) -> str:
        """The reason why the turn ended, in neutral words or the family's own."""
        return self.turn.stop or ("tool_use" if self.turn.calls else "end")

    def calls(self, prefix: str) -> list[tuple[str, str, str]]:
        """Id, name and raw arguments of each call; unset ids are made from the prefix."""
        return [
            (f"{prefix}{self.nonce}{number:08x}" if call.id is None else call.id, call.name, raw_arguments(call))
            for number, call in enumerate(self.turn.calls)
        ]

    def open_blocks(self, total: int) -> frozenset[int]:
        """Return the numbers of the blocks that are never closed: those of cut calls. Calls are the last of all
        blocks."""
        first = total - len(self.turn.calls)
        return frozenset(first + number for number, call in enumerate(self.turn.calls) if call.cut)


@dataclass(frozen=True, slots=True)
class Family:
    """A wire format: its replies, its refusals, and its errors."""

    suffixes: tuple[str, ...]  # of the paths it answers
    render: Callable[[Answer], list[bytes] | bytes]
    complaints: Callable[[Received], Iterator[str]]
    error: Callable[[Fail], Mapping[str, object]]
    error_event: Callable[[ErrorEvent], bytes]
    statuses: Mapping[str, int]  # of error types in unstreamed replies; 500 for all others
    listing: Callable[[Sequence[Listed]], Mapping[str, object]]
    ping: bytes
    no_key: str
    streams_as: str = "text/event-stream; charset=utf-8"


def raw_arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json_dump(dict(call.arguments))


def input_tokens(received: Received, bill: Bill) -> int:
    """Return the input tokens for which a request is billed, if no script says so."""
    return len(received.body) if bill == "worst" else max(1, len(received.body) // 4)


def _usage(turn: Turn, received: Received, bill: Bill) -> Usage:
    arguments = sum(len(call.name) + len(raw_arguments(call)) for call in turn.calls)
    counted = Usage(
        input=input_tokens(received, bill),
        output=max(1, (len(turn.text) + len(turn.thinking) + arguments) // 4),
        reasoning=len(turn.thinking) // 4,
    )
    if bill == "worst":
        inner = (as_object(received.json.get(name)) for name in ("generationConfig", "inferenceConfig"))
        sent = {name: value for fields in (received.json, *inner) for name, value in fields.items()}
        names = ("max_output_tokens", "max_completion_tokens", "max_tokens", "maxOutputTokens", "maxTokens")
        limits = (as_int(sent.get(name)) for name in names)
        return Usage(input=counted.input, output=next(filter(None, limits), counted.output))
    return counted if turn.usage is None else turn.usage
