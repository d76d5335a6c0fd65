"""Parse calls and literals in Python's syntax, `read(path="a", lines=3)` and `{'name': 'read'}`. They are never
evaluated."""

import ast
import re
from collections.abc import Sequence

from sagent.lib.dataclass import dataclass

MAX_DEPTH = 60  # levels of nested lists and dicts

_STRING = re.compile(
    r"""[rRuU]?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL
)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?![\w.])")
_NAME = re.compile(r"([A-Za-z_][\w.:-]*)[ \t]*\(")
_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*=(?!=)\s*")
_RESULT = re.compile(r"^[ \t]*([A-Za-z_]\w*)\s*=\s*(?=[A-Za-z_])", re.MULTILINE)
_WORD = re.compile(r"(?:True|true|False|false|None|null)\b")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_VALUES = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_MAX_DIGITS = 300


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A call as it was written, with the position of its end."""

    name: str
    named: dict[str, object]
    unnamed: Sequence[object]
    end: int


def read_literal(text: str, at: int, depth: int = 0) -> tuple[object, int]:
    """Parse the literal that begins at a position. Returns it and its end. Raises ValueError."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    at = _skip(text, at)
    opening = text[at : at + 1]
    if opening == "{":
        return _dict(text, at + 1, depth)
    if opening in ("[", "("):
        return _list(text, at + 1, "]" if opening == "[" else ")", depth)
    if match := _STRING.match(text, at):
        return _string(match[0]), match.end()
    if match := _WORD.match(text, at):
        return _VALUES[match[0]], match.end()
    if (match := _NUMBER.match(text, at)) and len(match[0]) <= _MAX_DIGITS:
        digits = match[0]
        return (int(digits) if digits.lstrip("+-").isdecimal() else float(digits)), match.end()
    raise ValueError(f"no literal at character {at}")


def read_call(text: str, at: int) -> PythonCall:
    """Parse the call that begins at a position. Raises ValueError."""
    match = _NAME.match(text, at)
    if match is None:
        raise ValueError(f"no call at character {at}")
    named: dict[str, object] = {}
    unnamed: list[object] = []
    at = _skip(text, match.end())
    while text[at : at + 1] != ")":
        key = _KEY.match(text, at)
        value, at = read_literal(text, key.end() if key else at)
        if key:
            named[key[1]] = value
        else:
            unnamed.append(value)
        at = _comma(text, at, ")")
    return PythonCall(match[1], named, unnamed, at + 1)


def read_calls(text: str) -> list[PythonCall]:
    """Parse a text that consists of calls: in a list, one a line, or inside print(). Raises ValueError."""
    body = text.strip()
    if body.startswith("["):
        body, closing = body[1:].strip(), "]"
    else:
        closing = ""
    calls: list[PythonCall] = []
    results = re.compile(r"print\s*\(\s*(?:" + "|".join(_RESULT.findall(body) or [r"(?!)"]) + r")\s*\)")
    at = 0
    while (at := _skip(body, at)) < len(body) and body[at] != closing:
        if shown := results.match(body, at):
            at = shown.end()
            continue
        printed = re.compile(r"print\s*\(\s*(?=[A-Za-z_])|[A-Za-z_]\w*\s*=\s*(?=[A-Za-z_])").match(body, at)
        call = read_call(body, printed.end() if printed else at)
        at = _skip(body, call.end)
        if printed and printed[0].rstrip().endswith("("):
            if body[at : at + 1] != ")":
                raise ValueError("print() is not closed")
            at = _skip(body, at + 1)
        calls.append(call)
        at = _skip(body, at + 1) if body[at : at + 1] in (",", ";") else at
    if closing and body[at:].strip() != closing:
        raise ValueError("the list of calls is not closed")
    return calls


def _dict(text: str, at: int, depth: int) -> tuple[dict[str, object], int]:
    items: dict[str, object] = {}
    at = _skip(text, at)
    while text[at : at + 1] != "}":
        key, at = read_literal(text, at, depth + 1)
        at = _skip(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise ValueError(f"no key at character {at}")
        items[key], at = read_literal(text, at + 1, depth + 1)
        at = _comma(text, at, "}")
    return items, at + 1


def _list(text: str, at: int, closing: str, depth: int) -> tuple[list[object], int]:
    items: list[object] = []
    at = _skip(text, at)
    while text[at : at + 1] != closing:
        item, at = read_literal(text, at, depth + 1)
        items.append(item)
        at = _comma(text, at, closing)
    return items, at + 1


def _comma(text: str, at: int, closing: str) -> int:
    """Return where the next item begins, or where the closing bracket is."""
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != closing:
        raise ValueError(f"no {closing} at character {at}")
    return at


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _string(source: str) -> str:
    if not re.match(r"[rRuU]?(?:'''|\"\"\")", source):
        source = source.replace("\r", "\\r").replace("\n", "\\n")  # a raw line break, as models write it
    try:
        value: object = ast.literal_eval(source)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(value, str):
        raise TypeError("a string literal is a string")
    return value
