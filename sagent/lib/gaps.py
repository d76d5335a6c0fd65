"""Patterns for paths as regular expressions that no pattern makes slow."""

import re
from collections.abc import Callable, Collection, Sequence

STAR, ANY, DIRECTORIES = "[^/]*", ".*", "(?:.*/)?"
"""Within a name; across names; any number of whole directories, at the beginning or after a slash."""
CLASS = r"\[[!^]?+(?>\[:[^\]]*:\]|\\.|[^\\])(?:\[:[^\]]*:\]|\\.|[^\]\\])*+\]"  # of letters, with `re.DOTALL`
_LAZY_PATTERNS = {STAR: "[^/]*?", ANY: ".*?", DIRECTORIES: "(?:.*?/)??"}


def join_tokens(tokens: Sequence[str]) -> str:
    """Join gaps, as above, and expressions of one character, which is a slash or cannot be one, with `re.DOTALL`.

    A part between two gaps can match at its first position, because the second gap reaches everything the first could
    have. So it is fixed there (an atomic group), and only the part after the last gap is tried in several positions.
    """
    return _join(tokens, (ANY, DIRECTORIES), lambda block: _join(block, (STAR,), "".join))


def _join(tokens: Sequence[str], gaps: Collection[str], inner: Callable[[Sequence[str]], str]) -> str:
    starts = [place for place, token in enumerate(tokens) if token in gaps]
    blocks = [inner(tokens[: starts[0]] if starts else tokens)]
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=False):
        blocks.append(_LAZY_PATTERNS[tokens[start]] + inner(tokens[start + 1 : end]))
    return "".join(f"(?>{block})" for block in blocks[:-1] if block) + blocks[-1]


_ITEM = re.compile(r"\[:([^\]]+):\]|\\?(.)(?:-\\?(.))?", re.DOTALL)
_POSIX = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \t", "cntrl": "\0-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": "\t-\r ", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def class_regex(piece: str) -> str:
    """Return a `CLASS` as a regular expression of one character, as git and shells read it: with `\\-`, `[:digit:]`.

    A range that runs backwards is empty. https://git-scm.com/docs/gitignore
    """
    out: list[str] = []
    for posix, first, last in _ITEM.findall(piece[1 + (piece[1] in "!^") : -1]):
        if posix and posix not in _POSIX:
            return "(?!)"
        if not last or first <= last:
            out.append(_POSIX[posix] if posix else re.escape(first) + (f"-{re.escape(last)}" if last else ""))
    if piece[1] in "!^":
        return f"[^/{''.join(out)}]"
    return f"(?!/)[{''.join(out)}]" if out else "(?!)"
