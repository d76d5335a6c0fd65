"""LaTeX formulas as a line of Unicode: formula.toml has the signs."""

import re
from collections.abc import Mapping
from functools import cache

_TOKEN = re.compile(r"\\(?:[A-Za-z]+|.)|\s+|.", re.DOTALL)
_AS_IT_IS = (
    "text",
    "textbf",
    "textit",
    "mathrm",
    "mathbf",
    "mathit",
    "mathsf",
    "mathcal",
    "operatorname",
    "boldsymbol",
)


@cache
def _signs() -> Mapping[str, Mapping[str, str]]:
    import tomllib
    from pathlib import Path

    tables: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("formula.toml").read_text("utf-8"))
    pairs = {**tables.pop("scripts"), "double": tables.pop("double")["letters"]}
    return {**tables, **{name: dict(zip(text[::2], text[1::2], strict=True)) for name, text in pairs.items()}}


def draw(source: str, width: int) -> list[str]:
    """Return a formula as one row of Unicode, of any width; no row if a part of it cannot be written so."""
    del width
    return [text] if (text := formula(source)) else []


def formula(source: str) -> str:
    """Return a formula in Unicode; "" if a part of it cannot be written so."""
    tokens: list[str] = _TOKEN.findall(source.strip())[::-1]
    try:
        return re.sub(r" {2,}", " ", _group(tokens, "")).strip()
    except (KeyError, IndexError, RecursionError):
        return ""


def _group(tokens: list[str], end: str) -> str:
    """Read up to the token `end`. `tokens` are in reverse. Raises KeyError, IndexError."""
    text = ""
    while tokens and tokens[-1] != end:
        text += _one(tokens)
    if end:
        tokens.pop()
    return text


def _one(tokens: list[str]) -> str:
    signs, sign = _signs(), tokens.pop()
    name = sign[1:]
    if sign == "{":
        return _group(tokens, "}")
    if sign in ("^", "_"):
        return _script(_argument(tokens), sign)
    if sign == "&" or sign.isspace():
        return " " if sign != "&" else ""
    if not name or sign[0] != "\\":
        return sign
    if name in ("frac", "dfrac", "tfrac"):
        return f"{_closed(_argument(tokens))}/{_closed(_argument(tokens))}"
    if name == "sqrt":
        degree = ""
        if tokens and tokens[-1] == "[":
            tokens.pop()
            degree = _script(_group(tokens, "]"), "^")
        return f"{degree}√{_closed(_argument(tokens))}"
    if name == "mathbb":
        return signs["double"][_argument(tokens)]
    if name in _AS_IT_IS:
        return _argument(tokens)
    if name in signs["over"]:
        return _argument(tokens) + signs["over"][name]
    return signs["symbols"][name]


def _argument(tokens: list[str]) -> str:
    while tokens[-1].isspace():
        tokens.pop()
    return _one(tokens)


def _closed(text: str) -> str:
    return text if text.isalnum() else f"({text})"


def _script(text: str, sign: str) -> str:
    small = _signs()[sign]
    found = [small.get(letter, "") for letter in text.replace(" ", "")]
    return "".join(found) if all(found) else f"{sign}{text}" if len(text) == 1 else f"{sign}({text})"
