"""Bills in the formats of providers: counts (nested, with OpenAI and its followers), tiers, stated prices."""

from collections.abc import Mapping
from decimal import Decimal

from sagent.lib.json import as_object
from sagent.lib.money import EXACT, TOO_MUCH, as_usd
from sagent.providers.wire.reply import count_of
from sagent.usage import Usage

_TICK = Decimal("1e-10")  # xAI's unit of money, in USD
_STANDARD = ("default", "standard", "auto", "on_demand")

_READ = ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens", "num_cached_tokens")
_WRITTEN = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
"""Gateways' names for written cache tokens, beside the input's count or in its details."""
_LIVES = ("cache_creation_token_details", "cache_creation")  # members that split them by lifetime: LiteLLM, Anthropic


def tokens_of(counts: Mapping[str, object]) -> Usage:
    """Return the tokens of a report of Chat Completions or Responses, with the mixed names of gateways, in disjoint
    buckets. Cached tokens count as part of the prompt, and reasoning as part of the completion, unless the counts prove
    otherwise."""
    details = as_object(counts.get("prompt_tokens_details") or counts.get("input_tokens_details"))
    thought = as_object(counts.get("completion_tokens_details") or counts.get("output_tokens_details"))
    prompt = first_count(counts.get("prompt_tokens"), counts.get("input_tokens"))
    prompt = prompt or sum(count_of(counts.get(f"prompt_cache_{which}_tokens")) for which in ("hit", "miss"))
    completion = first_count(counts.get("completion_tokens"), counts.get("output_tokens"))
    total = count_of(counts.get("total_tokens"))
    reasoning = first_count(thought.get("reasoning_tokens"), counts.get("reasoning_tokens"))
    if completion and not prompt:
        prompt = max(0, total - completion - (reasoning if reasoning > completion else 0))
    heard, said = (count_of(each.get("audio_tokens")) for each in (details, thought))
    if heard and total == prompt + completion + heard:
        prompt += heard  # Mistral counts audio separately
    if "market_cost" in counts and reasoning > completion and total == prompt + completion:
        completion += reasoning  # Vercel's gateway, which states a price, counts Gemini's thoughts separately
    lives = [lived(place.get(name)) for place in (details, counts) for name in _LIVES]
    hour = max(live[1] for live in lives)
    read = first_count(details.get("cached_tokens"), *map(counts.get, _READ))
    written = first_count(*map(details.get, _WRITTEN), counts.get(_WRITTEN[-1]), *map(sum, lives))
    if not (total or details or "prompt_tokens" in counts) and (_READ[2] in counts or _WRITTEN[-1] in counts):
        total = prompt + completion + read + written  # Anthropic's names: its input excludes cached tokens
    apart = total - prompt - completion if prompt or completion else 0  # a total alone says of neither how much it is
    outside = cache_outside(prompt, apart, read, written, reasoning)
    prompt, apart = prompt + outside, apart - outside
    if apart > 0 and reasoning in (0, apart):  # xAI, Google's compatible endpoint
        completion, reasoning = completion + apart, apart
    elif reasoning > completion and apart:  # not if the total has no room for it: OpenRouter
        completion += reasoning
    read = min(read, prompt)
    written = min(written, prompt - read)  # Gemini through OpenRouter counts the same tokens twice
    hour = min(hour, written)
    fees = {
        **source_fees(counts),
        "audio_input": heard,
        "audio_output": said,
        "image_output": count_of(thought.get("image_tokens")),
    }
    return Usage(
        input=prompt - read - written,
        cache_read=read,
        cache_write=written - hour,
        cache_write_1h=hour,
        output=completion,
        reasoning=min(reasoning, completion),
        fees={kind: count for kind, count in fees.items() if count},
    )


def lived(written: object) -> tuple[int, int]:
    """Return the written tokens kept for five minutes, and those kept for an hour."""
    short, hour = (count_of(as_object(written).get(f"ephemeral_{life}_input_tokens")) for life in ("5m", "1h"))
    return short, hour


def cache_outside(prompt: int, apart: int, read: int, written: int, reasoning: int) -> int:
    """Return the cached tokens outside the prompt, as gateways pass on Anthropic's counts. `apart` is the excess of the
    total over prompt and completion, which may also contain reasoning."""
    if max(read, written) > prompt:
        return read + written
    if apart == reasoning:
        return 0
    return next((part for part in (read + written, read, written) if part and apart - part in (0, reasoning)), 0)


def first_count(*values: object) -> int:
    """Return the first count that is not zero."""
    return next((count for value in values if (count := count_of(value))), 0)


def tier_named(tier: str) -> str:
    """Return a service tier, "" for the standard one under any of its names."""
    return "" if tier in _STANDARD else tier


def own_price(usage: Mapping[str, object], event: Mapping[str, object]) -> Decimal | None:
    """Return a provider's own price in USD: in the usage (OpenRouter, Perplexity, xAI), or next to it (Venice).

    With the user's own upstream key at OpenRouter it is only the gateway's share; the upstream provider bills the rest.
    0 from any other gateway means an unknown price.
    """
    if usd := _usd(usage.get("cost_in_usd_ticks")):
        return EXACT.multiply(usd, _TICK)
    found = [usd for cost in (usage.get("cost"), event.get("cost")) if (usd := _usd(cost)) is not None]
    if not found or usage.get("is_byok") is not True:
        return found[-1] if found and (found[-1] or "is_byok" in usage) else None
    upstream = _usd(as_object(usage.get("cost_details")).get("upstream_inference_cost"))
    return None if upstream is None else EXACT.add(found[-1], upstream)


def source_fees(usage: Mapping[str, object]) -> Mapping[str, int]:
    """Count the uses of xAI's searches and other server tools, by kind. (A price that xAI reports includes them.)"""
    counts = {"search_source": usage.get("num_sources_used"), "server_tool": usage.get("num_server_side_tools_used")}
    return {kind: count for kind, value in counts.items() if (count := count_of(value))}


def _usd(cost: object) -> Decimal | None:
    """Return a number (OpenRouter), or an object (Perplexity's `total_cost`, Venice's `usd`)."""
    fields = as_object(cost)
    usd = as_usd(fields.get("total_cost", fields.get("usd")) if fields else cost)
    return min(usd, TOO_MUCH) if usd is not None and usd >= 0 else None
