"""Anthropic Messages: what a turn looks like there, and what the API refuses.

Shapes: platform.claude.com/docs/en/api/messages and .../build-with-claude/streaming
"""

import binascii
import json
from collections.abc import Iterator, Mapping, Sequence

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str, json_dump
from sagent.testing.families.answer import Answer, Family, encode, is_name, pieces, tool_name_complaints
from sagent.testing.script import ErrorEvent, Fail, Listed, Received
from sagent.usage import Usage

_STOPS = {
    "end": "end_turn",
    "pause": "pause_turn",
    "content_filter": "refusal",
    "context_overflow": "model_context_window_exceeded",
}
_ERRORS = {
    400: ("invalid_request_error", "Bad request"),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the Anthropic API."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "Request timed out"),
    529: ("overloaded_error", "Overloaded"),
}


@dataclass(frozen=True, slots=True)
class _Block:
    """A content block: how it opens, and its deltas as (type, member, value)."""

    opening: Mapping[str, object]
    deltas: Sequence[tuple[str, str, str]]


def _render(answer: Answer) -> list[bytes] | bytes:
    if not answer.streamed:
        message = _message(answer, _content(answer), _stop(answer))
        return encode({**message, "usage": _usage(answer.usage)})
    first = {**_usage(answer.usage), "output_tokens": min(1, answer.usage.output)}
    del first["output_tokens_details"]
    start = {"type": "message_start", "message": {**_message(answer, [], None), "usage": first}}
    events = [_event(start)]
    for index, block in enumerate(_blocks(answer)):
        opening = {"type": "content_block_start", "index": index, "content_block": block.opening}
        events += (_event(opening), *_deltas(index, block))
        events.append(_event({"type": "content_block_stop", "index": index}))
    events.insert(2, _PING)
    # The last usage is cumulative, and does not split the cache writes by their life: only message_start does.
    last = {key: value for key, value in _usage(answer.usage).items() if key not in _START_ONLY}
    delta = {"stop_reason": _stop(answer), "stop_sequence": None}
    events.append(_event({"type": "message_delta", "delta": delta, "usage": last}))
    events.append(_event({"type": "message_stop"}))
    return events


_START_ONLY = ("cache_creation", "service_tier")
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def _event(value: Mapping[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (as_str(value["type"]).encode(), encode(value))


def _deltas(index: int, block: _Block) -> Iterator[bytes]:
    for kind, member, value in block.deltas:
        yield (
            f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},"delta":'
            f'{{"type":"{kind}","{member}":{json_dump(value)}}}}}\n\n'
        ).encode("utf-8", "backslashreplace")


def _message(answer: Answer, content: list[object], stop: str | None) -> dict[str, object]:
    return {
        "id": f"msg_{answer.nonce}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
    }


def _stop(answer: Answer) -> str:
    return _STOPS.get(answer.stop, answer.stop)


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write + usage.cache_write_1h,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        "service_tier": "standard",
    }


def _blocks(answer: Answer) -> Iterator[_Block]:
    turn = answer.turn
    if turn.thinking:
        thinking = [("thinking_delta", "thinking", piece) for piece in pieces(turn.thinking, turn.pieces)]
        signed = ("signature_delta", "signature", _signature(turn.thinking))
        yield _Block({"type": "thinking", "thinking": "", "signature": ""}, (*thinking, signed))
    if turn.text:
        text = [("text_delta", "text", piece) for piece in pieces(turn.text, turn.pieces)]
        yield _Block({"type": "text", "text": ""}, text)
    for call_id, name, arguments in answer.calls("toolu_"):
        written = ("", *pieces(arguments, turn.pieces))  # the real stream begins with an empty piece, too
        opening: Mapping[str, object] = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        yield _Block(opening, [("input_json_delta", "partial_json", piece) for piece in written])


def _content(answer: Answer) -> list[object]:
    turn = answer.turn
    content: list[object] = []
    if turn.thinking:
        signature = _signature(turn.thinking)
        content.append({"type": "thinking", "thinking": turn.thinking, "signature": signature})
    if turn.text:
        content.append({"type": "text", "text": turn.text})
    for call_id, name, arguments in answer.calls("toolu_"):
        content.append({"type": "tool_use", "id": call_id, "name": name, "input": _parsed(arguments)})
    return content


def _parsed(arguments: str) -> object:
    """The arguments as a value; as the raw string when they are not JSON, for there is nothing better to send."""
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return arguments


def _signature(thinking: str) -> str:
    """The signature this server gives a thinking block, and recognises when the block comes back."""
    return f"fake-signature-{binascii.crc32(thinking.encode('utf-8', 'backslashreplace')):08x}"


def _error(fail: Fail) -> Mapping[str, object]:
    kind, message = _ERRORS.get(fail.status, ("api_error", "Internal server error"))
    error = {"type": fail.type or kind, "message": fail.message or message}
    return {"type": "error", "error": error, "request_id": "req_fake"}


def _error_event(step: ErrorEvent) -> bytes:
    return _event(_error(Fail(500, type=step.type, message=step.message)))


def _listing(rows: Sequence[Listed]) -> Mapping[str, object]:
    data = [
        {
            "type": "model",
            "id": row.id,
            "display_name": row.name or row.id,
            "created_at": "2026-01-01T00:00:00Z",
            "max_input_tokens": row.window,
            "max_tokens": row.max_output,
        }
        for row in rows
    ]
    ends = {"first_id": rows[0].id if rows else None, "last_id": rows[-1].id if rows else None}
    return {"data": data, "has_more": False, **ends}


# What the Messages API refuses with 400, in about its words.


def _complaints(received: Received) -> Iterator[str]:
    body = received.json
    if "anthropic-version" not in received.headers:
        yield "anthropic-version: header is required"
    if not as_str(body.get("model")):
        yield "model: Field required"
    limit = body.get("max_tokens")
    if limit is None:
        yield "max_tokens: Field required"
    if as_int(limit) < 1:
        yield "max_tokens: Input should be greater than or equal to 1"
    if received.headers.get("anthropic-version", "") >= "2026-10-21":
        for name in ("temperature", "top_p", "top_k"):
            if name in body:
                yield f"{name}: Extra inputs are not permitted"
    yield from _thinking_complaints(as_object(body.get("thinking")), as_int(limit))
    tools = [as_object(tool) for tool in as_array(body.get("tools"))]
    yield from tool_name_complaints("tools.{}.name", [tool for tool in tools if "input_schema" in tool])
    if (found := _breakpoints(body)) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {found}."
    if not all(_says_something(block) for block in as_array(body.get("system"))):
        yield "system: text content blocks must be non-empty"
    yield from _conversation_complaints([as_object(message) for message in as_array(body.get("messages"))])


def _thinking_complaints(thinking: Mapping[str, object], limit: int) -> Iterator[str]:
    if thinking.get("type") == "enabled":
        budget = as_int(thinking.get("budget_tokens"))
        if budget < 1024:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        if budget >= limit:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."


def _says_something(block: object) -> bool:
    fields = as_object(block)
    return fields.get("type") != "text" or bool(fields.get("text"))


def _breakpoints(body: Mapping[str, object]) -> int:
    """How many cache_control marks there are, where the API looks for them (not inside a call's input)."""
    marked = [body, *as_array(body.get("tools")), *as_array(body.get("system"))]
    for message in as_array(body.get("messages")):
        for block in as_array(as_object(message).get("content")):
            marked += (block, *as_array(as_object(block).get("content")))
    return sum(as_object(item).get("cache_control") is not None for item in marked)


def _conversation_complaints(messages: Sequence[Mapping[str, object]]) -> Iterator[str]:
    if not messages:
        yield "messages: at least one message is required"
    waiting: list[str] = []  # the calls of the message before
    for number, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            yield f"messages.{number}.role: Input should be 'user' or 'assistant'"
        if number == 0 and role != "user":
            yield 'messages: first message must use the "user" role'
        if not content and not (role == "assistant" and number == len(messages) - 1):
            yield (
                f"messages.{number}: all messages must have non-empty content except for the optional final"
                " assistant message"
            )
        blocks = [as_object(block) for block in as_array(content)]
        yield from _block_complaints(f"messages.{number}.content", blocks)
        yield from _result_complaints(number, blocks, waiting)
        waiting = [as_str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
    if waiting:
        yield _unanswered(len(messages) - 1, waiting)


def _block_complaints(where: str, blocks: Sequence[Mapping[str, object]]) -> Iterator[str]:
    seen: set[str] = set()
    for number, block in enumerate(blocks):
        match block.get("type"):
            case "text":
                if not as_str(block.get("text")).strip():
                    yield f"{where}.{number}: text content blocks must contain non-whitespace text"
            case "thinking":
                yield from _signature_complaints(f"{where}.{number}", block)
            case "tool_use":
                call_id = as_str(block.get("id"))
                if not is_name(call_id):
                    yield f"{where}.{number}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
                if call_id in seen:
                    yield f"{where}.{number}: `tool_use` ids must be unique"
                if not isinstance(block.get("input"), dict):
                    yield f"{where}.{number}.tool_use.input: Input should be a valid dictionary"
                seen.add(call_id)
            case "tool_result":
                if not all(_says_something(part) for part in as_array(block.get("content"))):
                    yield f"{where}.{number}.tool_result: text content blocks must be non-empty"
            case _:
                pass


def _signature_complaints(where: str, block: Mapping[str, object]) -> Iterator[str]:
    """Real signatures cannot be checked here; ours must fit the text they came with."""
    signature, thinking = as_str(block.get("signature")), as_str(block.get("thinking"))
    if not signature:
        yield f"{where}.thinking.signature: Field required"
    if signature.startswith("fake-signature-") and signature != _signature(thinking):
        yield f"{where}: Invalid `signature` in `thinking` block"


def _result_complaints(number: int, blocks: Sequence[Mapping[str, object]], waiting: Sequence[str]) -> Iterator[str]:
    """Results must come first in the message after their calls, one for each."""
    answered: list[str] = []
    for block in blocks:
        if block.get("type") != "tool_result":
            break
        answered.append(as_str(block.get("tool_use_id")))
    if missing := [call_id for call_id in waiting if call_id not in answered]:
        yield _unanswered(number - 1, missing)
    results = [as_str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
    for place, call_id in enumerate(results):
        if call_id not in waiting:
            yield (
                f"messages.{number}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}."
                " Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if call_id in results[:place]:
            yield (
                f"messages.{number}.content.{place}: each tool_use must have a single result."
                f" Found multiple `tool_result` blocks with id: {call_id}"
            )


def _unanswered(number: int, calls: Sequence[str]) -> str:
    return (
        f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after:"
        f" {', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


ANTHROPIC = Family(
    ("/v1/messages",),
    _render,
    _complaints,
    _error,
    _error_event,
    {kind: status for status, (kind, _) in _ERRORS.items()},
    _listing,
    _PING,
    "x-api-key header is required",
)
