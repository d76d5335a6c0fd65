"""Shell globs as regular expressions over relative paths with `/`."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, product

from sagent.errors import ToolError
from sagent.lib.gaps import ANY, CLASS, DIRECTORIES, STAR, class_regex, join_tokens

_MAX_GLOBS, _MAX_DEPTH, _MAX_CLASSES = 1_000, 50, 4
_MAX_GLOB_CHARS = 10_000
_PIECE = re.compile(rf"\*{{2,}}/|\*+|{CLASS}|\\.|.", re.DOTALL)


def glob_regex(glob: str) -> str:
    """Return a regular expression for the whole path: `*` and `?` stay within a name, `**` spans any number of
    directories.

    `[a-z]` and `[!a-z]` stand for one character, `{a, b}` for either; a backslash takes the next character as it is.
    All these are also matched literally, because a file may have such a name. Raises ToolError for braces with too many
    alternatives, and for an overlong glob.
    """
    if len(glob) > _MAX_GLOB_CHARS:
        raise ToolError(f"The glob has {len(glob):,} characters, more than {_MAX_GLOB_CHARS:,}: use a shorter one.")
    trimmed = re.sub(r"(?<=[{,])\s+|\s+(?=[,}])", "", glob)  # `{a, b}`
    pieces, *more = (_PIECE.findall(form) for form in dict.fromkeys((glob, trimmed)))
    ways = [way for form in (pieces, *more) if _balanced(form) for way in _ways(iter(form), 0)]
    lettered = ["\\\\" if piece == "\\" else piece for piece in re.findall(r"\*{2,}/|\*+|.", glob, re.DOTALL)]
    every = [form for way in ways for form in _choices(way, max(1, _MAX_GLOBS // len(ways)))]
    return "|".join(dict.fromkeys(join_tokens(_tokens(way)) for way in (*every, pieces, lettered)))


def ignore_regex(glob: str) -> str:
    """Return a regular expression for a line of an ignore file, which git reads as a glob without braces and literal
    readings. An unclosed bracket and a final backslash match nothing."""
    pieces: list[str] = _PIECE.findall(glob)
    return "(?!)" if "[" in pieces or "\\" in pieces else join_tokens(_tokens(pieces))


def _choices(glob: list[str], limit: int) -> Iterator[list[str]]:
    """Yield a glob with each reading of its brackets, as a class or literally; `limit` at most."""
    classes = [at for at, piece in enumerate(glob) if len(piece) > 1 and piece[0] == "["]
    for choice in islice(product((False, True), repeat=min(len(classes), _MAX_CLASSES)), limit):
        plain = {at for at, is_plain in zip(classes, choice, strict=False) if is_plain}
        yield [each for i, piece in enumerate(glob) for each in (map("\\{}".format, piece) if i in plain else [piece])]


def _ways(pieces: Iterator[str], depth: int) -> list[list[str]]:
    """Return the alternative globs without braces, up to the end of the current brace."""
    done: list[list[str]] = []
    ways: list[list[str]] = [[]]
    for piece in pieces:
        if piece == "}":
            break
        if piece == "," and depth:
            done, ways = done + ways, [[]]
            continue
        more = _ways(pieces, depth + 1) if piece == "{" else [[piece]]
        if depth > _MAX_DEPTH or len(done) + len(ways) * len(more) > _MAX_GLOBS:
            raise ToolError(f"The glob's braces stand for more than {_MAX_GLOBS} globs: use several simpler ones.")
        if len(more) == 1:
            for way in ways:
                way.extend(more[0])
        else:
            ways = [way + each for way in ways for each in more]
    return done + ways


def _tokens(pieces: Sequence[str]) -> Sequence[str]:
    out: list[str] = []
    for place, piece in enumerate(pieces):
        is_name = not out or out[-1] in ("/", DIRECTORIES)
        if piece.startswith("*"):
            if piece.endswith("/"):
                out += [DIRECTORIES] if is_name else [STAR, "/"]
            else:
                out += ["[^/]", ANY] if is_name and len(piece) > 1 and place == len(pieces) - 1 else [STAR]
        elif len(piece) > 1:
            out.append(re.escape(piece[1]) if piece.startswith("\\") else class_regex(piece))
        else:
            out.append("[^/]" if piece == "?" else re.escape(piece))
    return out


def _balanced(pieces: Sequence[str]) -> bool:
    depths = [0, *accumulate((piece == "{") - (piece == "}") for piece in pieces)]
    return min(depths) == depths[-1] == 0
