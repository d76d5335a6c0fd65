"""Command lines of sed: recognizes those that certainly only print, or change, the text they read.

https://www.gnu.org/software/sed/manual/sed.html: `e` and `s///e` run commands, `w`, `W` and `s///w` write files, `r`
and `R` read further ones, `-i` changes its files, and a script in a file (`-f`) may do any of that.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sagent.policy.shell import Word

_OPTION = re.compile(
    r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|separate|unbuffered|null-data|posix|debug|sandbox)|-?-"
)
_IN_PLACE = re.compile(r"-[nErsuz]*i[.~\w]*|--in-place(?:=[.~\w]*)?")
_EXPRESSION = re.compile(r"(?:-[nErsuz]*e|--expression(?:=|\Z))(.*)", re.DOTALL)


def _between(mark: str) -> str:
    """Return a regular expression for the text before a delimiter. No bracket that could hide one is matched."""
    return rf"(?:[^{mark}\\\n\[]|\\[^\n]|\[\^?\]?[^\]{mark}\\\n\[]*\])*"


def _script() -> str:
    number, pattern = r"[0-9]+(?:~[0-9]+)?|\$", _between("/")
    address = rf"(?:{number}|/{pattern}/I?)"
    texts = {re.escape(mark): rf"(?:[^{mark}\\\n]|\\[^\n])*" for mark in "/|,#@"}
    replace = "|".join(
        f"s{m}{_between(m[-1])}{m}{text}{m}[gIimMp0-9]*|y{m}{text}{m}{text}{m}" for m, text in texts.items()
    )
    command = rf"(?:{address}(?:,(?:{address}|[+~][0-9]+))?)? *!? *(?:[pdPDnNgGhHxz=]|[qQl] *[0-9]*|{replace})"
    return rf"\s*{command}(?:\s*[;\n]\s*{command})*\s*;?\s*"


_SCRIPT = re.compile(_script())


def edits_text(script: str) -> bool:
    """Return True if a script certainly runs no command and opens no file."""
    return _SCRIPT.fullmatch(script) is not None


def sed_acts(arguments: "Sequence[Word]", start: int = 0, *, edits: bool = False) -> bool:
    """Return True if one of the words from `start` on may make sed do more than print its input, or with `edits` more
    than change the named files."""
    has_script = waits = ends = False
    for at, word in enumerate(arguments):
        text, harmless = word.text, word.kind == "literal"
        if waits:
            harmless, waits = harmless and edits_text(text), False
        elif not ends and (match := _EXPRESSION.fullmatch(text)):
            has_script, waits = True, not match[1]
            harmless = harmless and (waits or edits_text(match[1]))
        elif not ends and text.startswith("-"):
            known = _OPTION.fullmatch(text) or (edits and _IN_PLACE.fullmatch(text))
            harmless, ends = harmless and bool(known), text == "--"
        elif not has_script:
            has_script, harmless = True, harmless and edits_text(text)
        else:
            harmless = word.kind != "dynamic" and (ends or word.kind != "glob" or text[:1] not in "-*?[")
        if not harmless and at >= start:
            return True
    return False
