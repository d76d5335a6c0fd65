"""Bedrock's Converse: the form of a turn in frames of the AWS event stream, and the requests that the service refuses.

Shapes: docs.aws.amazon.com, API_runtime_ConverseStream and "event stream encoding"
"""

import binascii
import re
import struct
from collections.abc import Iterator, Mapping, Sequence

from sagent.lib.json import as_array, as_object, as_str
from sagent.testing.families.answer import Answer, Family
from sagent.testing.families.form import checksum, encode, parsed, pieces, refused
from sagent.testing.script import ErrorEvent, Fail, Listed, Received
from sagent.usage import Usage

_STOPS = {"end": "end_turn", "content_filter": "content_filtered", "context_overflow": "model_context_window_exceeded"}
_ERRORS = {
    400: "The request is not valid.",
    401: "The security token included in the request is invalid.",
    403: "You don't have access to the model with the specified model ID.",
    404: "Could not resolve the foundation model from the provided model identifier.",
    429: "Too many requests, please wait before trying again.",
    503: "Bedrock is unable to process your request.",
}
_EXCEPTIONS = {"overloaded_error": "serviceUnavailableException"}


def _render(answer: Answer) -> list[bytes] | bytes:
    stop = _STOPS.get(answer.stop, answer.stop)
    metadata = {"usage": _usage(answer.usage), "metrics": {"latencyMs": 1}}
    if answer.request.path.endswith("/converse"):
        content = [block for block, _, _ in _blocks(answer)]
        return encode(
            {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop, **metadata}
        )
    events = [_event("messageStart", {"role": "assistant"})]
    blocks = list(_blocks(answer))
    left_open = answer.open_blocks(len(blocks))
    for index, (_, start, deltas) in enumerate(blocks):
        at = {"contentBlockIndex": index}
        if start:
            events.append(_event("contentBlockStart", {**at, "start": start}))
        events += [_event("contentBlockDelta", {**at, "delta": delta, "p": "abcdef"}) for delta in deltas]
        if index not in left_open:
            events.append(_event("contentBlockStop", at))
    return [*events, _event("messageStop", {"stopReason": stop}), _event("metadata", metadata)]


def _event(kind: str, payload: Mapping[str, object]) -> bytes:
    return frame({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, encode(payload))


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a frame: lengths and their checksum, headers of text, the payload, and the checksum of all."""
    named = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name.encode(), 7, len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(named) + len(payload), len(named))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + named + payload
    return message + struct.pack(">I", binascii.crc32(message))


def _blocks(answer: Answer) -> Iterator[tuple[object, Mapping[str, object], Sequence[Mapping[str, object]]]]:
    """Yield each whole block, its opening if it has content, and the deltas of its stream."""
    turn, size = answer.turn, answer.turn.pieces
    if turn.thinking:
        signature = _signature(turn.thinking)
        deltas = [{"reasoningContent": {"text": piece}} for piece in pieces(turn.thinking, size)]
        whole = {"reasoningContent": {"reasoningText": {"text": turn.thinking, "signature": signature}}}
        yield whole, {}, [*deltas, {"reasoningContent": {"signature": signature}}]
    if turn.text:
        yield {"text": turn.text}, {}, [{"text": piece} for piece in pieces(turn.text, size)]
    for call_id, name, arguments in answer.calls("tooluse_"):
        call = {"toolUseId": call_id, "name": name}
        written = [{"toolUse": {"input": piece}} for piece in pieces(arguments, size)]
        yield {"toolUse": {**call, "input": parsed(arguments)}}, {"toolUse": call}, written


def _signature(thinking: str) -> str:
    return f"fake-signature-{checksum(thinking)}"


def _usage(usage: Usage) -> dict[str, object]:
    hour, written = usage.cache_write_1h, usage.cache_write + usage.cache_write_1h
    return {
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "totalTokens": usage.total_input + usage.output,
        "cacheReadInputTokens": usage.cache_read,
        "cacheWriteInputTokens": written,
        "cacheDetails": [{"ttl": "1h", "inputTokens": hour}] if hour else [],
    }


def _error(fail: Fail) -> Mapping[str, object]:
    return {"message": fail.message or _ERRORS.get(fail.status, "Internal server error")}


def _error_event(step: ErrorEvent) -> bytes:
    kind = _EXCEPTIONS.get(step.type, step.type)
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, encode({"message": step.message}))


def _listing(rows: Sequence[Listed]) -> Mapping[str, object]:
    return {"modelSummaries": [{"modelId": row.id, "modelName": row.name} for row in rows]}


# What Converse refuses with 400, in about its words. Whether a body has the form of the service's model botocore knows.


def _complaints(received: Received) -> Iterator[str]:
    body = received.json
    messages = [as_object(message) for message in as_array(body.get("messages"))]
    blocks = [[as_object(block) for block in as_array(message.get("content"))] for message in messages]
    every = [block for content in blocks for block in content]
    used = any("toolUse" in block or "toolResult" in block for block in every)
    roles = [as_str(message.get("role")) for message in messages]
    turns = ["user", "assistant"] * len(roles)
    marks = [*every, *map(as_object, as_array(body.get("system")))]
    yield from refused(
        (not messages, "The messages field is required."),
        (roles != turns[: len(roles)], "A conversation must alternate between user and assistant roles."),
        (roles[-1:] == ["assistant"], "The conversation must end with a user message."),
        (not all(blocks), "The content field in the Message object is empty."),
        (
            used and not body.get("toolConfig"),
            "The toolConfig field must be defined when using toolUse and toolResult.",
        ),
        (sum("cachePoint" in block for block in marks) > 4, "You can have at most 4 cache points."),
    )
    yield from _block_complaints(every)
    yield from _pairing_complaints(blocks)


def _block_complaints(blocks: Sequence[Mapping[str, object]]) -> Iterator[str]:
    inside = [
        as_object(each) for block in blocks for each in as_array(as_object(block.get("toolResult")).get("content"))
    ]
    for block in (*blocks, *inside):
        thought = as_object(as_object(block.get("reasoningContent")).get("reasoningText"))
        signed = _signature(as_str(thought.get("text"))) == thought.get("signature")
        yield from refused(
            ("text" in block and not as_str(block["text"]).strip(), "The text field in the ContentBlock is blank."),
            (thought and not signed, "User messages cannot contain reasoning content."),
        )
    names = [as_str(as_object(block["document"]).get("name")) for block in (*blocks, *inside) if "document" in block]
    yield from refused(
        (len(set(names)) < len(names), "Messages can't contain duplicate document names."),
        (any(re.search(r"[^\w()\[\] -]|  ", name) for name in names), "The document file name is not valid."),
    )


def _pairing_complaints(contents: Sequence[Sequence[Mapping[str, object]]]) -> Iterator[str]:
    waiting: list[object] = []
    for content in contents:
        answered = [as_object(block["toolResult"]).get("toolUseId") for block in content if "toolResult" in block]
        if sorted(map(str, answered)) != sorted(map(str, waiting)):
            yield "Expected toolResult blocks for exactly the toolUse blocks of the turn before."
        waiting = [as_object(block["toolUse"]).get("toolUseId") for block in content if "toolUse" in block]
    if waiting:
        yield "Expected toolResult blocks for the toolUse blocks of the last turn."


CONVERSE = Family(
    ("/converse-stream", "/converse"),
    _render,
    _complaints,
    _error,
    _error_event,
    {"overloaded_error": 503},
    _listing,
    b"",
    "Missing Authentication Token",
    "application/vnd.amazon.eventstream",
)
