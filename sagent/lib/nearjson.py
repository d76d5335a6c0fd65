"""JSON as models write it: parsed strictly except for a short list of faults, and repairs are reported.

Nothing is ever completed: a text that ends before its JSON does is rejected, as are numbers that JSON cannot express.
"""

import json
import re
from collections.abc import Iterator
from math import isfinite

from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_parse

FENCE = "without the code fence around it"
CONTROL = "with raw control characters, as line breaks, inside its texts"
TEXT = "from a text that holds it as JSON"

_FENCED = re.compile(r"(`{3,}|~{3,})(?:[\w+-]*[ \t]*\r?\n|(?:json)?[ \t]*(?=[{\[]))(.*?)(?:\r?\n)?[ \t]*\1", re.DOTALL)
_NUMBER_END = re.compile(r"-?\d*\.?\d*(?:[eE][+-]?\d*)?")
_MAX_ESCAPE_CHARS = 12  # characters of the longest escape: two surrogates
_BLANK = " \t\r\n\ufeff\xa0\u200b\u2060"  # and invisible characters


@dataclass(frozen=True, slots=True)
class NearJson:
    """A parsed value in plain lists and dicts, and how it had to be read: FENCE, CONTROL."""

    value: object
    mends: tuple[str, ...] = ()


def read_near(text: str) -> NearJson:
    """Parse a text that is a single JSON value, perhaps inside a code fence. Raises ValueError."""
    bare = text.strip(_BLANK)
    try:
        return NearJson(json_parse(bare))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError:
        inside = _FENCED.fullmatch(bare)
    mends = (FENCE,) if inside else ()
    if inside:
        bare = inside[2].strip(_BLANK)
        try:
            return NearJson(json_parse(bare), mends)
        except (ValueError, RecursionError):
            pass
    value, end = read_at(bare, 0)
    if end < len(bare):
        raise ValueError(f"something follows the JSON at character {end}")
    return NearJson(value, (*mends, CONTROL))


def read_at(text: str, at: int) -> tuple[object, int]:
    """Parse the JSON value that begins at a place; its strings may contain control characters. Return it and its end.
    Raises ValueError."""
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def fences(text: str) -> list[str]:
    """Return the contents of the closed code fences in a text, in order."""
    return [match[2] for match in _FENCED.finditer(text)]


def values_among(text: str, limit: int) -> Iterator[object]:
    """Parse the objects and arrays inside a text, from a limited number of places. A value cut off by the end of the
    text is skipped, with everything inside it."""
    at = 0
    for _ in range(limit):
        starts = [place for mark in "{[" if (place := text.find(mark, at)) >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = read_at(text, at)
        except json.JSONDecodeError as error:
            if _is_cut(text, error):
                return
            at += 1
        except ValueError:
            at += 1
        else:
            yield value


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Return True if the JSON was valid up to the end of the text."""
    rest = text[error.pos :].strip(_BLANK)
    if error.msg.startswith("Unterminated string") or any(word.startswith(rest) for word in _WORDS):
        return True  # "" is a prefix of any word
    return _NUMBER_END.fullmatch(rest) is not None or (
        error.msg.startswith("Invalid \\") and len(rest) <= _MAX_ESCAPE_CHARS
    )


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"{digits} is not JSON")
    return number


_WORDS = ("true", "false", "null")
_DECODER = json.JSONDecoder(strict=False, parse_constant=_finite, parse_float=_finite)
