"""Anthropic Messages: the form of a turn, and the requests that the API refuses.

Shapes: platform.claude.com/docs/en/api/messages and .../build-with-claude/streaming
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from sagent.lib.json import as_array, as_int, as_object, as_str, json_dump
from sagent.testing.families.answer import Answer, Family
from sagent.testing.families.form import check_tools, checksum, encode, is_name, named_event, parsed, pieces, refused
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


def _render(answer: Answer) -> list[bytes] | bytes:
    if not answer.streamed:
        message = _message(answer, [block for block, _ in _blocks(answer)], _stop(answer))
        return encode({**message, "usage": _usage(answer.usage)})
    first = {**_usage(answer.usage), "output_tokens": min(1, answer.usage.output)}
    del first["output_tokens_details"]
    events = [named_event({"type": "message_start", "message": {**_message(answer, [], None), "usage": first}})]
    blocks = list(_blocks(answer))
    left_open = answer.open_blocks(len(blocks))
    for index, (block, deltas) in enumerate(blocks):
        opening = {name: _EMPTY.get(name, value) for name, value in block.items()}
        events.append(named_event({"type": "content_block_start", "index": index, "content_block": opening}))
        events += (_delta(index, *delta) for delta in deltas)
        if index not in left_open:
            events.append(named_event({"type": "content_block_stop", "index": index}))
    events.insert(2, _PING)
    # The last usage is cumulative, and does not split the cache writes by their life: only message_start does.
    last = {key: value for key, value in _usage(answer.usage).items() if key not in _START_ONLY}
    delta = {"stop_reason": _stop(answer), "stop_sequence": None}
    events.append(named_event({"type": "message_delta", "delta": delta, "usage": last}))
    events.append(named_event({"type": "message_stop"}))
    return events


_EMPTY: Mapping[str, object] = {"thinking": "", "signature": "", "text": "", "input": {}}  # members as a block opens
_START_ONLY = ("cache_creation", "service_tier")
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def _delta(index: int, kind: str, member: str, value: str) -> bytes:
    return (
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


def _blocks(answer: Answer) -> Iterator[tuple[Mapping[str, object], Sequence[tuple[str, str, str]]]]:
    """Yield each content block as a whole, and the deltas it is streamed in: type, member, value."""
    turn, size = answer.turn, answer.turn.pieces
    if turn.thinking:
        signature = _signature(turn.thinking)
        thinking = [("thinking_delta", "thinking", piece) for piece in pieces(turn.thinking, size)]
        block = {"type": "thinking", "thinking": turn.thinking, "signature": signature}
        yield block, (*thinking, ("signature_delta", "signature", signature))
    if turn.text:
        yield {"type": "text", "text": turn.text}, [("text_delta", "text", piece) for piece in pieces(turn.text, size)]
    for call_id, name, arguments in answer.calls("toolu_"):
        written = ("", *pieces(arguments, size))  # the real stream begins with an empty piece, too
        call: Mapping[str, object] = {"type": "tool_use", "id": call_id, "name": name, "input": parsed(arguments)}
        yield call, [("input_json_delta", "partial_json", piece) for piece in written]


def _signature(thinking: str) -> str:
    """Return the signature this server gives a thinking block, and recognises when the block comes back."""
    return f"fake-signature-{checksum(thinking)}"


def _error(fail: Fail) -> Mapping[str, object]:
    kind, message = _ERRORS.get(fail.status, ("api_error", "Internal server error"))
    error = {"type": fail.type or kind, "message": fail.message or message}
    return {"type": "error", "error": error, "request_id": "req_fake"}


def _error_event(step: ErrorEvent) -> bytes:
    return named_event(_error(Fail(500, type=step.type, message=step.message)))


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
    body, version = received.json, received.headers.get("anthropic-version")
    limit, thinking = body.get("max_tokens"), as_object(body.get("thinking"))
    enabled, budget = thinking.get("type") == "enabled", as_int(thinking.get("budget_tokens"))
    old = ("temperature", "top_p", "top_k") if version and version >= "2026-10-21" else ()
    yield from refused(
        (version is None, "anthropic-version: header is required"),
        (not as_str(body.get("model")), "model: Field required"),
        (limit is None, "max_tokens: Field required"),
        (as_int(limit) < 1, "max_tokens: Input should be greater than or equal to 1"),
        *((name in body, f"{name}: Extra inputs are not permitted") for name in old),
        (
            enabled and budget < 1024,
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        (enabled and budget >= as_int(limit), "`max_tokens` must be greater than `thinking.budget_tokens`."),
    )
    tools = [as_object(tool) for tool in as_array(body.get("tools"))]
    yield from check_tools("tools.{}.name", [tool for tool in tools if "input_schema" in tool])
    found, system = _breakpoints(body), as_array(body.get("system"))
    yield from refused(
        (found > 4, f"A maximum of 4 blocks with cache_control may be provided. Found {found}."),
        (not all(map(_says_something, system)), "system: text content blocks must be non-empty"),
    )
    yield from _conversation_complaints([as_object(message) for message in as_array(body.get("messages"))])


def _says_something(block: object) -> bool:
    fields = as_object(block)
    return fields.get("type") != "text" or bool(fields.get("text"))


def _breakpoints(body: Mapping[str, object]) -> int:
    """Count the cache_control marks where the API looks for them (not inside a call's input)."""
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
        last = role == "assistant" and number == len(messages) - 1
        hollow = f"messages.{number}: all messages must have non-empty content except for the optional final assistant"
        yield from refused(
            (role not in ("user", "assistant"), f"messages.{number}.role: Input should be 'user' or 'assistant'"),
            (number == 0 and role != "user", 'messages: first message must use the "user" role'),
            (not content and not last, f"{hollow} message"),
        )
        blocks = [as_object(block) for block in as_array(content)]
        yield from _block_complaints(f"messages.{number}.content", blocks)
        yield from _result_complaints(number, blocks, waiting)
        waiting = [as_str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
    if waiting:
        yield _unanswered(len(messages) - 1, waiting)


def _block_complaints(prefix: str, blocks: Sequence[Mapping[str, object]]) -> Iterator[str]:
    seen: set[str] = set()
    for number, block in enumerate(blocks):
        at, text, call_id = f"{prefix}.{number}", as_str(block.get("text")), as_str(block.get("id"))
        match block.get("type"):
            case "text":
                yield from refused((not text.strip(), f"{at}: text content blocks must contain non-whitespace text"))
            case "thinking":  # real signatures cannot be checked here; ours must fit the text they came with
                signature, own = as_str(block.get("signature")), _signature(as_str(block.get("thinking")))
                forged = signature.startswith("fake-signature-") and signature != own
                yield from refused(
                    (not signature, f"{at}.thinking.signature: Field required"),
                    (forged, f"{at}: Invalid `signature` in `thinking` block"),
                )
            case "tool_use":
                is_table = isinstance(block.get("input"), dict)
                yield from refused(
                    (not is_name(call_id), f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
                    (call_id in seen, f"{at}: `tool_use` ids must be unique"),
                    (not is_table, f"{at}.tool_use.input: Input should be a valid dictionary"),
                )
                seen.add(call_id)
            case "tool_result":
                said = all(map(_says_something, as_array(block.get("content"))))
                yield from refused((not said, f"{at}.tool_result: text content blocks must be non-empty"))
            case _:
                pass


def _result_complaints(number: int, blocks: Sequence[Mapping[str, object]], waiting: Sequence[str]) -> Iterator[str]:
    """Results must come first in the message after their calls, one for each."""
    first = takewhile(lambda block: block.get("type") == "tool_result", blocks)
    answered = [as_str(block.get("tool_use_id")) for block in first]
    if missing := [call_id for call_id in waiting if call_id not in answered]:
        yield _unanswered(number - 1, missing)
    results = [as_str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
    for place, call_id in enumerate(results):
        at = f"messages.{number}.content.{place}"
        if call_id not in waiting:
            yield (
                f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}."
                " Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if call_id in results[:place]:
            found = f"Found multiple `tool_result` blocks with id: {call_id}"
            yield f"{at}: each tool_use must have a single result. {found}"


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
