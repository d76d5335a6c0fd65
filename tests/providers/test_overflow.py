"""The numbers in what providers say when a request does not fit, in the words they use."""

import json

import pytest

from sagent.providers.wire.faults import Origin, from_event, from_status
from sagent.providers.wire.overflow import max_output_in, sizes_in


@pytest.mark.parametrize(
    ("words", "window", "tokens"),
    [
        ("prompt is too long: 208310 tokens > 200000 maximum", 200_000, 208_310),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease it", 200_000, 188_240),
        (("This model's maximum context length is 16384 tokens. However, you requested 122946 tokens "
          "(112946 in the messages, 10000 in the completion). Please reduce the length."), 16_384, 112_946),
        (("This model's maximum context length is 8192 tokens. However, you requested 9300 tokens "
          "(8800 in the messages, 200 in the functions, 300 in the completion)."), 8_192, 9_000),
        ("maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", 8_192, 9_000),
        (("This model's maximum context length is 4097 tokens, however you requested 4116 tokens "
          "(3860 in your prompt; 256 for  the completion). Please reduce your prompt."), 4_097, 3_860),
        (("This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and "
          "your prompt contains at least 134145 input tokens, for a total of at least 262145 tokens."), 262_144, None),
        (("This model's maximum context length is 32768 tokens. However, you requested 8000 output tokens and your "
          "prompt contains 30000 input tokens, for a total of 38000 tokens."), 32_768, 30_000),
        (("This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens "
          "(2468021 of text input, 32000 in the output). Please reduce the length of either one."), 200_000, 2_468_021),
        ("The input token count (1,200,000) exceeds the maximum number of tokens allowed (1,048,576).",
         1_048_576, 1_200_000),
        ("request (2009 tokens) exceeds the available context size (512 tokens), try increasing it", 512, 2_009),
        ('the request exceeds it {"type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}',
         8_192, 14_429),
        (("Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with "
          "context length of only 32768 tokens, which is not enough."), 32_768, 111_490),
        ("Requested tokens (2285) exceed context window of 2048", 2_048, 2_285),
        ("This model's maximum prompt length is 131072 but the request contains 200000 tokens.", 131_072, 200_000),
        ("Your request exceeded model token limit: 262144 (requested: 300000)", 262_144, 300_000),
        ("Your request exceeded model token limit: 262144", 262_144, None),
        ("prompt token count of 140000 exceeds the limit of 128000", 128_000, 140_000),
        ("Prompt contains 65673 tokens, too large for model with 32768 maximum context length", 32_768, 65_673),
        ("Input tokens exceed the configured limit of 272000 tokens.", 272_000, None),
        ("Range of input length should be [1, 129024]", 129_024, None),
        ("Please reduce the length of the messages. Current length is 8345 while limit is 8192", 8_192, 8_345),
        ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4_096, 5_000),
        (("Request too large for gpt-x on tokens per min (TPM): Limit 400000, Requested 2500013. The input or output "
          "tokens must be reduced in order to run successfully."), 400_000, 2_500_013),
        (("You passed 7000 input tokens and requested 2000 output tokens. However, the model's context length is only "
          "8192 tokens, resulting in a maximum input length of 6192 tokens."), 8_192, 7_000),
        (("'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 64001 "
          "tokens and your request has 24235 input tokens (64000 > 64001 - 24235)."), 64_001, 24_235),
        ("`inputs` tokens + `max_new_tokens` must be <= 131073. Given: 140000 `inputs` tokens and 9 `max_new_tokens`",
         131_073, 140_000),
        ("`inputs` must have less than 4096 tokens. Given: 5000", 4_096, 5_000),
        ("the input token count is 135538 but model only supports up to 131072.", 131_072, 135_538),
        ("The input token count exceeds the maximum number of tokens allowed 1048576.", 1_048_576, None),
        ("Input length (265330) exceeds model's maximum context length (262144).", 262_144, 265_330),
        ("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131_040, 131_393),
        ("The input exceeds the model's maximum context limit of 8192 tokens.", 8_192, None),
        ("greater than the context length (n_keep: 23678>= n_ctx: 9472). Try to load", 9_472, 23_678),
        ("The decoder prompt (length 9000) is longer than the maximum model length of 8192.", 8_192, 9_000),
        ("Request body too large for gpt-4o-mini model. Max size: 8000 tokens.", 8_000, None),
        ("Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
        ("length of prompt_tokens (163280) must be less than max_seq_len (32768).", 32_768, 163_280),
        (("The estimated number of input and maximum output tokens (9000) exceeded this model context window limit "
          "(8192)."), 8_192, 9_000),
        ("the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model", 8_192, 9_000),
        ("invalid params, context window exceeds limit (2013)", None, None),
        ("prompt too long; exceeded max context length by 4 tokens", None, None),
        ("", None, None),
    ],
)  # fmt: skip
def test_sizes_told(words: str, window: int | None, tokens: int | None) -> None:
    assert sizes_in(words) == (window, tokens)


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-x", 64_000),
        ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas", 16_384),
        ("Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 4096, but got 9000.", 4_096),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192),
        ("InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]", 8_192),
        ("it has a maxOutputTokens value of 99999 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
         65_536),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than", 8_192),
        ("`max_new_tokens` must be <= 4096. Given: 8000", 4_096),
        ("parameter `max_completion_tokens` is not valid: integer above maximum value, expected a value <= 12288",
         12_288),
        (("The maximum tokens you requested exceeds the model limit of 10000. Try again with a maximum tokens value "
          "that is lower than 10000."), 9_999),
        ("Requested maximum tokens of 227043 exceeds the maximum output tokens limit: 102400.", 102_400),
        ("max_tokens: 100352 exceeds maximum 98304 trace_id: df50a381", 98_304),
        ("max_tokens (943710): Input should be less than or equal to 384000", 384_000),
        ("max_tokens (current value: 95972) must be between 0 and 32768", 32_768),
        ("max_tokens (384000) exceeds model's maximum output tokens (65536)", 65_536),
        ("fewer max_tokens. You requested up to 64000 tokens, but can only afford 17043. To increase", 17_043),
        ("`max_tokens` must be greater than `thinking.budget_tokens`.", None),
        ("temperature must be between 0 and 2", None),
        ("max_tokens must be at least 1", None),
        ("", None),
    ],
)  # fmt: skip
def test_told_maximum_output_is_read(words: str, most: int | None) -> None:
    assert max_output_in(words) == most


def kind_of(
    words: str, status: int = 400, code: str | None = None, *, window: int | None = None, most_input: int = 0
) -> str:
    body = json.dumps({"error": {"message": words, "type": "invalid_request_error", "code": code}}).encode()
    return from_status(Origin("acme", "big-1", window=window, most_input=most_input), status, {}, body).kind


@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize(
    "words",
    [
        "The total length of all messages is too long.",
        "Your input exceeds this model's context window. Please adjust your input and try again.",
        "length of prompt_tokens (163280) must be less than max_seq_len (32768).",
        "Input is too long for requested model.",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
        "Estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8192)",
        "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model",
        "The prompt has 9000 tokens, longer than max_model_len of 8192",
        "the input length exceeds the context length",
        "Prompt length 9000 exceeds max_seq_len 8192",
        "Requested token count exceeds the model's maximum context length of 8192 tokens.",
        "This model's maximum sequence length is 8192 tokens",
        "The conversation is too long. Start a new one.",
        "Input length 140000 exceeds the maximum length 131072",
        "Requested 9000 tokens exceeds limit 8192",
        "9000 tokens is above the allowed 8192",
        "This model only supports up to 8192 input tokens, got 9000.",
        "Prompt length (9000) exceeds max_input_len (8192).",
        "The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)",
        "max tokens of 8192 exceeded. total_tokens 9000",
        "The input exceeds the session length 8192. Please decrease the input",
        "Reached context length of 8192 tokens with model (arch: qwen2) that does not support overflow.",
        "Input token length too long",
        "Total tokens of image and text exceed max message tokens.",
        "Invalid 'input[3].output': string too long. Expected a string with maximum length 10485760, but got more.",
        "Invalid 'input[3].output[0].text': string too long. Expected a string with maximum length 10485760.",
        "Your prompt has too many tokens.",
        "The context has overflowed.",
        "Your conversation has exceeded the maximum length.",
        "History is too long",
        "The conversation history has grown too large for the model.",
        "The message you submitted was too long, please submit something shorter.",
        "Total prompt size is over the 8192 token window",
        "Context limit reached: 200000 tokens",
        "`prompt` is longer than `max_position_embeddings` (8192)",
        "KV cache is full: the input has 9000 tokens, which exceeds 8192",
        "inputs tokens + max_new_tokens must be <= 4096. Given: 4000 inputs tokens and 1000 max_new_tokens",
        "Requested tokens exceed the model's window",
        "inference error: ctx size 8192 exceeded by prompt 9000",
        "max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)",
        "Maximum tokens exceeded for this conversation",
        "Please stop here: the prompt is too long",
        "Prompt \u8d85\u957f",
        "\u8f93\u5165\u5185\u5bb9\u8d85\u957f",
    ],
)
def test_overflow_in_other_words(words: str, status: int) -> None:
    assert kind_of(words, status) == "context_overflow"


@pytest.mark.parametrize(
    "words",
    [
        ("Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a "
         "string with length 60 instead."),
        "Invalid 'messages[3].name': string too long. Expected a string with maximum length 64, but got length 99.",
        "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got length 2050 instead.",
        "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64.",
        "Invalid 'input[2].content': string too long. Expected a string with maximum length 512.",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got 140.",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
        "At least one of the image dimensions exceed max allowed size: 8000 pixels",
        "tools.3.name: String should have at most 64 characters",
        "The description of a function is too long: 1200 characters, the maximum is 1024.",
        "A maximum of 100 PDF pages may be provided.",
        "Too many images in the request. The limit is 20.",
        "thinking.budget_tokens: must be less than max_tokens",
        "`stop` sequences too long: at most 16 tokens each",
        "logit_bias has too many tokens: 400 > 300",
        "Your API token exceeds the maximum length of 128",
        "Token expired: 9000 is more than 3600",
        "URL is too long: 9000 exceeds 8192",
        "cache_control: the prompt prefix has 900 tokens, less than the minimum of 1024",
        "The message content is too large: image_url exceeds 20 MB",
        "vision tokens exceed processor budget",
        "tool result message exceeds 10 images",
        "context deadline exceeded",
        "The requested max_tokens 100000 exceeds the model's maximum output of 8192",
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas",
    ],
)  # fmt: skip
def test_sizes_of_parts_are_no_overflow(words: str) -> None:
    assert kind_of(words) == "invalid_request"
    assert kind_of(words, window=16_384, most_input=90_000) == "invalid_request"


@pytest.mark.parametrize(
    "words",
    [
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
        "Rate limit reached on tokens per min (TPM): Limit 30000, Used 20000, Requested 15000.",
        "Too many tokens per day: your input tokens exceed the quota.",
    ],
)
def test_rates_are_no_overflow(words: str) -> None:
    assert kind_of(words, 429) == "rate_limit"
    told = {"error": {"type": "rate_limit_error", "message": words}}
    assert from_event(Origin("acme"), told).kind == "rate_limit"


@pytest.mark.parametrize("code", ["ThrottlingException", "rate_limit_exceeded", "TooManyRequests", "quota_exceeded"])
@pytest.mark.parametrize("words", ["Too many tokens, slow down.", "Your input tokens exceed the limit."])
def test_codes_of_rates_are_no_overflow(code: str, words: str) -> None:
    assert kind_of(words, code=code) != "context_overflow"
    assert from_event(Origin("acme"), {"error": {"type": code, "message": words}}).kind != "context_overflow"


def test_overflow_by_code_and_status() -> None:
    assert kind_of("No.", code="context_length_exceeded") == "context_overflow"
    for code in ("context_too_long", "prompt_too_long", "ContextLengthExceeded", "input_tokens_exceeded"):
        assert kind_of("No.", code=code) == "context_overflow"
    for code in ("context_deadline_exceeded", "input_image_too_large", "prompt_rate_exceeded"):
        assert kind_of("No.", code=code) == "invalid_request"
    assert kind_of("No.", 413) == "context_overflow"
    assert kind_of("The image is too large: 9 MB.", 413) == "invalid_request"


def test_unknown_refusal_judged_by_window() -> None:
    named = "Sequence of 140003 exceeds 131072, bailing."
    assert kind_of(named, window=131_072) == "context_overflow"
    assert kind_of(named, window=65_536) == "invalid_request"
    vague = "Token limit hit."
    assert kind_of(vague, window=8_192, most_input=30_000) == "context_overflow"
    assert kind_of(vague, window=8_192, most_input=3_000) == "invalid_request"


@pytest.mark.parametrize(
    ("words", "is_about_size"),
    [
        ("El mensaje supera el n\u00famero m\u00e1ximo de tokens: 50012 > 32768", True),
        ("\u0442\u043e\u043a\u0435\u043d\u043e\u0432: 50012 / 32768", True),
        ("Das Kontextfenster hat 32.768, die Anfrage 50.012.", True),
        ("input tokens: 50,012; limit: 32,768", True),
        ("prompt is 50k tokens but 32k is the maximum", True),
        ("`inputs` tokens + max_new_tokens must be <= 4096. Given: 50012 inputs tokens and 900 max_new_tokens", True),
        ("Length of session 50012 has 64 as its limit", False),  # no window
        ("Session 50012 has expired, 32768 goes on", False),
        ("tokens 9000 > 8192", False),  # not what was sent
        ("The context holds 50012 tokens", False),
        ("thinking.budget_tokens 50012 > 32768 tokens", False),
        ("The image has 50012 tokens, too large: 32768", False),
    ],
)
def test_told_numbers_held_against_sent(words: str, is_about_size: bool) -> None:
    found = kind_of(words, most_input=200_000)
    assert (found == "context_overflow") == is_about_size


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Prompt tokens limit exceeded: 9000 > 8192. To increase, upgrade to a paid account", 402),
        ("Too many tokens, please wait before trying again.", 400),
        ("Enqueued token limit reached. Limit: 90,000 enqueued tokens. Please try again once batches are done.", 400),
        ("Your account exceeded the maximum token quota for this month: 1000000 tokens", 400),
        ("Your tokens exceed 4000 of 3000. Retry after 7 s.", 400),
    ],
)
def test_money_and_time_are_no_overflow(words: str, status: int) -> None:
    assert kind_of(words, status) != "context_overflow"
    assert kind_of(words, status, window=8_192, most_input=30_000) != "context_overflow"
