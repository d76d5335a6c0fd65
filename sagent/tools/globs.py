"""Shell globs as regular expressions over relative paths with `/`."""

import re

_PIECE = re.compile(r"\*{2,}/|\*+|\[[!^]?+.[^\]]*\]|\\.|.", re.DOTALL)


def glob_regex(glob: str, *, braces: bool = True) -> str:
    """A regular expression for the whole path: `*` and `?` stay within a name, `**` spans any number of directories.

    `[a-z]` and `[!a-z]` stand for one character, `{a,b}` for either; a backslash takes the next character as it is.
    """
    braces = braces and _balanced(glob)
    depth, out = 0, ""
    for match in _PIECE.finditer(glob):
        piece, start = match[0], match.start()
        if piece.startswith("*"):
            is_name = start == 0 or glob[start - 1] in ("/{," if braces else "/")
            if piece.endswith("/"):
                out += "(?:[^/]+/)*" if is_name else "[^/]*/"
            else:
                out += ".+" if is_name and len(piece) > 1 and match.end() == len(glob) else "[^/]*"
        elif len(piece) > 1:
            out += re.escape(piece[1]) if piece.startswith("\\") else _choice(piece)
        elif braces and piece in "{},":
            depth += (piece == "{") - (piece == "}")
            out += {"{": "(?:", "}": ")", ",": "|" if depth else ","}[piece]
        else:
            out += "[^/]" if piece == "?" else re.escape(piece)
    return out


def _choice(piece: str) -> str:
    """`[...]`."""
    negated = piece[1] in "!^"
    inside = re.sub(r"([\\\[^&~|])", r"\\\1", piece[1 + negated : -1])
    choice = f"(?!/)[{'^' if negated else ''}{inside}]"
    try:
        re.compile(choice)
    except re.error:  # a range that runs backwards matches nothing
        return "(?!)"
    return choice


def _balanced(glob: str) -> bool:
    depth = 0
    for piece in re.findall(r"\\.|[{}]", glob, re.DOTALL):
        depth += (piece == "{") - (piece == "}")
        if depth < 0:
            return False
    return depth == 0
