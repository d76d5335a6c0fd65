"""Usage that proves where its parts are counted, and that an error does not change, in every family."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import ModelError
from sagent.model import Billed, Delta
from sagent.plugins.clouds.converse_events import ConverseReplyReader
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.families.google.events import GenerateReplyReader
from sagent.providers.families.responses.events import ResponsesReplyReader
from sagent.providers.wire.faults import Origin, from_event
from sagent.usage import Usage

ORIGIN = Origin("gateway", "openai.m")
COUNTS = st.integers(1, 50_000)


def chat(usage: dict[str, object]) -> Usage:
    return read(ChatReplyReader(ORIGIN, "f"), {"choices": [], "usage": usage})


def responses(usage: dict[str, object]) -> Usage:
    answer: dict[str, object] = {"id": "r", "object": "response", "status": "completed", "output": [], "usage": usage}
    return read(ResponsesReplyReader(ORIGIN, "f"), {"type": "response.completed", "response": answer})


def google(usage: dict[str, object]) -> Usage:
    return read(GenerateReplyReader(ORIGIN, "f"), {"candidates": [], "usageMetadata": usage})


def converse(usage: dict[str, object]) -> Usage:
    return read(ConverseReplyReader(ORIGIN, "f"), {"metadata": {"usage": usage}})


def messages(usage: dict[str, object]) -> Usage:
    return read(MessagesReplyReader(ORIGIN, "f"), {"type": "message_delta", "delta": {}, "usage": usage})


def read(
    reader: MessagesReplyReader | ChatReplyReader | ResponsesReplyReader | GenerateReplyReader | ConverseReplyReader,
    event: dict[str, object],
) -> Usage:
    out = list[Delta]()
    reader.feed(event, out)
    (charge,) = reader.charges()
    return charge.usage


def chat_usage(prompt: int, completion: int, total: int, read: int, written: int) -> dict[str, object]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": read},
        "cache_creation_input_tokens": written,
    }


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_total_proves_cache_outside_prompt(prompt: int, completion: int, cached: int, written: int) -> None:
    total = prompt + completion + cached + written
    true = Usage(prompt, cached, written, output=completion)
    assert chat(chat_usage(prompt, completion, total, cached, written)) == true
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    counts = {"input_tokens": prompt, "output_tokens": completion, "total_tokens": total}
    assert responses({**counts, "input_tokens_details": details}) == true
    sizes = {"inputTokens": prompt, "outputTokens": completion, "totalTokens": total}
    assert converse({**sizes, "cacheReadInputTokens": cached, "cacheWriteInputTokens": written}) == true


@pytest.mark.parametrize("model", ["anthropic.m", "amazon.m", "openai.m"])
@given(COUNTS, COUNTS, COUNTS, COUNTS, st.integers(1, 9))
def test_converse_total_outweighs_model(
    model: str, said: int, completion: int, cached: int, written: int, off: int
) -> None:
    def told(prompt: int, total: int) -> Usage:
        reader, sizes = (
            ConverseReplyReader(Origin("gateway", model), "f"),
            {"inputTokens": prompt, "totalTokens": total},
        )
        cache = {"cacheReadInputTokens": cached, "cacheWriteInputTokens": written}
        reader.feed({"metadata": {"usage": {**sizes, **cache, "outputTokens": completion}}}, [])
        (charge,) = reader.charges()
        return charge.usage

    prompt, true = said + cached + written, Usage(said, cached, written, output=completion)
    assert told(prompt, prompt + completion) == true
    assert told(said, prompt + completion) == true
    usual = true if model == "openai.m" else Usage(prompt, cached, written, output=completion)
    for total in (0, off, prompt + completion - off):  # proves nothing
        assert told(prompt, total) == usual


@given(COUNTS, COUNTS, COUNTS)
def test_total_proves_read_cache_outside(prompt: int, completion: int, cached: int) -> None:
    total = prompt + completion + cached
    true = Usage(prompt, cached, output=completion)
    assert chat(chat_usage(prompt, completion, total, cached, 0)) == true
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": completion, "totalTokenCount": total}
    assert google({**counts, "cachedContentTokenCount": cached}) == true


@given(COUNTS, st.integers(0, 100), st.integers(0, 100), COUNTS)
def test_cache_inside_prompt_stays_inside(prompt: int, share: int, part: int, completion: int) -> None:
    cached = prompt * share // 100
    written = (prompt - cached) * part // 100
    total = prompt + completion
    true = Usage(prompt - cached - written, cached, written, output=completion)
    assert chat(chat_usage(prompt, completion, total, cached, written)) == true
    assert chat(chat_usage(prompt, completion, 0, cached, written)) == true


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_cache_and_reasoning_outside_prompt(prompt: int, completion: int, cached: int, thought: int) -> None:
    total = prompt + completion + cached + thought
    usage = chat_usage(prompt, completion, total, cached, 0)
    found = chat({**usage, "completion_tokens_details": {"reasoning_tokens": thought}})
    assert found == Usage(prompt, cached, output=completion + thought, reasoning=thought)


@pytest.mark.parametrize("total", [0, 736])
def test_reasoning_above_completion_is_added(total: int) -> None:
    counts = {"prompt_tokens": 36, "completion_tokens": 10, "total_tokens": total}
    true = Usage(36, output=700, reasoning=690)
    assert chat({**counts, "completion_tokens_details": {"reasoning_tokens": 690}}) == true
    counts = {"input_tokens": 36, "output_tokens": 10, "total_tokens": total}
    assert responses({**counts, "output_tokens_details": {"reasoning_tokens": 690}}) == true


def test_cache_above_prompt_is_added() -> None:
    assert google({"promptTokenCount": 9, "candidatesTokenCount": 2, "cachedContentTokenCount": 500}) == Usage(
        9, 500, output=2
    )
    assert responses({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 500}}) == Usage(
        9, 500, output=2
    )


def test_total_proves_reasoning_miscounted() -> None:
    counts = {"prompt_tokens": 15, "completion_tokens": 256, "total_tokens": 271}
    found = chat({**counts, "completion_tokens_details": {"reasoning_tokens": 271}})
    assert found == Usage(15, output=256, reasoning=256)


@pytest.mark.parametrize("wrong", [{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}, {"cost": 9}])
@pytest.mark.parametrize("broken", [{"error": {"code": "tool_use_failed"}}, {"choices": [{"finish_reason": "error"}]}])
def test_error_chunk_keeps_earlier_usage(wrong: dict[str, object], broken: dict[str, object]) -> None:
    reader, out = ChatReplyReader(ORIGIN, "f"), list[Delta]()
    reader.feed({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 7, "cost": 0.25}}, out)
    told = reader.charges()
    if "error" in broken:
        reader.failed({**broken, "usage": wrong}, out)
    else:
        with pytest.raises(ModelError):
            reader.feed({**broken, "usage": wrong}, out)
    assert reader.charges() == told


def test_error_event_adds_untold_counts_only() -> None:
    messages, out = MessagesReplyReader(ORIGIN), list[Delta]()
    messages.feed({"type": "message_start", "message": {"usage": {"input_tokens": 90}}}, out)
    messages.failed({"type": "error", "usage": {"input_tokens": 1, "output_tokens": 7}}, out)
    assert [charge.usage for charge in messages.charges()] == [Usage(90, output=7)]
    gemini = GenerateReplyReader(ORIGIN, "f")
    gemini.feed({"usageMetadata": {"promptTokenCount": 90, "candidatesTokenCount": 7}}, out)
    gemini.failed({"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 500}}, out)
    assert [charge.usage for charge in gemini.charges()] == [Usage(90, output=7)]


QUOTED = {"raw": '{"error":{"message":"No.","code":"tool_use_failed","failed_generation":"<fn>"}}'}


@pytest.mark.parametrize(
    "failed",
    [
        {"code": "tool_use_failed"},
        {"message": "No.", "failed_generation": "<fn>"},
        {"message": "Failed to call a function. Please adjust your prompt.", "type": "invalid_request_error"},
        {"message": "Provider returned error", "code": 400, "metadata": QUOTED},
        {"message": "tool_use_failed"},
    ],
)
def test_failed_generation_has_own_kind(failed: dict[str, object]) -> None:
    for event in ({"error": {**failed, "status_code": 400}}, {"error": failed}):
        error = from_event(ORIGIN, event)
        assert (error.kind, error.retryable, error.max_retries, error.sent) == ("generation", True, 2, True)
    reader = ChatReplyReader(ORIGIN, "f")
    with pytest.raises(ModelError) as raised:
        reader.feed({"x_groq": {"error": failed}}, [])
    assert raised.value.kind == "generation"


PARTIAL: Mapping[str, Sequence[dict[str, object]]] = {  # events of a short reply whose counts are of a part of it
    "anthropic, at the start": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 900, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ],
    "anthropic, smaller at the end": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 900, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}},
        {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 90, "output_tokens": 40}},
    ],
    "anthropic, of the cache alone": [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}},
        {"type": "message_delta", "delta": {}, "usage": {"cache_read_input_tokens": 90, "output_tokens": 40}},
    ],
    "chat, with the first piece": [
        {"choices": [{"delta": {"content": "Y"}}], "usage": {"prompt_tokens": 900, "completion_tokens": 1}},
        {"choices": [{"delta": {"content": "es."}, "finish_reason": "stop"}]},
    ],
    "chat, smaller at the end": [
        {"choices": [{"delta": {"content": "Yes."}}], "usage": {"prompt_tokens": 900, "completion_tokens": 40}},
        {"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 1}},
    ],
    "chat, of the cache alone": [
        {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens_details": {"cached_tokens": 90}, "completion_tokens": 40}},
    ],
    "google, with the first piece": [
        {
            "candidates": [{"content": {"parts": [{"text": "Y"}]}}],
            "usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 1},
        },
        {"candidates": [{"content": {"parts": [{"text": "es."}]}, "finishReason": "STOP"}]},
    ],
    "responses, of the cache alone": [
        {
            "type": "response.completed",
            "response": {
                "status": "completed",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}],
                "usage": {"input_tokens_details": {"cached_tokens": 90}, "output_tokens": 40},
            },
        },
    ],
    "converse, of the cache alone": [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Yes."}}},
        {"metadata": {"usage": {"cacheReadInputTokens": 90, "outputTokens": 40}}},
    ],
}
READERS = {
    "anthropic": MessagesReplyReader,
    "chat": ChatReplyReader,
    "responses": ResponsesReplyReader,
    "google": GenerateReplyReader,
    "converse": ConverseReplyReader,
}


@pytest.mark.parametrize("name", PARTIAL)
def test_counts_of_part_are_estimates(name: str) -> None:
    family = name.partition(",")[0]
    reader, out = READERS[family](ORIGIN, family), list[Delta]()
    for event in PARTIAL[name]:
        reader.feed(event, out)
    _, charges = reader.bill(3_000)
    assert all(charge.estimated for charge in charges)
    freeing = [charge for delta in out if isinstance(delta, Billed) for charge in delta.charges if not charge.estimated]
    assert all(charge.usage.total_input == 900 for charge in freeing)  # a count that is too small frees no money


def test_last_or_growing_counts_are_whole() -> None:
    chat, google, whole = (
        ChatReplyReader(ORIGIN, "f"),
        GenerateReplyReader(ORIGIN, "f"),
        MessagesReplyReader(ORIGIN, "f"),
    )
    for said in (1, 2):
        usage = {"prompt_tokens": 900, "completion_tokens": said}
        chat.feed({"choices": [{"delta": {"content": "Yes. "}}], "usage": usage}, [])
        counts = {"promptTokenCount": 900, "candidatesTokenCount": said}
        google.feed({"candidates": [{"content": {"parts": [{"text": "Yes. "}]}}], "usageMetadata": counts}, [])
    content: list[object] = [{"type": "text", "text": "Yes."}]
    whole.whole({"type": "message", "content": content, "usage": {"input_tokens": 900, "output_tokens": 2}}, [])
    for reader in (chat, google, whole):
        usage_told, (charge,) = reader.bill(3_000)
        assert (usage_told.input, usage_told.output, charge.estimated) == (900, 2, False)


def test_total_alone_is_no_output() -> None:
    assert chat({"total_tokens": 9_000}).output == 0
    assert responses({"total_tokens": 9_000}).output == 0


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_responses_cache_in_messages_names(prompt: int, completion: int, cached: int, written: int) -> None:
    total = prompt + completion + cached + written
    counts: dict[str, object] = {"input_tokens": prompt, "output_tokens": completion, "total_tokens": total}
    cache: dict[str, object] = {"cache_read_input_tokens": cached, "cache_creation_input_tokens": written}
    assert responses({**counts, **cache}) == Usage(prompt, cached, written, output=completion)


@given(COUNTS, COUNTS, COUNTS)
def test_total_proves_thoughts_inside(prompt: int, said: int, thoughts: int) -> None:
    counts: dict[str, object] = {"promptTokenCount": prompt, "candidatesTokenCount": said + thoughts}
    inside = google({**counts, "thoughtsTokenCount": thoughts, "totalTokenCount": prompt + said + thoughts})
    assert inside == Usage(prompt, output=said + thoughts, reasoning=thoughts)
    outside = google({**counts, "thoughtsTokenCount": thoughts, "totalTokenCount": prompt + said + 2 * thoughts})
    assert outside == Usage(prompt, output=said + 2 * thoughts, reasoning=thoughts)


@pytest.mark.parametrize("name", ["thinking_tokens", "reasoning_tokens"])
def test_messages_reasoning_above_output(name: str) -> None:
    counts: dict[str, object] = {"input_tokens": 36, "output_tokens": 10, "output_tokens_details": {name: 690}}
    assert messages(counts) == Usage(36, output=700, reasoning=690)
    assert messages({**counts, "output_tokens": 700}) == Usage(36, output=700, reasoning=690)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_messages_names_exclude_cache(said: int, output: int, cached: int, written: int) -> None:
    counts: dict[str, object] = {"input_tokens": said, "output_tokens": output}
    cache: dict[str, object] = {"cache_read_input_tokens": cached, "cache_creation_input_tokens": written}
    for read_usage in (chat, responses, messages):
        assert read_usage({**counts, **cache}) == Usage(said, cached, written, output=output)
        inside = {**counts, "input_tokens": said + cached + written, "total_tokens": said + cached + written + output}
        assert read_usage({**inside, **cache}) == Usage(said, cached, written, output=output)


@given(COUNTS, COUNTS)
def test_cache_writes_found_by_lives_only(short: int, hour: int) -> None:
    lives: dict[str, object] = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": hour}
    told = messages({"input_tokens": 9, "output_tokens": 1, "cache_creation": lives})
    assert told == Usage(9, 0, short, hour, output=1)
    counts: dict[str, object] = {"prompt_tokens": 9 + short + hour, "completion_tokens": 1}
    for place in ({"cache_creation": lives}, {"prompt_tokens_details": {"cache_creation_token_details": lives}}):
        for read_usage in (chat, responses):
            assert read_usage({**counts, **place}) == Usage(9, 0, short, hour, output=1)
    details = [{"ttl": "5m", "inputTokens": short}, {"ttl": "1h", "inputTokens": hour}]
    total = 10 + short + hour  # proves that the nine are beside what was written
    told = converse({"inputTokens": 9, "outputTokens": 1, "totalTokens": total, "cacheDetails": details})
    assert told == Usage(9, 0, short, hour, output=1)


def test_responses_usage_in_chat_names() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 300}}
    counts: dict[str, object] = {"prompt_tokens": 100, "completion_tokens": 10, **details}
    assert responses(counts) == chat(counts) == Usage(36, 64, output=310, reasoning=300)


def test_missing_prompt_is_total_minus_rest() -> None:
    assert chat({"completion_tokens": 10, "total_tokens": 110}) == Usage(100, output=10)
    assert responses({"output_tokens": 10, "total_tokens": 110}) == Usage(100, output=10)
    parts: dict[str, object] = {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36, "completion_tokens": 10}
    assert chat(parts) == Usage(36, 64, output=10)
