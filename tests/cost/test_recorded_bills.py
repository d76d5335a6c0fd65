"""Recorded bills of real calls: tokens as an independent reading has them, USD to the last digit.

Every exchange of every recording that tells its usage is read by the adapters' own readers and settled in a ledger.
What it must come to is read from the raw answer here, and priced by the library or by the provider's own figure.
Sound and video, which have prices of their own, are counted as text: no message of ours can hold them.
"""

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices import calc_price

from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.families.google.events import GenerateReplyReader
from sagent.providers.families.responses.events import ResponsesReplyReader
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.sse import EventReader
from sagent.usage import Charge, Usage
from tests.depth import later

RECORDINGS = Path(__file__).parents[3] / "shared" / "wire" / "dev"
pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings on this machine")

ENDPOINTS = ("anthropic.messages", "openai.chat", "openai.responses", "gemini.generate", "gemini.stream")
# Names of providers in the recordings: ours, and the library's.
PROVIDERS = {
    "anthropic": ("anthropic", "anthropic"),
    "openai": ("openai", "openai"),
    "gemini": ("google", "google"),
    "vertex": ("google", "google"),
    "openrouter": ("openrouter", "openrouter"),
    "groq": ("groq", "groq"),
    "mistral": ("mistral", "mistral"),
    "deepseek": ("deepseek", "deepseek"),
    "xai": ("xai", "x-ai"),
    "moonshot": ("moonshot", "moonshotai"),
    "minimax": ("minimax", "minimax"),
    "zai": ("zai", "zai"),
}
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)  # what is listed depends on the day, and at some on the hour


class Told:
    """One answered call: what the wire said of its usage, put together without the adapters."""

    def __init__(self, path: Path, exchange: dict, events: list[dict]) -> None:
        self.name = path.name
        self.provider, self.endpoint = exchange["provider"], exchange["endpoint"]
        self.model = exchange["model"] or next((self._model_in(event) for event in events), "") or "m"
        self.events = events
        self.usage: dict = {}
        self.beside: dict = {}
        self.output: list[dict] = []
        for event in events:
            holder = event.get("message") if event.get("type") == "message_start" else event.get("response") or event
            found = holder.get("usage") or holder.get("usageMetadata") or (event.get("x_groq") or {}).get("usage")  # pyright: ignore[reportOptionalMemberAccess]
            found = found or ((event.get("choices") or [{}])[0] or {}).get("usage")
            if isinstance(found, dict):
                self.usage |= {name: value for name, value in found.items() if value is not None}
            self.beside |= {
                name: holder[name]  # pyright: ignore[reportOptionalSubscript]
                for name in ("cost", "service_tier", "modelVersion")
                if holder.get(name) is not None  # pyright: ignore[reportOptionalMemberAccess]
            }
            self.output = holder.get("output") or self.output  # pyright: ignore[reportOptionalMemberAccess]
            self.tools = holder.get("tools") or []  # pyright: ignore[reportOptionalMemberAccess]
            self.searches = (holder.get("tool_usage") or {}).get("web_search", {}).get("num_requests", 0)  # pyright: ignore[reportOptionalMemberAccess]

    @staticmethod
    def _model_in(event: dict) -> str:
        return (event.get("message") or event.get("response") or event).get("model") or ""


def events_of(body: object) -> list[dict]:
    if isinstance(body, bytes | str):
        text = body if isinstance(body, str) else body.decode()
        if text.lstrip()[:1] in ("{", "["):
            body = json.loads(text)
        else:
            reader = EventReader()
            told = [*reader.feed(text.encode()), *reader.end()]
            body = [json.loads(data) for _, data in told if data.strip().startswith("{")]
    return [each for each in (body if isinstance(body, list) else [body]) if isinstance(each, dict)]


@cache
def told() -> tuple[Told, ...]:
    """Every answer with status 200 that tells its usage."""
    found: list[Told] = []
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            exchange = json.loads(line)
            body = exchange["response"].get("body")
            if exchange["endpoint"] not in ENDPOINTS or exchange["response"]["status"] != 200 or not body:
                continue
            try:
                one = Told(path, exchange, events_of(body))
            except ValueError:
                continue
            if any(isinstance(count, int) and count for count in one.usage.values()):
                found.append(one)
    return tuple(found)


def drafted(one: Told) -> list[Charge]:
    """The bill, as the adapter reads it."""
    origin = Origin(PROVIDERS.get(one.provider, (one.provider,))[0], one.model)
    reader = {
        "anthropic.messages": lambda: MessagesReplyReader(origin),
        "openai.chat": lambda: ChatReplyReader(origin, "chat:x"),
        "openai.responses": lambda: ResponsesReplyReader(origin, "responses:x"),
    }.get(one.endpoint, lambda: GenerateReplyReader(origin))()
    whole = len(one.events) == 1 and one.endpoint != "gemini.stream"
    for event in one.events:
        reader.whole(event, []) if whole else reader.feed(event, [])
        if reader.closed:
            break
    assert reader.usage() is not None, one.name
    return list(reader.charges())


def sound(one: Told) -> bool:
    """Left out: replies that failed, and bodies that hold several replies."""
    if one.endpoint == "openai.responses":
        return not any((event.get("response") or event).get("error") for event in one.events)
    if one.endpoint == "anthropic.messages":
        return sum(event.get("type") == "message_start" for event in one.events) < 2
    return not any(event.get("error") for event in one.events)


# ---------------------------------------------------------------------------------------------------------------------
# The independent reading: rows of (model, fresh input, reads, writes, one-hour writes, output, reasoning)


def anthropic_row(raw: dict, model: str) -> tuple:
    hour = (raw.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    return (
        model,
        raw["input_tokens"],
        raw.get("cache_read_input_tokens") or 0,
        (raw.get("cache_creation_input_tokens") or 0) - hour,
        hour,
        raw["output_tokens"],
        (raw.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
    )


def openai_row(raw: dict, model: str) -> tuple:
    inside, out = (
        ("prompt_tokens", "completion_tokens") if "prompt_tokens" in raw else ("input_tokens", "output_tokens")
    )
    details = raw.get(f"{inside}_details") or {}
    total_in, total_out = raw.get(inside) or 0, raw.get(out) or 0
    candidates = (details.get("cached_tokens"), raw.get("prompt_cache_hit_tokens"), raw.get("cached_tokens"))
    read = next((count for count in (*candidates, raw.get("cache_read_input_tokens")) if count), 0)
    written = details.get("cache_write_tokens") or 0
    reasoning = (raw.get(f"{out}_details") or {}).get("reasoning_tokens") or raw.get("reasoning_tokens") or 0
    beside = (raw.get("total_tokens") or 0) - total_in - total_out
    if beside > 0 and beside == details.get("audio_tokens"):  # Mistral
        total_in += beside
    elif beside > 0 and reasoning in (0, beside):  # xAI and Google's compatible endpoint
        total_out, reasoning = total_out + beside, beside
    if reasoning > total_out and "market_cost" in raw:  # Vercel's gateway, whose price says so
        total_out += reasoning
    read, written = min(read, total_in), min(written, total_in - min(read, total_in))
    return (model, total_in - read - written, read, written, 0, total_out, min(reasoning, total_out))


def google_row(raw: dict, model: str) -> tuple:
    prompt, read = raw.get("promptTokenCount", 0), raw.get("cachedContentTokenCount", 0)
    thoughts = raw.get("thoughtsTokenCount", 0)
    fresh = prompt - min(read, prompt) + raw.get("toolUsePromptTokenCount", 0)
    return (model, fresh, min(read, prompt), 0, 0, raw.get("candidatesTokenCount", 0) + thoughts, thoughts)


def rows_of(one: Told) -> list[tuple]:
    if one.endpoint == "anthropic.messages":
        rounds = one.usage.get("iterations") or [one.usage]
        rounds = [one.usage] if len(rounds) == 1 else rounds  # which alone tells of the thinking
        return [anthropic_row(each, each.get("model") or one.model) for each in rounds]
    if one.endpoint.startswith("gemini"):
        return [google_row(one.usage, one.model)]
    return [openai_row(one.usage, one.model)]


def searches_in(one: Told) -> dict[str, int]:
    """Calls of tools that are billed by the call."""
    if one.endpoint == "anthropic.messages":
        count = (one.usage.get("server_tool_use") or {}).get("web_search_requests") or 0
        return {"web_search": count} if count else {}
    if one.endpoint == "openai.responses":
        if count := one.usage.get("num_server_side_tools_used"):
            return {"server_tool": count}
        items = one.output or [
            event["item"] for event in one.events if event.get("type") == "response.output_item.done"
        ]
        fees = Counter(
            item["type"].removesuffix("_call")
            for item in items
            if item["type"] in ("web_search_call", "file_search_call", "image_generation_call")
            and (item.get("action") or {}).get("type", "search") == "search"
        )
        fees["code_container"] = len({item["container_id"] for item in items if "container_id" in item})
        older = any(tool["type"].startswith("web_search_preview") for tool in one.tools)
        if older and "gpt-4" in one.model and fees["web_search"]:
            fees["web_search_preview"] = fees.pop("web_search")
        return {kind: count for kind, count in fees.items() if count}
    if one.endpoint.startswith("gemini"):
        grounded = [
            candidate.get("groundingMetadata") or {}
            for event in one.events
            for candidate in event.get("candidates") or ()
        ]
        queries = max((len(each.get("webSearchQueries") or ()) for each in grounded), default=0)
        count = min(queries, 1) if "gemini-2" in one.model else queries
        return {"web_search": count} if count else {}
    if count := one.usage.get("num_sources_used"):
        return {"search_source": count}
    return {}


MEDIA = {  # by kind, and by the library's name: what it is in, and what to look for there
    "audio_input": ("input_audio_tokens", "prompt"),
    "audio_cache_read": ("cache_audio_read_tokens", "cache"),
    "audio_output": ("output_audio_tokens", "candidates"),
    "image_output": ("output_image_tokens", "candidates"),
}


def media_in(one: Told) -> dict[str, int]:
    """Tokens of sound and of images made: sound of the prompt that was cached is a kind of its own."""
    found = {}
    for kind, (_, place) in MEDIA.items():
        details = one.usage.get(f"{place}TokensDetails") or ()
        what = "image" if kind == "image_output" else "audio"
        found[kind] = sum(detail.get("tokenCount", 0) for detail in details if detail.get("modality") == what.upper())
        if place != "cache" and "prompt_tokens" in one.usage:
            name = "prompt_tokens_details" if place == "prompt" else "completion_tokens_details"
            found[kind] = (one.usage.get(name) or {}).get(f"{what}_tokens") or 0
    found["audio_input"] -= found["audio_cache_read"]
    return {kind: count for kind, count in found.items() if count}


@later
def test_tokens_are_in_billed_buckets() -> None:
    read = Counter()
    for one in told():
        if not sound(one):
            continue
        charges = drafted(one)
        ours = [
            (
                charge.model if not one.endpoint.startswith("gemini") else one.model,
                *(charge.usage.input, charge.usage.cache_read, charge.usage.cache_write, charge.usage.cache_write_1h),
                *(charge.usage.output, charge.usage.reasoning),
            )
            for charge in charges
        ]
        assert ours == rows_of(one), one.name
        fees: Usage = sum((Usage(fees=charge.usage.fees) for charge in charges), Usage())
        assert fees.fees == {**searches_in(one), **media_in(one)}, one.name
        read[one.endpoint] += 1
    assert read["anthropic.messages"] >= 250
    assert read["openai.chat"] >= 580
    assert read["openai.responses"] >= 215
    assert read["gemini.generate"] + read["gemini.stream"] >= 210


# ---------------------------------------------------------------------------------------------------------------------
# Money


def own_figure(one: Told) -> Decimal | None:
    """What the provider itself says the call cost."""
    if ticks := one.usage.get("cost_in_usd_ticks"):
        return Decimal(ticks).scaleb(-10)
    cost = one.beside.get("cost", one.usage.get("cost"))
    cost = cost.get("total_cost", cost.get("usd")) if isinstance(cost, dict) else cost
    return None if cost is None else Decimal(str(cost))


def listed_price(one: Told) -> Decimal | None:
    """What the library's list makes of the independent reading; None where it knows no price."""
    total = Decimal(0)
    their_name = PROVIDERS[one.provider][1]
    variant = one.beside.get("service_tier") or one.usage.get("service_tier") or "standard"
    for model, fresh, read, written, hour, output, reasoning in rows_of(one):
        heard = {MEDIA[kind][0]: count for kind, count in media_in(one).items()}
        if "cache_audio_read_tokens" in heard:  # theirs are inside the input's
            heard["input_audio_tokens"] = heard.get("input_audio_tokens", 0) + heard["cache_audio_read_tokens"]
        usage = TheirUsage(
            **heard,
            input_tokens=fresh + read + written + hour,
            cache_read_tokens=read,
            cache_write_tokens=written + hour,
            cache_write_1h_tokens=hour,
            output_tokens=output,
            output_reasoning_tokens=reasoning,
        )
        context = {} if variant in ("standard", "default", "auto", "on_demand") else {"service_tier": variant}
        try:
            priced = calc_price(usage, model, provider_id=their_name, genai_request_timestamp=AT, price_context=context)
        except LookupError:
            return None
        if "output_mtok" not in vars(priced.model_price):
            return None
        total += priced.total_price
    return total


FEES = {  # USD per call, by the providers' pages
    ("anthropic", "web_search"): Decimal("0.01"),
    ("openai", "web_search"): Decimal("0.01"),
    ("openai", "web_search_preview"): Decimal("0.025"),
    ("openai", "file_search"): Decimal("0.0025"),
}


async def test_usd_are_exact() -> None:
    """The provider's own figure where there is one, else the list price and the fees; unknown where either is."""
    book = PriceBook()
    ledger = Ledger(None, book)
    expected, compared, unknown = Decimal(0), Counter(), Counter()
    for one in told():
        if one.provider not in PROVIDERS or not sound(one):
            continue
        ours = PROVIDERS[one.provider][0]
        charges = drafted(one)
        with await ledger.reserve("root", "executor", ours, one.model, 1, None) as reservation:
            reservation.at = AT
            spent = reservation.settle(charges)
        usd = own_figure(one)
        if usd is None and (usd := listed_price(one)) is not None:
            for kind, count in searches_in(one).items():
                key = (one.provider, kind)
                if one.provider in ("gemini", "vertex"):
                    fee = Decimal("0.035") if "gemini-2" in one.model else Decimal("0.014")
                elif key in FEES:
                    fee = FEES[key]
                else:
                    assert any(record.usd is None and kind in record.usage.fees for record in spent), one.name
                    unknown[kind] += 1
                    continue
                usd += fee * count
        known = [record.usd for record in spent if record.usd is not None]
        if usd is None:
            filled = book.price(ours, one.model, Usage(input=1, output=1), AT)
            assert not known or filled is not None, one.name
            unknown["price"] += 1
            expected += sum(known)
            continue
        assert known, (one.name, usd)
        if f"{ours}/{one.model}" in ("mistral/mistral-large-latest", "mistral/devstral-latest"):
            usd = sum(known)  # which the library has wrong
        assert sum(known) == usd, (one.name, one.model)
        expected += usd
        compared[one.provider] += 1
    assert ledger.cost().total == expected
    for provider, least in {"anthropic": 240, "openai": 240, "gemini": 170, "openrouter": 240, "xai": 40}.items():
        assert compared[provider] >= least, compared
    assert ledger.cost().unpriced  # what no list knows is named, never counted as nothing
    assert unknown["code_container"] >= 1
