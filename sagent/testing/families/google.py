"""Google's generateContent: the form of a turn, and the requests that the API refuses.

Shapes: ai.google.dev/api/generate-content and .../gemini-api/docs/thought-signatures
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence

from sagent.lib.json import JsonObject, as_array, as_object, as_str
from sagent.testing.families.answer import Answer, Family
from sagent.testing.families.form import checksum, data_event, encode, parsed, pieces, refused
from sagent.testing.script import ErrorEvent, Fail, Listed, Received
from sagent.usage import Usage

_STOPS = {
    "end": "STOP",
    "tool_use": "STOP",
    "stop_sequence": "STOP",
    "max_tokens": "MAX_TOKENS",
    "context_overflow": "MAX_TOKENS",
    "refusal": "SAFETY",
    "content_filter": "SAFETY",
    "pause": "CONTINUATION",
    "error": "OTHER",
}
_ERRORS = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "The model is not found for API version v1beta, or is not supported for generateContent."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: ("INTERNAL", "An internal error has occurred."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request timed out. Please try again."),
}
_STATUSES = {name: status for status, (name, _) in _ERRORS.items()} | {"overloaded_error": 503}
_MEMBERS = {  # of a request's body
    *("contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent"),
    *("serviceTier", "store", "labels", "model"),
}
_DATA = {  # a part must have one of these members
    *("text", "inlineData", "functionCall", "functionResponse", "fileData", "executableCode", "codeExecutionResult"),
    *("toolCall", "toolResponse"),
}


def _render(answer: Answer) -> list[bytes] | bytes:
    parts, stop = _parts(answer), _STOPS.get(answer.stop, answer.stop)
    if not answer.streamed:
        return encode(_chunk(answer, parts, stop, _usage(answer.usage)))
    so_far = {name: count for name, count in _usage(answer.usage).items() if name.startswith("prompt")}
    chunks = [_chunk(answer, [part], None, so_far) for part in parts]
    if not parts or "text" not in parts[-1] or parts[-1]["text"]:
        chunks.append(_chunk(answer, [{"text": ""}], None, so_far))
    last = as_object(as_array(chunks[-1]["candidates"])[0])
    chunks[-1] = _chunk(answer, as_array(as_object(last["content"])["parts"]), stop, _usage(answer.usage))
    if "alt=sse" in answer.request.query.split("&"):
        return list(map(data_event, chunks))
    return encode(chunks)  # without it a stream is one JSON array


def _chunk(answer: Answer, parts: Sequence[object], stop: str | None, usage: Mapping[str, int]) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    return {
        "candidates": [candidate],
        "usageMetadata": {**usage, "serviceTier": "standard"},
        "modelVersion": answer.model,
        "responseId": f"fake-{answer.nonce}",
    }


def _parts(answer: Answer) -> list[Mapping[str, object]]:
    """Thoughts, text and calls. The first call is signed. Without calls, an empty text at the end is signed, as in real
    replies.

    A call has an id if the script gives one, or if the model belongs to Gemini 3.
    """
    turn = answer.turn
    size = turn.pieces if answer.streamed else 0
    parts: list[Mapping[str, object]] = [{"text": piece, "thought": True} for piece in pieces(turn.thinking, size)]
    parts += [{"text": piece} for piece in pieces(turn.text, size)]
    for number, (call, (call_id, name, arguments)) in enumerate(zip(turn.calls, answer.calls("fc_"), strict=True)):
        given = {} if call.id is None and not _recent(answer.model) else {"id": call_id}
        signed = {} if number else {"thoughtSignature": _signature(name)}
        args = value if isinstance(value := parsed(arguments), JsonObject) else arguments
        more = {"willContinue": True} if call.cut else {"args": args}
        parts.append({"functionCall": {**given, "name": name, **more}, **signed})
    if turn.text and not turn.calls:
        parts.append({"text": "", "thoughtSignature": _signature("")})
    return parts


def _signature(name: str) -> str:
    """Return this server's signature for a call of that name, or for the end of a text. The server recognises it
    later."""
    return base64.b64encode(f"fake{checksum(name)}".encode()).decode()


def _recent(model: str) -> bool:
    """Return True if a model is of Gemini 3 or later."""
    version = model.rpartition("/")[2].removeprefix("gemini-")
    return version[:1] in ("3", "4") or version.endswith("latest")


def _usage(usage: Usage) -> dict[str, int]:
    """Return the counts. The prompt's tokens include cache reads; the candidates' do not include thoughts. There are no
    writes."""
    spoken = usage.output - usage.reasoning
    counts = {
        "promptTokenCount": usage.total_input,
        "candidatesTokenCount": spoken,
        "totalTokenCount": usage.total_input + usage.output,
    }
    more = {"cachedContentTokenCount": usage.cache_read, "thoughtsTokenCount": usage.reasoning}
    return counts | {name: count for name, count in more.items() if count}


def _error(fail: Fail) -> Mapping[str, object]:
    name, message = _ERRORS.get(fail.status, _ERRORS[500 if fail.status >= 500 else 400])
    return {"error": {"code": fail.status, "message": fail.message or message, "status": fail.type or name}}


def _error_event(step: ErrorEvent) -> bytes:
    status = _STATUSES.get(step.type, 500)
    return data_event(_error(Fail(status, message=step.message)))


def _listing(rows: Sequence[Listed]) -> Mapping[str, object]:
    models = [
        {
            "name": f"models/{row.id}",
            "version": "001",
            "displayName": row.name or row.id,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
            **({"inputTokenLimit": row.window} if row.window else {}),
            **({"outputTokenLimit": row.max_output} if row.max_output else {}),
        }
        for row in rows
    ]
    return {"models": models}


# What generateContent refuses with 400, in about its words.


def _complaints(received: Received) -> Iterator[str]:
    body = received.json
    model = received.path.rpartition("/")[2].partition(":")[0]
    for name in body:
        if name not in _MEMBERS:
            yield f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    yield from _thinking_complaints(model, as_object(body.get("generationConfig")))
    yield from _tool_complaints(body)
    system = as_object(body.get("systemInstruction"))
    if system and not as_array(system.get("parts")):
        yield "* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty."
    contents = [as_object(content) for content in as_array(body.get("contents"))]
    if not contents:
        yield "* GenerateContentRequest.contents: contents is not specified"
    for number, content in enumerate(contents):
        yield from _content_complaints(f"GenerateContentRequest.contents[{number}]", content)
    yield from _order_complaints(contents)
    if _recent(model):
        yield from _signature_complaints(contents)


def _thinking_complaints(model: str, config: Mapping[str, object]) -> Iterator[str]:
    thinking = as_object(config.get("thinkingConfig"))
    budget, level = thinking.get("thinkingBudget"), thinking.get("thinkingLevel")
    shown = thinking.get("includeThoughts") is True and model.startswith(("gemini-1", "gemini-2.0"))
    leveled = level is not None and not _recent(model) and not model.startswith("gemma-4")
    limit = config.get("maxOutputTokens", 1)
    where = "GenerateContentRequest.generation_config.max_output_tokens"
    yield from refused(
        (budget is not None and level is not None, "You can only set only one of thinking budget and thinking level."),
        (leveled, "Thinking level is not supported for this model."),
        (budget == 0 and "pro" in model.split("-"), "Budget 0 is invalid. This model only works in thinking mode."),
        (shown, "Thinking is not enabled for this model."),
        (not (isinstance(limit, int) and limit > 0), f"* {where}: max_output_tokens must be positive."),
    )


def _tool_complaints(body: Mapping[str, object]) -> Iterator[str]:
    seen: set[str] = set()
    for tool in as_array(body.get("tools")):
        for number, item in enumerate(as_array(as_object(tool).get("functionDeclarations"))):
            declaration = as_object(item)
            name = as_str(declaration.get("name"))
            where = f"GenerateContentRequest.tools[0].function_declarations[{number}]"
            plain = name.replace("-", "_").replace(".", "_").replace(":", "_")
            if not (plain.isascii() and plain.isidentifier()) or len(name) > 128:
                yield (
                    f"* {where}.name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore."
                    " Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with"
                    " a maximum length of 128."
                )
            if name in seen:
                yield f"Duplicate function declaration found: {name}"
            seen.add(name)
            if "$ref" in json.dumps(declaration.get("parameters")):
                yield f"Invalid JSON payload received. Unknown name \"$ref\" at '{where}': Cannot find field."


def _content_complaints(prefix: str, content: Mapping[str, object]) -> Iterator[str]:
    if content.get("role", "user") not in ("user", "model", "function"):
        yield "Please use a valid role: user, model."
    parts = [as_object(part) for part in as_array(content.get("parts"))]
    if not parts:
        yield f"* {prefix}.parts: contents.parts must not be empty."
    for number, part in enumerate(parts):
        place = f"{prefix}.parts[{number}]"
        if not _DATA & part.keys() or (part.get("text") == "" and "thoughtSignature" not in part):
            yield f"* {place}.data: required oneof field 'data' must have one initialized field"
        yield from _part_complaints(place, part)


def _part_complaints(prefix: str, part: Mapping[str, object]) -> Iterator[str]:
    for member, inside in (("functionCall", "args"), ("functionResponse", "response")):
        call, at = as_object(part.get(member)), f"{prefix}.{member}"
        loose = not isinstance(call.get(inside, {}), dict)
        yield from refused(
            (member in part and not as_str(call.get("name")), f"* {at}.name: Name cannot be empty."),
            (loose, f"Invalid value at '{at}.{inside}' (type.googleapis.com/google.protobuf.Struct)"),
        )
    media, signature = as_object(part.get("inlineData")), as_str(part.get("thoughtSignature"))
    name, kind = as_str(as_object(part.get("functionCall")).get("name")), as_str(media.get("mimeType"))
    forged = signature.startswith(_signature("")[:5]) and (signature != _signature(name) or part.get("text"))
    yield from refused(
        (media and not (as_str(media.get("data")) and kind), f"Unable to process input image: {prefix}.inline_data"),
        (kind == "image/gif", "Unsupported MIME type: image/gif"),
        (forged, "Thought signature is not valid."),
    )


def _order_complaints(contents: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Results must come right after their calls, one for each, by id where there are ids, else by name and order."""
    waiting: list[Mapping[str, object]] = []
    before = ""
    for content in contents:
        calls, answers = _inner(content, "functionCall"), _inner(content, "functionResponse")
        if calls and (before in ("", "model") or content.get("role") != "model"):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or after a function"
                " response turn."
            )
        if answers and not waiting:
            yield "Please ensure that function response turn comes immediately after a function call turn."
        if len(answers) != len(waiting):
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call"
                " parts of the function call turn."
            )
        for call, answer in zip(waiting, answers, strict=False):
            if (call.get("id"), call.get("name")) != (answer.get("id"), answer.get("name")):
                yield f"The function response {answer.get('name')} does not match the function call {call.get('name')}."
        waiting, before = calls, as_str(content.get("role"), "user")
    if before == "model":
        yield "Please ensure that multiturn requests end with a user role or a function response."


def _inner(content: Mapping[str, object], member: str) -> list[Mapping[str, object]]:
    parts = map(as_object, as_array(content.get("parts")))
    return [as_object(part[member]) for part in parts if member in part]


def _signature_complaints(contents: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield an error for each step since the person last spoke without a signature on its first call."""
    spoken = 0
    for number, content in enumerate(contents):
        if content.get("role") != "model" and not _inner(content, "functionResponse"):
            spoken = number
    for number in range(spoken, len(contents)):
        parts = map(as_object, as_array(contents[number].get("parts")))
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and not as_str(first.get("thoughtSignature")):
            name = as_str(as_object(first["functionCall"]).get("name"))
            yield (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
                f" correctly. Additional data, function call `default_api:{name}`, position {number}."
            )


GOOGLE = Family(
    (":generateContent", ":streamGenerateContent"),
    _render,
    _complaints,
    _error,
    _error_event,
    _STATUSES,
    _listing,
    b": ping\n\n",
    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other"
    " form of API consumer identity to call this API.",
)
