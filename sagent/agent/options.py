"""Request options: members of a provider's own request body that a caller sets, such as {"temperature": 0.2}."""

from collections.abc import Mapping

from sagent.cost.prices import CACHES
from sagent.errors import UsageError
from sagent.lib.json import JsonObject, as_int, as_object, json_freeze_object, wire_bytes

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_OURS = {
    **dict.fromkeys(("model", "fallbacks", "models"), "set by model"),
    **dict.fromkeys(("messages", "input", "contents", "prompt"), "the conversation"),
    **dict.fromkeys(("system", "instructions", "systemInstruction"), "set by system"),
    **dict.fromkeys(("tools", "betas"), "set by tools; a provider's own tools cannot be asked for yet"),
    **dict.fromkeys(("stream", "stream_options", "background"), "always a stream"),
    **dict.fromkeys(_LIMITS, "set by max_response_tokens"),
    **dict.fromkeys(("n", "best_of", "candidateCount", "candidate_count"), "always one answer"),
}
SAMPLING = {
    *("temperature", "top_p", "top_k", "top_a", "min_p", "typical_p", "topP", "topK", "do_sample", "seed"),
    *("stop", "stop_sequences", "stopSequences", "frequency_penalty", "presence_penalty", "frequencyPenalty"),
    *("presencePenalty", "repetition_penalty", "repeat_penalty", "no_repeat_ngram_size", "logit_bias"),
    *("user", "metadata", "safety_identifier", "safetySettings", "verbosity", "parallel_tool_calls"),
    *("generationConfig", "chat_template_kwargs"),
}
"""Members that leave a token's price and the bound of an answer as they are."""
_LIVES = ({"type": "ephemeral"}, *({"type": "ephemeral", "ttl": ttl} for ttl in ("5m", "1h")))
_DEARER = ("cache_control", "service_tier", "serviceTier", "speed", "plugins", "web_search_options", "server_tools")


def read_options(given: Mapping[str, object], *, capped: bool) -> JsonObject:
    """Options as they are sent. Raises UsageError for a member that sagent sets itself, for what is not JSON, and under
    a cap for one that is not known to leave the price of a call as it is."""
    for name in _names(given):
        if name in _OURS:
            raise UsageError(f"option {name!r} cannot be set: {_OURS[name]}")
        if capped and name not in (*SAMPLING, CACHES):
            raise UsageError(
                f"option {name!r} might change what a call costs, so the cap on spending could not be kept: leave out "
                "the option, or the cap"
            )
    if CACHES in given and given[CACHES] not in _LIVES:
        raise UsageError(
            f"option {CACHES}={given[CACHES]!r}: caches are kept for five minutes, or for an hour: "
            'give {"type": "ephemeral", "ttl": "1h"}'
        )
    try:
        frozen = json_freeze_object({**given})
        wire_bytes(frozen)
    except (TypeError, ValueError) as error:
        raise UsageError(f"options: {error}") from error
    return frozen


def check_body(provider: str, body: Mapping[str, object], *, capped: bool) -> None:
    """Raise UsageError for a member of a person's own provider row that sagent sets itself, or that is known to cost
    more than list prices say and a cap holds. Of members that nobody knows the row's author knows what they cost."""
    for name in _names(body):
        dearer = "a cap reckons with list prices; leave it out, or the cap" if capped and name in _DEARER else ""
        if why := _OURS.get(name, dearer):
            raise UsageError(f"body.{name} in [providers.{provider}] cannot be set: {why}")


def output_limit(parameters: Mapping[str, object]) -> int | None:
    """The most tokens that a request with these parameters asked for; None where it named no limit."""
    inner = as_object(parameters.get("generationConfig"))
    found = (as_int(place.get(name)) for place in (parameters, inner) for name in _LIMITS)
    return next((limit for limit in found if limit), None)


def _names(members: Mapping[str, object]) -> list[str]:
    """The names of members, and of those of `generationConfig`."""
    inner = members.get("generationConfig")
    return sorted({*map(str, members), *(map(str, as_object(inner)))})
