"""Request options: members of a provider's own request body that a caller sets, such as {"temperature": 0.2}."""

from collections.abc import Mapping

from sagent.cost.prices import CACHES, MAX_CALLS
from sagent.errors import UsageError
from sagent.lib.json import (
    JsonObject,
    NotJsonError,
    as_array,
    as_int,
    as_object,
    as_str,
    json_freeze_object,
    wire_bytes,
)

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")
INNER = ("generationConfig", "inferenceConfig")  # members that contain others: Google's, and that of Bedrock's Converse
_OURS = {
    **dict.fromkeys(("model", "fallbacks", "models"), "set by model"),
    **dict.fromkeys(("messages", "input", "contents", "prompt"), "the conversation"),
    **dict.fromkeys(("system", "instructions", "systemInstruction"), "set by system"),
    **dict.fromkeys(("stream", "stream_options", "background"), "always a stream"),
    **dict.fromkeys(_LIMITS, "set by max_response_tokens"),
    **dict.fromkeys(("n", "best_of", "candidateCount", "candidate_count"), "always one answer"),
}
SAMPLING = {
    *("temperature", "top_p", "top_k", "top_a", "min_p", "typical_p", "topP", "topK", "do_sample", "seed"),
    *("stop", "stop_sequences", "stopSequences", "frequency_penalty", "presence_penalty", "frequencyPenalty"),
    *("presencePenalty", "repetition_penalty", "repeat_penalty", "no_repeat_ngram_size", "logit_bias"),
    *("user", "metadata", "safety_identifier", "safetySettings", "verbosity", "parallel_tool_calls"),
    *(*INNER, "chat_template_kwargs"),
}
"""Members that leave a token's price and the bound of an answer as they are."""
_SERVER_TOOLS = ("tools", MAX_CALLS)  # their cost is reserved, if their number is limited
_OURS_TO_RUN = ("function", "custom", "bash_", "text_editor_", "computer", "memory_", "local_shell", "apply_patch")
"""Prefixes of types of tools that the provider only calls: the caller runs them."""
_DECLARES = {"functionDeclarations", "function_declarations", "input_schema"}  # members of such tools
_LIVES = ({"type": "ephemeral"}, *({"type": "ephemeral", "ttl": ttl} for ttl in ("5m", "1h")))
_DEARER = ("cache_control", "service_tier", "serviceTier", "speed", "plugins", "web_search_options", "server_tools")


def read_options(keywords: Mapping[str, object], *, capped: bool) -> JsonObject:
    """Return options as they are sent. Raises UsageError for a member that sagent sets itself, for values that are not
    JSON and, with a budget, for a member that may change the price of a call."""
    for name in _names(keywords):
        if name in _OURS:
            raise UsageError(f"option {name!r} cannot be set: {_OURS[name]}")
        if capped and name not in (*SAMPLING, *_SERVER_TOOLS, CACHES):
            raise UsageError(
                f"option {name!r} might change the cost of a call, so the budget could not be kept: leave out the "
                "option or the budget"
            )
    _check_tools(keywords, capped=capped)
    if CACHES in keywords and keywords[CACHES] not in _LIVES:
        raise UsageError(
            f"option {CACHES}={keywords[CACHES]!r}: caches are kept for five minutes, or for an hour: "
            'give {"type": "ephemeral", "ttl": "1h"}'
        )
    try:
        frozen = json_freeze_object(keywords, "options")
        wire_bytes(frozen)
    except NotJsonError as error:
        raise UsageError(str(error)) from error
    except RecursionError:
        raise UsageError("options: nested too deeply") from None
    return frozen


def _check_tools(keywords: Mapping[str, object], *, capped: bool) -> None:
    """Raise UsageError for tools that the provider does not run, and under a budget for those without a limit."""
    tools = keywords.get("tools", ())
    for fields in map(as_object, as_array(tools) or ((None,) if tools else ())):
        kind = as_str(fields.get("type"))
        if not fields:
            raise UsageError(
                "option 'tools': give a list of the provider's own tools, each an object as in its documentation, "
                'such as {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}'
            )
        if kind.startswith(_OURS_TO_RUN) or _DECLARES & {*fields}:
            raise UsageError(
                f"option 'tools': {kind or 'a function'} is not run by the provider, so nothing would answer it; "
                "only the provider's own tools, such as a web search, can be set here"
            )
    if capped:
        try:
            from sagent.cost.server_tools import most_uses  # few ask for them

            most_uses(keywords)
        except ValueError as error:
            raise UsageError(f"option 'tools': {error}, so the budget could not be kept") from None


def check_body(provider: str, body: Mapping[str, object], *, capped: bool) -> None:
    """Raise UsageError for a member of a person's own provider row that sagent sets itself, or, under a budget, that is
    known to raise the price. For unknown members, the row's author is responsible for the cost."""
    _check_tools(body, capped=capped)
    for name in _names(body):
        dearer = "a budget is counted at list prices; leave it out, or the budget" if capped and name in _DEARER else ""
        if why := _OURS.get(name, dearer):
            raise UsageError(f"body.{name} in [providers.{provider}] cannot be set: {why}")


def output_limit(parameters: Mapping[str, object]) -> int | None:
    """Return the output limit of a request with these parameters; None if it has none."""
    inner = (as_object(parameters.get(name)) for name in INNER)
    found = (as_int(place.get(name)) for place in (parameters, *inner) for name in _LIMITS)
    return next((limit for limit in found if limit), None)


def _names(members: Mapping[str, object]) -> list[str]:
    """Return the names of members, and of those of inner ones."""
    return sorted({*map(str, members), *(str(name) for inner in INNER for name in as_object(members.get(inner)))})
