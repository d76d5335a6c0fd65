"""What a provider says about sizes when it refuses a request that does not fit."""

import re

_N = r"(\d[\d,_]*)"

# Who says it is named where the words are not shared. vLLM, SGLang, DeepSeek, OpenRouter and others took over OpenAI's.
_WINDOW = (
    rf"context length is only {_N}",  # vLLM, which then says what that leaves for the input
    rf"maximum (?:allowed )?(?:context|prompt|input) (?:length|limit)(?: is| of|:)? \(?{_N}",  # OpenAI, xAI, Fireworks
    rf"{_N} maximum\b",  # Anthropic, Mistral
    rf"context limit: [\d,_]+ \+ [\d,_]+ > {_N}",  # Anthropic
    rf"maximum number of tokens allowed \(?{_N}",  # Google
    rf"model only supports up to {_N}",  # Vertex
    rf"`max_new_tokens` must be <= {_N}",  # TGI
    rf"`inputs` must have less than {_N}",  # TGI
    rf"maximum model length of {_N}",  # vLLM
    rf"max size: {_N} tokens",  # GitHub Models
    rf"n_ctx[:=]? \(?{_N}",  # LM Studio
    rf"context (?:size|length|window) \({_N} tokens\)",  # llama.cpp, SGLang
    rf"context (?:length|window) of (?:only )?{_N}",  # LM Studio, llama-cpp-python
    rf"model token limit:? {_N}",  # Moonshot
    rf"(?:exceeds the|configured) (?:max )?limit of {_N}",  # Copilot, OpenAI's Responses, Perplexity
    rf"input length should be \[\d+, ?{_N}\]",  # DashScope
    rf"while limit is {_N}",  # Cerebras
    rf"limit:? {_N}, requested:? \d",  # OpenAI: a request larger than what a minute allows
    rf'"n_ctx": ?{_N}',  # llama.cpp, next to words without numbers
)
_INPUT = (
    rf"too long: {_N}",  # Anthropic, Fireworks
    rf"context limit: {_N} \+",  # Anthropic
    rf"input token count \({_N}\)",  # Google
    rf"(?:request|input) \({_N} tokens\)",  # llama.cpp, SGLang
    rf"{_N} tokens from the input",  # SGLang
    rf"keep the first {_N} tokens",  # LM Studio
    rf"requested tokens \({_N}\)",  # llama-cpp-python
    rf"(?:request|prompt) (?:contains|has) {_N} (?:input )?tokens",  # xAI, Mistral, vLLM
    rf"you passed {_N} input tokens",  # vLLM
    rf"input token count is {_N}",  # Vertex
    rf"given: {_N}(?! `max)",  # TGI
    rf"input length \(?{_N}",  # SGLang, Poolside
    rf"prompt (?:of |\()length {_N}",  # vLLM, Perplexity
    rf"n_keep:? \(?{_N}",  # LM Studio
    rf"prompt token count of {_N}",  # Copilot
    rf"\(requested:? {_N}\)",  # Moonshot
    rf"current length is {_N}",  # Cerebras
    rf"limit:? [\d,_]+, requested:? {_N}",  # OpenAI
    rf'"n_prompt_tokens": ?{_N}',  # llama.cpp
)
_TOTAL = rf"(?:requested|requested about|resulted in) {_N} tokens"  # OpenAI: with the output, where that is given too
_LIMIT = r"(?:max\w*[_ ]?tokens|maximum (?:output )?tokens)\b[^.]{0,120}?"
_MOST_OUTPUT = (
    rf"supports at most {_N} (?:completion|output) tokens",  # OpenAI
    rf"but can only afford {_N}",  # OpenRouter, for what is left of the credits
    rf"max_tokens: \d+ > {_N}, which is the maximum",  # Anthropic
    rf"{_LIMIT}\[\d+, ?{_N}\]",  # DashScope, DeepSeek
    rf"{_LIMIT}(?:<=|less than or equal to|between \d+ and) `?{_N}",  # Groq, Ark, TGI
    rf"max_output_tokens': integer above maximum value. expected a value <= {_N}",  # OpenAI's Responses
    rf"{_LIMIT}exceeds (?:the )?(?:model'?s? )?(?:maximum|limit)(?: output tokens)?(?: limit)?(?: of|:)? \(?{_N}",
)
_ABOVE_OUTPUT = (
    rf"maxOutputTokens\b[^.]{{0,80}} to {_N} \(exclusive\)",  # Google
    rf"{_LIMIT}lower than {_N}",  # Bedrock
)
_OUTPUT = rf"{_N} (?:tokens )?(?:in|for) +(?:the|your) +(?:completion|output)"


def sizes_in(words: str) -> tuple[int | None, int | None]:
    """The tokens of the model's window, and of the input that was sent, as far as a provider's refusal names them.

    A count that is only a lower bound ("at least", vLLM, which stops counting) is none.
    """
    return _first(_WINDOW, words), _first(_INPUT, words) or _without_output(words)


def most_output_in(words: str) -> int | None:
    """The most tokens of output that may be asked for, where a provider refuses a request for asking for more."""
    above = _first(_ABOVE_OUTPUT, words)
    return above - 1 if above else _first(_MOST_OUTPUT, words)


def _without_output(words: str) -> int | None:
    total, output = _first((_TOTAL,), words), _first((_OUTPUT,), words) or 0
    return total - output if total and total > output else None


def _first(patterns: tuple[str, ...], words: str) -> int | None:
    for pattern in patterns:
        if found := re.search(pattern, words, re.IGNORECASE):
            number = int(re.sub("[,_]", "", found[1]))
            if 0 < number < 10**9:
                return number
    return None
