"""Colours for a line of code in whatever language: strings, comments, numbers, words that most languages reserve.

One line at a time and without a grammar, so that a line is final the moment it has arrived.
"""

import re
from functools import cache

from sagent.repl.view.lines import Line, Span

_WORDS = (
    "and as assert async await begin break case catch class const continue def default defer del delete do elif else "
    "end enum except export extends extern final finally fn for from func function global go goto if impl import in "
    "interface is lambda let local loop match mod module mut namespace new not null nil None of or package pass "
    "private protected pub public raise return select self static struct super switch then this throw trait true false "
    "True False try type typedef typeof union unless unsafe use using var virtual void volatile where while with yield"
)
_HASH = frozenset({"", "py", "python", "sh", "bash", "zsh", "shell", "console", "yaml", "yml", "toml", "ruby", "rb"})
_TEXT = frozenset({"text", "txt", "plain", "output", "markdown", "md", "diff", "patch"})


def colour(line: str, language: str) -> Line:
    """A line of code in spans; of a diff by its first character."""
    if language in ("diff", "patch"):
        return ((_diff_style(line), line),) if line else ()
    if language in _TEXT or not line:
        return (("class:code", line),) if line else ()
    spans: list[Span] = []
    last = 0
    for match in _pattern(hashes=language in _HASH or "#" not in line).finditer(line):
        if match.start() > last:
            spans.append(("class:code", line[last : match.start()]))
        spans.append((f"class:code.{match.lastgroup}", match.group()))
        last = match.end()
    if last < len(line):
        spans.append(("class:code", line[last:]))
    return tuple(spans)


def _diff_style(line: str) -> str:
    if line.startswith("@@"):
        return "class:diff.place"
    return {"+": "class:diff.added", "-": "class:diff.removed"}.get(line[:1], "class:code")


@cache
def _pattern(*, hashes: bool) -> re.Pattern[str]:
    comment = r"//.*|/\*.*?(?:\*/|$)|--\s.*" + (r"|(?:^|(?<=\s))#.*" if hashes else "")
    words = "|".join(_WORDS.split())
    return re.compile(
        rf"""(?P<comment>{comment})|(?P<string>"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'|`[^`]*`)"""
        rf"|(?P<number>\b\d[\w.]*\b)|(?P<word>\b(?:{words})\b)"
    )
