"""Styled lines as text with escape sequences (ECMA-48, SGR), in the terminal's own sixteen colours."""

import re
from collections.abc import Mapping
from functools import cache

from sagent.repl.view.lines import Line, drawable
from sagent.repl.view.theme import rules_of

_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9"}
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_CODES = {
    **_ATTRIBUTES,
    **{f"ansi{name}": str(30 + place) for place, name in enumerate(_COLOURS)},
    **{f"ansibright{name}": str(90 + place) for place, name in enumerate(_COLOURS)},
}
_CLASS = re.compile(r"class:([\w.-]+)")


@cache
def _codes(theme: str) -> Mapping[str, str]:
    rules = rules_of(theme).items()
    return {name: ";".join(_CODES[word] for word in look.split() if word in _CODES) for name, look in rules}


def styled(line: Line, theme: str) -> str:
    """Return a line in the colours of a theme, which end with it."""
    shown: list[str] = []
    for style, text in drawable(line):
        codes = [code for name in _CLASS.findall(style) if (code := _codes(theme).get(name))]
        shown.append(f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and text else text)
    return "".join(shown)
