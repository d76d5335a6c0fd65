"""The regular expressions of Grep: one dialect, translated for Python and, if ripgrep supports it, for ripgrep.

Common constructs mean the same in both; unmatched braces and brackets are literal. Look-around and back references
exist only in Python: such a pattern has no form for ripgrep.
"""

import re
from functools import lru_cache

from sagent.lib.dataclass import dataclass

_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_UNDECODED = r"(?![\udc80-\udcff])"
_END = r"(?:\r?$)"
_SAME = {
    **{letter: (f"\\{letter}", f"\\{letter}") for letter in "dDwWbB"},
    "s": (f"[{_SPACE}]", r"\s"),
    "S": (f"[^{_SPACE}]", r"\S"),
    "<": (r"\b(?=\w)", r"\b"),
    ">": (r"\b(?<=\w)", r"\b"),
}
"""Escapes for Python and for ripgrep."""
_META = frozenset(r"\.+*?()|[]{}^$#&-~")
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t-\r ", "upper": "A-Z",
    "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class PatternError(ValueError):
    """The pattern is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A translated pattern. `rust` is None if ripgrep cannot do it; `rust` never matches less than `python`.

    `strict` is for text with undecodable bytes, which nothing matches. `steady`: nothing repeats, so that no text can
    make the search slow.
    """

    python: str
    strict: str
    rust: str | None
    steady: bool


def translate(pattern: str, *, multiline: bool) -> Dialect:
    """Translate a pattern. Raises PatternError for an invalid regular expression of this dialect."""
    dialect = _Translator(pattern, multiline=multiline).run()
    try:
        re.compile(dialect.python, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(error.msg if isinstance(error, re.error) else str(error)) from None
    return dialect


class _Translator:
    def __init__(self, pattern: str, *, multiline: bool) -> None:
        self._pattern = pattern
        self._multiline = multiline
        self._position = 0
        self._python: list[str] = []
        self._strict: list[str] = []
        self._rust: list[str] = []
        self._only_python = False
        self._steady = True

    def run(self) -> Dialect:
        while self._position < len(self._pattern):
            self._step(self._take())
        rust = None if self._only_python else "".join(self._rust)
        return Dialect("".join(self._python), "".join(self._strict), rust, self._steady)

    def _take(self, count: int = 1) -> str:
        taken = self._pattern[self._position : self._position + count]
        self._position += count
        return taken

    def _match(self, regex: str) -> "re.Match[str] | None":
        match = re.compile(regex).match(self._pattern, self._position)
        if match:
            self._position = match.end()
        return match

    def _put(self, python: str, rust: str | None = None, *, wide: bool = False) -> None:
        """Add an expression. `wide`: it may match unnamed characters, which must not include undecodable bytes."""
        self._python.append(python)
        self._strict.append(f"(?:{_UNDECODED}{python})" if wide else python)
        self._rust.append(python if rust is None else rust)

    def _step(self, character: str) -> None:
        match character:
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(":
                self._group()
            case "." | "|" | ")" | "^":
                self._put(character, wide=character == ".")
            case "$":
                self._put("$", _END)
            case "*" | "+" | "?":
                self._repeat(character)
            case "{":
                if counts := self._match(r"\d+(,\d*)?\}"):
                    self._repeat("{" + counts[0])
                else:
                    self._literal("{")
            case _:
                self._literal(character)

    def _literal(self, character: str) -> None:
        if character != "\n":
            self._put(re.escape(character), f"\\{character}" if character in _META else character)
        elif self._multiline:
            self._put(r"\n", r"(?:\r?\n)")
        else:
            raise PatternError("it contains a line break, which a line-by-line search never finds; set multiline")

    def _repeat(self, quantifier: str) -> None:
        self._steady = self._steady and quantifier == "?"
        if self._match(r"\+"):
            self._only_python = True  # possessive: Rust would read a repeated repeat
            quantifier += "+"
        elif self._match(r"\?"):
            quantifier += "?"
        self._put(quantifier)

    def _group(self) -> None:
        if not self._match(r"\?"):
            self._put("(")
        elif name := self._match(r"P?<([A-Za-z_]\w*)>"):
            self._put(f"(?P<{name[1]}>")
        elif self._match(":"):
            self._put("(?:")
        elif python := self._match(r"=|!|<=|<!|>|P=\w+|\((\w+)\)"):
            self._only_python = True
            self._put(f"(?{python[0]}")
        elif (flags := self._match(r"([ims]*)(-[ims]+)?:")) and flags[0] != ":":
            self._put(f"(?{flags[0]}")
        elif self._position == 2 and (flags := self._match(r"([imsu]+)\)")):
            self._put(f"(?{flags[1]})")
        else:
            raise PatternError("(? must be followed by a kind of group; inline flags i, m, s go to the very start")

    def _escape(self) -> None:
        if self._position == len(self._pattern):
            raise PatternError("it ends with a single backslash")
        character = self._take()
        if character in _SAME:
            self._put(*_SAME[character], wide=character in "DSW")
        elif character in "AzZ":
            self._edge(character)
        elif character in "pP":
            python, rust = self._category(negated=character == "P")
            self._put(f"[{python}]", rust, wide=character == "P")
        elif character in "123456789":
            self._only_python = True
            self._put(f"(?:\\{character})")
        else:
            self._literal(self._character(character))

    def _edge(self, character: str) -> None:
        """Put the start or end of the text, or of the line if the search goes line by line."""
        if character == "A":
            self._put(r"\A" if self._multiline else "^")
        else:
            self._put(*((r"\Z", r"\z") if self._multiline else ("$", _END)))

    def _character(self, character: str) -> str:
        """Return the single character of an escape."""
        if character in "tnrfva":
            return {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}[character]
        if character in "xuU":
            width = {"x": 2, "u": 4, "U": 8}[character]
            code = self._match(rf"\{{([0-9A-Fa-f]{{1,8}})\}}|([0-9A-Fa-f]{{{width}}})")
            number = int(code[1] or code[2], 16) if code else -1
            if 0 <= number < 0x110000 and not 0xD800 <= number < 0xE000:
                return chr(number)
            raise PatternError(f"\\{character} must be followed by the code of a character, in hexadecimal")
        if character.isalnum() and character.isascii():
            raise PatternError(f"\\{character} is not an escape here")
        return character

    def _category(self, *, negated: bool) -> tuple[str, str]:
        name = self._match(r"\{(\w+)\}|([A-Z])")
        wanted = (name[1] or name[2]) if name else ""
        inside = _category_ranges(wanted, negated=negated)
        if not inside:
            raise PatternError(r"\p takes a general category such as \p{L} or \p{Lu}; scripts are not known")
        return inside, rf"\{'P' if negated else 'p'}{{{wanted}}}"

    def _class(self) -> None:
        """Put a bracketed class; inside, only escapes, ranges and [:names:] have a meaning."""
        negated = bool(self._match(r"\^"))
        python = rust = ""
        while (character := self._take()) != "]" or not python:
            if not character:
                raise PatternError("a [ is never closed")
            if character == "[" and (name := self._match(r":(\^?)([a-z]+):\]")):
                if name[2] not in _POSIX or name[1]:
                    raise PatternError(f"[:{name[1]}{name[2]}:] is not a known class")
                piece = other = _POSIX[name[2]]
            elif character == "\\":
                piece, other = self._class_escape()
            elif character == "-":
                # a range's sign, or itself at either end
                edge = not python or self._pattern[self._position : self._position + 1] == "]"
                piece = other = r"\-" if edge else "-"
            else:
                piece = other = _in_class(character)
            python += piece
            rust += other
        start = "[^" if negated else "["
        self._put(f"{start}{python}]", f"{start}{rust}]", wide=negated)

    def _class_escape(self) -> tuple[str, str]:
        character = self._take()
        match character:
            case "d" | "D" | "w" | "W" | "S":
                return f"\\{character}", f"\\{character}"
            case "s":
                return _SPACE, r"\s"
            case "p" | "P":
                return self._category(negated=character == "P")
            case "b":
                return r"\x08", r"\x08"
            case "":
                raise PatternError("a [ is never closed")
            case _:
                literal = _in_class(self._character(character))
                return literal, literal


def _in_class(character: str) -> str:
    if character in "\\[]^-&~|":
        return f"\\{character}"
    return {"\n": r"\n", "\r": r"\r"}.get(character, character)


@lru_cache(100)
def _category_ranges(name: str, *, negated: bool) -> str:
    """Return the inside of a character class for a Unicode general category; "" if it is empty."""
    from itertools import groupby
    from unicodedata import category

    codes = (*range(0x32400), *range(0xE0000, 0xE0200))  # private and unassigned planes left out
    if not name or not any(category(chr(code)).startswith(name) for code in codes):
        return ""

    def is_inside(code: int) -> bool:
        return category(chr(code)).startswith(name) != negated and not 0xD800 <= code < 0xE000

    runs = [list(run) for inside, run in groupby(codes, is_inside) if inside]
    return "".join(f"\\U{run[0]:08x}-\\U{run[-1]:08x}" for run in runs)
