"""Sizes in a provider's message when it refuses a request that does not fit."""

import re
from collections.abc import Sequence

_N = r"(\d[\d,_]*)"

# A comment names the provider of an unshared wording. vLLM, SGLang, DeepSeek, OpenRouter and others copied OpenAI's.
_WINDOW = (
    rf"context length is only {_N}",  # vLLM, followed by the size left for the input
    rf"maximum (?:allowed )?(?:context|prompt|input) (?:length|limit)(?: is| of|:)? \(?{_N}",  # OpenAI, xAI, Fireworks
    rf"{_N} maximum\b",  # Anthropic, Mistral
    rf"context limit: [\d,_]+ \+ [\d,_]+ > {_N}",  # Anthropic
    rf"maximum number of tokens allowed \(?{_N}",  # Google
    rf"model only supports up to {_N}",  # Vertex
    rf"\+ `?max_new_tokens`? must be <= {_N}",  # TGI
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
    rf"limit:? {_N}, requested:? \d",  # OpenAI: a request above the limit per minute
    rf'"n_ctx": ?{_N}',  # llama.cpp, beside text without numbers
    rf"(?:max_seq_len|max_model_len)(?: of| is|:)? ?\(?{_N}",  # names in SGLang, TensorRT and vLLM
    rf"context window limit \({_N}\)",  # Cloudflare
    rf"cannot exceed (?:the total tokens limit )?{_N}",  # watsonx, Cohere
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
    rf"prompt_tokens \({_N}\)",
    rf"output tokens \({_N}\) exceeded",  # Cloudflare, with the output
    rf"number of input tokens {_N}",  # watsonx
    rf"received {_N}",  # Cohere
    rf'"n_prompt_tokens": ?{_N}',  # llama.cpp
)
_TOTAL = rf"(?:requested|requested about|resulted in) {_N} tokens"  # OpenAI: includes the output, if given
_CODES = (
    r"(?:context|prompt|input)(?![a-z_]*(?:image|file|audio|rate|time|deadline))[a-z_]*(?:exceeded|too_?(?:long|large))"
    r"|exceed_context_size|request_too_large|tokens_limit_reached|too_many_prompt_tokens|requested_too_many_tokens"
)
_INPUTS = r"(?:prompts?|inputs?|messages?|conversation|history|context|request|(?:input|prompt)[ _]tokens?)"
_EXCEEDS = r"exceed(?:s|ed)? (?:(?:the|this|that|its|your|our|available|model'?s?|maximum|max|allowed) )*"
_OVER = r"(?:exceed|overflow|over the|beyond|does(?:n't| not) fit|(?:longer|larger|greater|more) than)"
_PHRASES = (
    rf"(?s){_INPUTS}\b[^.,;]{{0,40}} too (?:long|large|big)\b|length of all messages is too long"
    r"|(?:tokens|input|prompt)s?`? too many|too (?:many|much) (?:(?:input|prompt) )?(?:tokens|context)\b"
    r"|(?:total|combined) (?:length|size|number) of [\w ]{0,40}(?:messages|tokens|prompt)\b[^.]{0,60}(?:too |exceed)"
    rf"|{_INPUTS}\b[^.]{{0,60}}\b(?:must be less|longer|larger|more|greater) than [^.]{{0,30}}"
    r"(?:max_seq_len|max_model_len|max_position|model length|context|window)"
    r"|\b(?:prompt|conversation|history|context|ctx|(?:input|session|text|message)s?[ _](?:tokens?|length|size|text))"
    rf"\b[`']?(?: (?:length|size|window|limit|tokens?|\d+|is|are|has|have|was|been))* (?:{_OVER}|limit reached)"
    r"|max(?:imum)? (?:context|prompt|input|sequence) (?:length|window)|maximum allowed input"
    rf"|exceed(?:s|ed)? max context|{_EXCEEDS}(?:context|window|sequence length|session length|max_seq_len|n_ctx)"
    rf"|{_EXCEEDS}(?:max_model_len|token limit)|max(?:imum)? tokens (?:of \d+ )?exceeded|input length and"
    r"|context (?:window|size|length|limit)[^.]{0,40}exceed|(?:input|prompt) tokens?\b[^.]{0,30} exceed"
    r"|input token count|range of input length|reduce the length|prompt token count of \d+ exceeds"
    r"|(?:input|prompt) tokens? [\d,]*(?: tokens)? ?cannot exceed|tokens in the prompt cannot exceed|length of only"
    r"|`?inputs`? tokens \+ `?max_new_tokens`? must be|`?inputs`? must have less than|payload size exceeds"
    r"|max_(?:completion_)?tokens must be at least 1, got -|token length (?:exceed|(?:is )?too long)"
    r"|tokens in request more|expected maxlength: \d+, actual|\d+\)? ?>=? ?n_ctx|(?:prompt|input) truncated"
    r"|tokens of [\w ]+ exceed max|reached context length"
    r"|(?:prompt|\u8f93\u5165|\u4e0a\u4e0b\u6587)[^.\u3002]{0,12}(?:\u8d85\u957f|\u8fc7\u957f|\u8d85\u8fc7|\u8d85\u51fa)"
)
# Parts of a request that are limited by themselves, and rates: neither is cured by a shorter conversation.
_MEMBER = (
    r"'[\w.\[\]-]+': (?:string|array|object) too (?:long|large)|(?:array|list) too long|string should have at most"
    r"|\b(?:image(?:_url)?|file|document|pdf|audio|video|tool|function|name|field|parameter|description|schema|metadata"
    r"|identifier|id)s?\b[^.]{0,40}\b(?:too (?:long|large|many|big)|exceeds?\b)"
    r"|(?:too many|maximum of \d+) (?:images|files|tools|pages|pdf|documents|stop)"
)
_TEXT = r"'(?:messages|input)[\d\[\]]*(?:\.(?:content|output)[\d\[\]]*(?:\.text)?)?': string too long\D+length (\d+)"
_RATE = r"enqueued|\bper[ -](?:second|min|minute|hour|day)|\b(?:tpm|tpd|itpm|otpm)\b|rate[ _]limit"
_SPENT = r"\bquotas?\b|credits|wait before|try again (?:in|later|after)|retry (?:in|after)|throttl"  # money, or time
_MIN_LONG_TEXT_CHARS = 100_000  # a limit this high is for a conversation, not a name
_SIZE = rf"(?<![\w.-]){_N}(?:\.0)?(?![\w-])"
_SIZED = r"\btokens?\b|\b(?:prompt|input|session|sequence|context) length"
_ABOVE = r"exceed|(?:longer|larger|greater|more) than|above|only supports|too (?:long|large)|must be (?:less|at most)"
_OF_OUTPUT = (
    r"max_(?!input|prompt|seq|num|total|model)\w*tokens\b(?! \()|output tokens|completion|thinking|budget|temperature"
    r"|top_|(?<!kv )\bcach|\bper\b"
)
_OTHER = (  # tokens in other senses, and lengths of other things
    r"\b(?:api|access|auth\w*|bearer|invalid|vision|image) tokens?\b|tokens? expired|logit_bias|\bstop\W{1,2}seq"
    r"|\b(?:ur[li]|header|file|media)s?\b[^.]{0,20}(?:too l|exceed)|exceeds? [^.]{0,20}\b(?:file|image|media)\b"
)
_ANY_SIZED = (  # loan words of many languages
    r"token|\u0442\u043e\u043a\u0435\u043d|\u30c8\u30fc\u30af\u30f3|\ud1a0\ud070|l[o\xe4]n?gu?(?:th|itud|ueur|e)\b|context|kontext|contesto"
    r"|\u043a\u043e\u043d\u0442\u0435\u043a\u0441\u0442|\u0434\u043b\u0438\u043d|\u957f\u5ea6|\u9577\u3055|\u4e0a\u4e0b\u6587|\u30b3\u30f3\u30c6\u30ad\u30b9\u30c8|\ucee8\ud14d\uc2a4\ud2b8"
)
_MIN_WINDOW_TOKENS = 1_000
_MAX_BYTES_PER_TOKEN = 10  # of a request, as a refusal counts it
_LIMITS = r"too (?:long|large|many|big)|exceed|maximum|longer|limit|\bmore than|less than"
_LIMIT = r"(?:max\w*[_ ]?tokens|maximum (?:output )?tokens)\b[^.]{0,120}?"
_MAX_OUTPUT = (
    rf"supports at most {_N} (?:completion|output) tokens",  # OpenAI
    rf"but can only afford {_N}",  # OpenRouter, for the remaining credits
    rf"max_tokens: \d+ > {_N}, which is the maximum",  # Anthropic
    rf"{_LIMIT}\[\d+, ?{_N}\]",  # DashScope, DeepSeek
    rf"{_LIMIT}(?:<=|less than or equal to|between \d+ and) `?{_N}",  # Groq, Ark, TGI
    rf"max_output_tokens': integer above maximum value. expected a value <= {_N}",  # OpenAI's Responses
    rf"{_LIMIT}exceeds (?:the )?(?:model'?s? )?(?:maximum|limit)(?: output(?: tokens)?)?(?: limit)?(?: of|:)? \(?{_N}",
)
_ABOVE_OUTPUT = (
    rf"maxOutputTokens\b[^.]{{0,80}} to {_N} \(exclusive\)",  # Google
    rf"{_LIMIT}lower than {_N}",  # Bedrock
)
_OUTPUT = rf"{_N} (?:tokens )?(?:in|for) +(?:the|your) +(?:completion|output)"


def is_overflow(
    status: int | None, codes: Sequence[str], words: str, *, window: int | None = None, most_input: int = 0
) -> bool:
    """Return True if a refusal says that a request has more tokens than the model accepts: by its codes, by its numbers
    (with a `window`, if known, and a request of at most `most_input`), and finally by its words."""
    text, coded = words.lower(), " ".join(codes).lower()
    if re.search(_CODES, coded):
        return status != 429
    if found := re.search(_TEXT, text):
        return int(found[1]) >= _MIN_LONG_TEXT_CHARS
    if status == 429 or re.search(_RATE, text) or re.search(f"{_RATE}|throttl|too_?many_?requests|quota", coded):
        return "must be reduced" in text
    if re.search(_OTHER, text):
        return False
    if status == 402 or (re.search(_SPENT, text) and not re.search(r"context", text)):
        return False
    if most_output_in(words) and not re.search(r"context|prompt|input", text):
        return False
    limit, sent = sizes_in(words)
    if limit and sent and sent > limit:
        return True
    if re.search(_CODES, text) or (re.search(_PHRASES, text) and not is_of_part(text)):
        return True
    if (_compares(text) or _outgrows(text, most_input)) and not re.search(_MEMBER, text):
        return True
    if status not in (400, 413, 422) or not window or re.search(f"{_MEMBER}|{_OF_OUTPUT}", text):
        return False
    numbers = [int(re.sub("[,_]", "", number)) for number in re.findall(_N, text) if len(number) < 12]
    named = window in numbers and any(number > window for number in numbers)
    return named or (most_input > window and "token" in text and bool(re.search(_LIMITS, text)))


def _compares(text: str) -> bool:
    """Return True if a text says of a prompt, an input or tokens that they are more than a limit, both as numbers."""
    if not re.search(_SIZED, text) or re.search(_OF_OUTPUT, text):
        return False
    numbers = [int(re.sub("[,_]", "", number)) for number in re.findall(_SIZE, text)]
    return len(numbers) > 1 and any(number != numbers[0] for number in numbers) and bool(re.search(_ABOVE, text))


def _outgrows(text: str, most_input: int) -> bool:
    """Return True if a text, in any language, has a number that may be the size of the request, and a smaller one."""
    if re.search(_OF_OUTPUT, text) or not re.search(_ANY_SIZED, text):
        return False
    found = re.findall(r"(?<![\w.-])(\d[\d,._']*)(k?)\b", text)
    sizes = [int(re.sub(r"\D", "", number)) * (1_000 if kilo else 1) for number, kilo in found if len(number) < 12]
    sizes = [size for size in sizes if size >= _MIN_WINDOW_TOKENS]
    sent = [size for size in sizes if most_input <= size * _MAX_BYTES_PER_TOKEN and size <= most_input]
    return bool(sent) and min(sizes) < max(sent)


def is_of_part(words: str) -> bool:
    """Return True if a refusal is about the size of a part of the request, as an image or a name, and of no window."""
    text = words.lower()
    return bool(re.search(_MEMBER, text)) and not re.search(r"context|token|max_seq_len|max_model_len", text)


def sizes_in(words: str) -> tuple[int | None, int | None]:
    """Return the tokens of the model's window and of the sent input that a provider's refusal states.

    A lower bound ("at least", vLLM, which stops counting) does not count.
    """
    return _first(_WINDOW, words), _first(_INPUT, words) or _without_output(words)


def most_output_in(words: str) -> int | None:
    """Return the maximum tokens of output that a provider states when it refuses a request for more."""
    above = _first(_ABOVE_OUTPUT, words)
    return above - 1 if above else _first(_MAX_OUTPUT, words)


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
