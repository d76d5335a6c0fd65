"""Sizes in a provider's message when it refuses a request that does not fit."""

import re
from collections.abc import Sequence
from functools import cache

from sagent.lib.toml import toml_beside

_N = r"(\d[\d,_]*)"

_TOTAL = rf"(?:requested|requested about|resulted in) {_N} tokens"  # OpenAI: with the output, where that is given too
_INPUTS = r"(?:prompts?|inputs?|messages?|conversation|history|context|request|(?:input|prompt)[ _]tokens?)"
_EXCEEDS = r"exceed(?:s|ed)? (?:(?:the|this|that|its|your|our|available|model'?s?|maximum|max|allowed) )*"
_OVER = r"(?:exceed|overflow|over the|beyond|does(?:n't| not) fit|(?:longer|larger|greater|more) than)"
_TEXT = r"'(?:messages|input)[\d\[\]]*(?:\.(?:content|output)[\d\[\]]*(?:\.text)?)?': string too long\D+length (\d+)"
_RATE = r"enqueued|\bper[ -](?:second|min|minute|hour|day)|\b(?:tpm|tpd|itpm|otpm)\b|rate[ _]limit"
_SPENT = r"\bquotas?\b|credits|wait before|try again (?:in|later|after)|retry (?:in|after)|throttl"  # money, or time
_MIN_LONG_TEXT_CHARS = 100_000  # a limit this high is for a conversation, not a name
_SIZE = rf"(?<![\w.-]){_N}(?:\.0)?(?![\w-])"
_SIZED = r"\btokens?\b|\b(?:prompt|input|session|sequence|context) length"
_ABOVE = r"exceed|(?:longer|larger|greater|more) than|above|only supports|too (?:long|large)|must be (?:less|at most)"
_MIN_WINDOW_TOKENS = 1_000
_MAX_BYTES_PER_TOKEN = 10  # of a request, as a refusal counts it
_LIMITS = r"too (?:long|large|many|big)|exceed|maximum|longer|limit|\bmore than|less than"
_OUTPUT = rf"{_N} (?:tokens )?(?:in|for) +(?:the|your) +(?:completion|output)"


def is_overflow(
    status: int | None, codes: Sequence[str], words: str, *, window: int | None = None, most_input: int = 0
) -> bool:
    """Return True if a refusal says that a request has more tokens than the model accepts: by its codes, by its numbers
    (with a `window`, if known, and a request of at most `most_input`), and finally by its words."""
    text, coded, (limit, sent) = words.lower(), " ".join(codes).lower(), sizes_in(words)
    too_large = bool(limit and sent and sent > limit)
    if re.search(_any("codes"), coded):
        return status != 429
    if match := re.search(_TEXT, text):
        return int(match[1]) >= _MIN_LONG_TEXT_CHARS
    if status == 429 or re.search(_RATE, text) or re.search(f"{_RATE}|throttl|too_?many_?requests|quota", coded):
        return "must be reduced" in text or too_large  # it never fits into a minute
    if re.search(_any("other"), text):
        return False
    if status == 402 or (re.search(_SPENT, text) and not re.search(r"context", text)):
        return False
    if max_output_in(words) and not re.search(r"context|prompt|input", text):
        return False
    if too_large:
        return True
    if re.search(_any("codes"), text) or (re.search(f"(?s){_any('phrases')}", text) and not is_of_part(text)):
        return True
    if (_compares(text) or _outgrows(text, most_input)) and not re.search(_any("member"), text):
        return True
    if status not in (400, 413, 422) or not window or re.search(f"{_any('member')}|{_any('of_output')}", text):
        return False
    numbers = [int(re.sub("[,_]", "", number)) for number in re.findall(_N, text) if len(number) < 12]
    named = window in numbers and any(number > window for number in numbers)
    return named or (most_input > window and "token" in text and bool(re.search(_LIMITS, text)))


def _compares(text: str) -> bool:
    """Return True if a text says of a prompt, an input or tokens that they are more than a limit, both as numbers."""
    if not re.search(_SIZED, text) or re.search(_any("of_output"), text):
        return False
    numbers = [int(re.sub("[,_]", "", number)) for number in re.findall(_SIZE, text)]
    return len(numbers) > 1 and any(number != numbers[0] for number in numbers) and bool(re.search(_ABOVE, text))


def _outgrows(text: str, most_input: int) -> bool:
    """Return True if a text, in any language, has a number that may be the size of the request, and a smaller one."""
    if re.search(_any("of_output"), text) or not re.search(_any("sized"), text):
        return False
    found = re.findall(r"(?<![\w.-])(\d[\d,._']*)(k?)\b", text)
    sizes = [int(re.sub(r"\D", "", number)) * (1_000 if kilo else 1) for number, kilo in found if len(number) < 12]
    sizes = [size for size in sizes if size >= _MIN_WINDOW_TOKENS]
    sent = [size for size in sizes if most_input <= size * _MAX_BYTES_PER_TOKEN and size <= most_input]
    return bool(sent) and min(sizes) < max(sent)


def is_of_part(words: str) -> bool:
    """Return True if a refusal is about the size of a part of the request, as an image or a name, and of no window."""
    text = words.lower()
    return bool(re.search(_any("member"), text)) and not re.search(r"context|token|max_seq_len|max_model_len", text)


def sizes_in(words: str) -> tuple[int | None, int | None]:
    """Return the tokens of the model's window and of the sent input that a provider's refusal states.

    A lower bound ("at least", vLLM, which stops counting) does not count.
    """
    return _first(_listed("window"), words), _first(_listed("input"), words) or _without_output(words)


def max_output_in(words: str) -> int | None:
    """Return the maximum tokens of output that a provider states when it refuses a request for more."""
    above = _first(_listed("above_output"), words)
    return above - 1 if above else _first(_listed("max_output"), words)


def _without_output(words: str) -> int | None:
    total, output = _first((_TOTAL,), words), _first((_OUTPUT,), words) or 0
    return total - output if total and total > output else None


def _any(name: str) -> str:
    return "|".join(_listed(name))


@cache
def _listed(kind: str) -> tuple[str, ...]:
    """Return a list of overflow.toml, with the names in its patterns replaced."""
    lists: dict[str, list[str]] = toml_beside(__file__, "overflow.toml")
    names = {"N": _N, "INPUTS": _INPUTS, "EXCEEDS": _EXCEEDS, "OVER": _OVER}
    return tuple(re.sub(r"\{([A-Z]+)\}", lambda name: names[name[1]], pattern) for pattern in lists[kind])


def _first(patterns: tuple[str, ...], words: str) -> int | None:
    for pattern in patterns:
        if match := re.search(pattern, words, re.IGNORECASE):
            number = int(re.sub("[,_]", "", match[1]))
            if 0 < number < 10**9:
                return number
    return None
