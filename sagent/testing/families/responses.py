"""OpenAI Responses: the form of a turn, and the requests that the API refuses.

Shapes: platform.openai.com/docs/api-reference/responses and .../responses-streaming
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.testing.families.answer import Answer, Family
from sagent.testing.families.chat import CHAT
from sagent.testing.families.form import (
    CREATED,
    check_tools,
    checksum,
    encode,
    is_name,
    named_event,
    pieces,
    refused,
    too_long,
    unsupported,
)
from sagent.testing.script import ErrorEvent, Fail, Received
from sagent.usage import Usage

_INCOMPLETE = {"max_tokens": "max_output_tokens", "context_overflow": "max_output_tokens"}
_COMPLETED = ("end", "tool_use", "stop_sequence", "refusal", "pause")

_Item = Mapping[str, object]


def _render(answer: Answer) -> list[bytes] | bytes:
    items = list(_items(answer))
    body = _response(answer, items)
    if not answer.streamed:
        return encode(body)
    begun = {**_response(answer, []), "status": "in_progress", "incomplete_details": None, "usage": None}
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": index}
        events.append({"type": "response.output_item.added", "output_index": index, "item": _opening(item)})
        events += [{**event, **place} for event in _progress(item, answer.turn.pieces)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{body['status']}", "response": body})
    return [named_event({**event, "sequence_number": number}) for number, event in enumerate(events)]


def _response(answer: Answer, items: Sequence[_Item]) -> Mapping[str, object]:
    broken = "" if answer.stop in _COMPLETED else _INCOMPLETE.get(answer.stop, answer.stop)
    return {
        "id": f"resp_{answer.nonce}",
        "object": "response",
        "created_at": CREATED,
        "status": "incomplete" if broken else "completed",
        "error": None,
        "incomplete_details": {"reason": broken} if broken else None,
        "instructions": answer.request.json.get("instructions"),
        "model": answer.model,
        "output": items,
        "parallel_tool_calls": True,
        "service_tier": "default",
        "store": answer.request.json.get("store") is not False,
        "tool_choice": "auto",
        "tools": answer.request.json.get("tools") or [],
        "usage": _usage(answer.usage),
    }


def _usage(usage: Usage) -> Mapping[str, object]:
    """Cache reads and writes are inside the input's tokens here, reasoning inside the output's."""
    written = usage.cache_write + usage.cache_write_1h
    return {
        "input_tokens": usage.total_input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total_input + usage.output,
    }


def _items(answer: Answer) -> Iterator[_Item]:
    turn = answer.turn
    if turn.thinking:
        item: dict[str, object] = {"type": "reasoning", "id": f"rs_{answer.nonce}"}
        item["summary"] = [{"type": "summary_text", "text": turn.thinking}]
        if "reasoning.encrypted_content" in as_array(answer.request.json.get("include")):
            item["encrypted_content"] = _encrypted(turn.thinking)
        yield item
    if turn.text:
        part: Mapping[str, object] = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        if turn.stop == "refusal":
            part = {"type": "refusal", "refusal": turn.text}
        yield {
            "type": "message",
            "id": f"msg_{answer.nonce}",
            "status": "completed",
            "role": "assistant",
            "phase": "commentary" if turn.calls else "final_answer",
            "content": [part],
        }
    for number, (call_id, name, arguments) in enumerate(answer.calls("call_")):
        yield {
            "type": "function_call",
            "id": f"fc_{answer.nonce}{number:08x}",
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
            "status": "incomplete" if turn.calls[number].cut else "completed",
        }


def _opening(item: _Item) -> _Item:
    """Return an item as it is announced: without its content. (Its encrypted content may be there, and may change
    later.)"""
    empty: Mapping[str, object] = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
    opened = {name: empty.get(name, value) for name, value in item.items()}
    return {**opened, "encrypted_content": "half"} if "encrypted_content" in item else opened


def _progress(item: _Item, size: int) -> Iterator[dict[str, object]]:
    """Yield the events between an item's announcement and its end."""
    if item["type"] == "function_call":
        arguments = as_str(item["arguments"])
        for piece in pieces(arguments, size):
            yield {"type": "response.function_call_arguments.delta", "delta": piece}
        if item["status"] == "incomplete":
            return
        yield {"type": "response.function_call_arguments.done", "arguments": arguments}
        return
    thinks = item["type"] == "reasoning"
    number = {"summary_index": 0} if thinks else {"content_index": 0}
    part = as_object(as_array(item["summary" if thinks else "content"])[0])
    kind, member = as_str(part["type"]), "refusal" if part["type"] == "refusal" else "text"
    owner, name = ("reasoning_summary_part", "reasoning_summary_text") if thinks else ("content_part", kind)
    yield {"type": f"response.{owner}.added", "part": {**part, member: ""}, **number}
    for piece in pieces(as_str(part[member]), size):
        yield {"type": f"response.{name}.delta", "delta": piece, **number}
    yield {"type": f"response.{name}.done", member: part[member], **number}
    yield {"type": f"response.{owner}.done", "part": part, **number}


def _encrypted(thinking: str) -> str:
    """Return this server's encrypted content. The server recognises it when its item is sent again."""
    return f"fake-encrypted-{checksum(thinking)}"


def _error_event(step: ErrorEvent) -> bytes:
    error = as_object(CHAT.error(Fail(500, type=step.type, message=step.message))["error"])
    return named_event({"type": "error", "sequence_number": 2, "error": error})


# What the Responses API refuses with 400, in about its words.

_MAX_ID_CHARS = 64
_ID_STARTS = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_CONTENT = {
    "assistant": ("output_text", "refusal"),
    "user": ("input_text", "input_image", "input_file", "input_audio"),
    "system": ("input_text", "input_image", "input_file"),
    "developer": ("input_text", "input_image", "input_file"),
}


def _complaints(received: Received) -> Iterator[str]:
    body = received.json
    model = as_str(body.get("model"))
    if not model:
        yield "Missing required parameter: 'model'."
    limit = body.get("max_output_tokens")
    if limit is not None and as_int(limit) < 16:
        yield (
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got"
            f" {as_int(limit)} instead."
        )
    if "messages" in body:
        yield "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'."
    if model.startswith(("gpt-4", "gpt-3")):
        if "reasoning.encrypted_content" in as_array(body.get("include")):
            yield "Encrypted content is not supported with this model."
        if body.get("reasoning"):
            yield "Unsupported parameter: 'reasoning.effort' is not supported with this model."
    tools = [tool for tool in map(as_object, as_array(body.get("tools"))) if tool.get("type") == "function"]
    yield from check_tools("Invalid 'tools[{}].name'", tools)
    if not body.get("input"):
        yield "Missing required parameter: 'input'."
    items = [as_object(item) for item in as_array(body.get("input"))]
    for number, item in enumerate(items):
        yield from _item_complaints(f"input[{number}]", item, stored=body.get("store") is not False)
    yield from _pairing_complaints(items)


def _item_complaints(prefix: str, item: _Item, *, stored: bool) -> Iterator[str]:
    kind = as_str(item.get("type"), "message")
    yield from _id_complaints(prefix, kind, item)
    match kind:
        case "message":
            yield from _message_complaints(prefix, item)
        case "function_call" | "function_call_output":
            yield from _call_complaints(prefix, item)
        case "reasoning" | "item_reference":
            own = as_str(item.get("encrypted_content"))
            if not (stored or own or item.get("content")):
                yield (
                    f"Item with id '{as_str(item.get('id'))}' not found. Items are not persisted when `store` is set to"
                    " false. Try again with `store` set to true, or remove this item from your input."
                )
            summary = "".join(as_str(as_object(part).get("text")) for part in as_array(item.get("summary")))
            if kind == "reasoning" and "summary" not in item:
                yield f"Missing required parameter: '{prefix}.summary'."
            if own == "half" or (own.startswith("fake-encrypted-") and own != _encrypted(summary)):
                yield "The encrypted content could not be verified. Reason: it could not be decrypted or parsed."
        case _:
            pass


def _id_complaints(prefix: str, kind: str, item: _Item) -> Iterator[str]:
    if item.get("id") is None:
        return
    given, start, at = as_str(item["id"]), _ID_STARTS.get(kind, ""), f"{prefix}.id"
    strange = not is_name(given) or not given.startswith(start)
    yield from refused(
        (len(given) > _MAX_ID_CHARS, too_long(at, given, _MAX_ID_CHARS)),
        (strange, f"Invalid '{at}': {given!r}. Expected an ID that begins with {start!r}."),
    )


def _message_complaints(prefix: str, item: _Item) -> Iterator[str]:
    role, content = as_str(item.get("role")), item.get("content")
    if role not in _CONTENT:
        yield unsupported(role, _CONTENT)
    if not isinstance(content, str | list):
        yield f"Invalid type for '{prefix}.content': expected one of an array of objects or string."
    for number, part in enumerate(as_array(item.get("content"))):
        kind = as_str(as_object(part).get("type"))
        if kind not in _CONTENT.get(role, (kind,)):
            yield unsupported(kind, _CONTENT[role], f" ({prefix}.content[{number}])", " and ")


def _call_complaints(prefix: str, item: _Item) -> Iterator[str]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        yield f"Invalid '{prefix}.call_id': empty string. Expected a string with minimum length 1."
    elif len(call_id) > _MAX_ID_CHARS:
        yield too_long(f"{prefix}.call_id", call_id, _MAX_ID_CHARS)
    if item.get("type") == "function_call_output":
        output = item.get("output")
        if not isinstance(output, str | list) or output == []:
            yield f"Invalid type for '{prefix}.output': expected one of an array of objects or string."
        kinds = [as_str(as_object(part).get("type")) for part in as_array(item.get("output"))]
        if wrong := next((kind for kind in kinds if kind not in _CONTENT["user"]), None):
            yield f"Invalid value: {wrong!r} ({prefix}.output)."
        return
    for name in ("name", "arguments"):
        if not isinstance(item.get(name), str):
            yield f"Missing required parameter: '{prefix}.{name}'."


def _pairing_complaints(items: Sequence[_Item]) -> Iterator[str]:
    """Calls and their outputs, reasoning and what it led to, and no item twice."""
    found: dict[object, list[str]] = {"function_call": [], "function_call_output": []}
    called, answered = found.values()
    for item in items:
        kind, call_id = item.get("type"), as_str(item.get("call_id"))
        if kind == "function_call_output" and call_id not in called:
            yield f"No tool call found for function call output with call_id {call_id}."
        found.get(kind, []).append(call_id)
    if missing := next((call_id for call_id in called if call_id not in answered), None):
        yield f"No tool output found for function call {missing}."
    if len(set(called)) < len(called) or len(set(answered)) < len(answered):
        yield "Duplicate item found: two function calls, or two outputs, have the same call_id."
    ids = [as_str(item.get("id")) for item in items if item.get("id") is not None]
    if twice := next((each for number, each in enumerate(ids) if each in ids[:number]), None):
        yield f"Duplicate item found with id {twice}. Remove duplicate items from your input and try again."
    for item, follower in pairwise([*items, {"role": "user"}]):
        own, kind = as_str(item.get("id")), follower.get("type")
        ours = follower.get("role") in ("user", "system", "developer") or kind == "function_call_output"
        if item.get("type") == "reasoning" and ours:
            yield f"Item '{own}' of type 'reasoning' was provided without its required following item."


RESPONSES = Family(
    ("/responses",),
    _render,
    _complaints,
    CHAT.error,
    _error_event,
    CHAT.statuses,
    CHAT.listing,
    b": ping\n\n",
    CHAT.no_key,
)
