"""Shell globs as regular expressions over relative paths with `/`."""

import re


def glob_regex(glob: str, *, braces: bool = True) -> str:
    """A regular expression for the whole path: `*` and `?` stay within a name, `**` spans any number of directories.

    `[a-z]` and `[!a-z]` stand for one character, `{a,b}` for either; a backslash takes the next character as it is.
    """
    return _Reader(glob, braces=braces).read()


class _Reader:
    def __init__(self, glob: str, *, braces: bool) -> None:
        self._glob = glob
        self._braces = braces and _balanced(glob)
        self._depth = 0

    def read(self) -> str:
        glob, position, out = self._glob, 0, ""
        while position < len(glob):
            character = glob[position]
            if character == "*":
                piece, position = self._stars(position)
            elif character == "[":
                piece, position = _choice(glob, position)
            elif character == "\\" and position + 1 < len(glob):
                piece, position = re.escape(glob[position + 1]), position + 2
            else:
                piece, position = self._plain(character), position + 1
            out += piece
        return out

    def _stars(self, position: int) -> tuple[str, int]:
        glob, end = self._glob, position
        while end < len(glob) and glob[end] == "*":
            end += 1
        starts = position == 0 or glob[position - 1] in ("/{," if self._braces else "/")
        if end - position >= 2 and starts:
            if glob[end : end + 1] == "/":
                return "(?:[^/]+/)*", end + 1
            if end == len(glob):
                return ".+", end
        return "[^/]*", end

    def _plain(self, character: str) -> str:
        if character == "?":
            return "[^/]"
        if self._braces and character in "{},":
            self._depth += (character == "{") - (character == "}")
            if character == ",":
                return "|" if self._depth else ","
            return "(?:" if character == "{" else ")"
        return re.escape(character)


def _choice(glob: str, position: int) -> tuple[str, int]:
    """`[...]`; a bracket that is never closed stands for itself."""
    start = position + 1
    negated = glob[start : start + 1] in ("!", "^")
    start += negated
    end = glob.find("]", start + 1)
    if end < 0:
        return r"\[", position + 1
    inside = glob[start:end].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
    inside = inside.replace("&", "\\&").replace("~", "\\~").replace("|", "\\|")
    choice = f"(?!/)[{'^' if negated else ''}{inside}]"
    try:
        re.compile(choice)
    except re.error:  # a range that runs backwards matches nothing
        return "(?!)", end + 1
    return choice, end + 1


def _balanced(glob: str) -> bool:
    depth, position = 0, 0
    while position < len(glob):
        depth += (glob[position] == "{") - (glob[position] == "}")
        position += 2 if glob[position] == "\\" else 1
        if depth < 0:
            return False
    return depth == 0
