"""OpenAI Chat Completions: the form of a turn, and the requests that the API refuses.

Shapes: platform.openai.com/docs/api-reference/chat and .../chat-streaming
"""

from collections.abc import Iterator, Mapping, Sequence

from sagent.lib.json import as_array, as_object, as_str, json_dump
from sagent.testing.families.answer import Answer, Family
from sagent.testing.families.form import (
    CREATED,
    check_tools,
    data_event,
    encode,
    pieces,
    refused,
    too_long,
    unsupported,
)
from sagent.testing.script import ErrorEvent, Fail, Listed, Received, Turn
from sagent.usage import Usage

_STOPS = {
    "end": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "context_overflow": "length",
    "stop_sequence": "stop",
    "refusal": "stop",
    "pause": "stop",
}
_ERRORS: Mapping[int, tuple[str, str, str | None]] = {
    400: ("invalid_request_error", "Bad request", None),
    401: ("invalid_request_error", "Incorrect API key provided.", "invalid_api_key"),
    403: ("invalid_request_error", "You are not allowed to do this.", None),
    404: ("invalid_request_error", "The model does not exist or you do not have access to it.", "model_not_found"),
    429: ("requests", "Rate limit reached. Please try again later.", "rate_limit_exceeded"),
    500: ("server_error", "The server had an error while processing your request.", None),
    503: ("server_error", "The engine is currently overloaded, please try again later.", None),
}


def _render(answer: Answer) -> list[bytes] | bytes:
    if not answer.streamed:
        return _body(answer)
    turn = answer.turn
    counted = as_object(answer.request.json.get("stream_options")).get("include_usage") is True
    usage = ',"usage":null' if counted else ""
    head = (
        f'data: {{"id":"chatcmpl-{answer.nonce}","object":"chat.completion.chunk","created":{CREATED},'
        f'"model":{json_dump(answer.model)},"service_tier":"default","system_fingerprint":"fp_fake","choices":['
    )
    deltas: list[Mapping[str, object]] = [{"role": "assistant", "content": None if turn.calls else "", "refusal": None}]
    deltas += [{"reasoning_content": piece} for piece in pieces(turn.thinking, turn.pieces)]
    deltas += [{_voice(turn): piece} for piece in pieces(turn.text, turn.pieces)]
    for index, (call_id, name, arguments) in enumerate(answer.calls("call_")):
        opening = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [opening]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in pieces(arguments, turn.pieces)
        ]
    texts = [
        f'{head}{{"index":0,"delta":{json_dump(delta)},"logprobs":null,"finish_reason":null}}]{usage}}}\n\n'
        for delta in deltas
    ]
    stop = json_dump(_STOPS.get(answer.stop, answer.stop))
    texts.append(f'{head}{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":{stop}}}]{usage}}}\n\n')
    if counted:
        texts.append(f'{head}],"usage":{json_dump(_usage(answer.usage))}}}\n\n')
    return [*(text.encode("utf-8", "backslashreplace") for text in texts), b"data: [DONE]\n\n"]


def _voice(turn: Turn) -> str:
    return "refusal" if turn.stop == "refusal" else "content"


def _body(answer: Answer) -> bytes:
    turn = answer.turn
    message: dict[str, object] = {"role": "assistant", "content": None if turn.calls else "", "refusal": None}
    if turn.text:
        message |= {"content": None, _voice(turn): turn.text}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in answer.calls("call_")
        ]
    stop = _STOPS.get(answer.stop, answer.stop)
    return encode(
        {
            "id": f"chatcmpl-{answer.nonce}",
            "object": "chat.completion",
            "created": CREATED,
            "model": answer.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": stop}],
            "usage": _usage(answer.usage),
            "service_tier": "default",
            "system_fingerprint": "fp_fake",
        }
    )


def _usage(usage: Usage) -> Mapping[str, object]:
    """Cache reads and writes are inside the prompt's tokens here, reasoning inside the completion's."""
    written = usage.cache_write + usage.cache_write_1h
    return {
        "prompt_tokens": usage.total_input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total_input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": written, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _error(fail: Fail) -> Mapping[str, object]:
    kind, message, code = _ERRORS.get(fail.status, _ERRORS[500 if fail.status >= 500 else 400])
    code = fail.code if fail.code is not None or fail.type else code
    return {"error": {"message": fail.message or message, "type": fail.type or kind, "param": None, "code": code}}


def _error_event(step: ErrorEvent) -> bytes:
    return data_event(_error(Fail(500, type=step.type, message=step.message)))


def _listing(rows: Sequence[Listed]) -> Mapping[str, object]:
    data = [
        {
            "id": row.id,
            "object": "model",
            "created": CREATED,
            "owned_by": row.owner,
            **({"meta": {"n_params": row.weights}} if row.weights else {}),
            "context_length": row.window,
        }
        for row in rows
    ]
    return {"object": "list", "data": data}


# What Chat Completions refuses with 400, in about its words.

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def _complaints(received: Received) -> Iterator[str]:
    body = received.json
    messages = [as_object(message) for message in as_array(body.get("messages"))]
    unasked = body.get("stream_options") is not None and body.get("stream") is not True
    yield from refused(
        (not as_str(body.get("model")), "you must provide a model parameter"),
        (not messages, "Invalid 'messages': empty array. Expected an array with minimum length 1."),
        (unasked, "The 'stream_options' parameter is only allowed when 'stream' is enabled."),
    )
    offered = map(as_object, as_array(body.get("tools")))
    tools = [as_object(tool.get("function")) for tool in offered if as_str(tool.get("type"), "function") == "function"]
    yield from check_tools("Invalid 'tools[{}].function.name'", tools)
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            yield from _tool_message_complaints(number, message, waiting)
            continue
        if waiting:
            yield _no_response(waiting)
        yield from _message_complaints(number, message)
        calls = [as_object(call) for call in as_array(message.get("tool_calls"))]
        yield from _call_complaints(f"messages[{number}].tool_calls", calls)
        waiting = [as_str(call.get("id")) for call in calls]
    if waiting:
        yield _no_response(waiting)


def _tool_message_complaints(number: int, message: Mapping[str, object], waiting: list[str]) -> Iterator[str]:
    """Check a result, and remove its call from the waiting ones."""
    call_id = as_str(message.get("tool_call_id"))
    if call_id not in waiting:
        yield (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            f" (messages[{number}], tool_call_id {call_id!r})"
        )
    else:
        waiting.remove(call_id)
    if message.get("content") is None:
        yield f"Invalid value for 'messages[{number}].content': expected a string, got null."


def _no_response(calls: Sequence[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(calls)}"
    )


def _message_complaints(number: int, message: Mapping[str, object]) -> Iterator[str]:
    role, calls, at = message.get("role"), message.get("tool_calls"), f"messages[{number}]"
    speaks = role == "assistant" and (calls or message.get("refusal") or message.get("audio"))
    silent = message.get("content") is None and not speaks
    yield from refused(
        (role not in _ROLES, unsupported(role, _ROLES)),
        (silent, f"Invalid value for '{at}.content': expected a string, got null."),
        (calls == [], f"Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1."),
    )


def _call_complaints(prefix: str, calls: Sequence[Mapping[str, object]]) -> Iterator[str]:
    for number, call in enumerate(calls):
        call_id, function = call.get("id"), as_object(call.get("function"))
        if not isinstance(call_id, str):
            yield f"Missing required parameter: '{prefix}[{number}].id'."
        elif len(call_id) > 40:
            yield too_long(f"{prefix}[{number}].id", call_id, 40)
        for name in ("name", "arguments"):
            if not isinstance(function.get(name), str):
                place, got = f"{prefix}[{number}].function.{name}", type(function.get(name)).__name__
                yield f"Invalid type for '{place}': expected a string, but got {got} instead."


CHAT = Family(
    ("/chat/completions",),
    _render,
    _complaints,
    _error,
    _error_event,
    {"requests": 429, "rate_limit_exceeded": 429, "overloaded_error": 529, "invalid_request_error": 400},
    _listing,
    b": ping\n\n",
    "You didn't provide an API key. You need to provide your API key in an Authorization header.",
)
