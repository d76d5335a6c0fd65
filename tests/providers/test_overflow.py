"""The numbers in what providers say when a request does not fit, in the words they use."""

import pytest

from sagent.providers.overflow import Sizes, sizes_in


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
        ("Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
        ("invalid params, context window exceeds limit (2013)", None, None),
        ("prompt too long; exceeded max context length by 4 tokens", None, None),
        ("", None, None),
    ],
)  # fmt: skip
def test_sizes_told(words: str, window: int | None, tokens: int | None) -> None:
    assert sizes_in(words) == Sizes(window, tokens)
