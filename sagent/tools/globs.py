"""Shell globs as regular expressions over relative paths with `/`."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, product

from sagent.errors import ToolError
from sagent.lib.gaps import ANY, DIRECTORIES, STAR, join_tokens

_MAX_GLOBS, _MAX_DEPTH, _MAX_CLASSES = 1_000, 50, 4
_MAX_CHARACTERS = 10_000
_RANGES = re.compile(r"(.)-(.)|.", re.DOTALL)
_PIECE = re.compile(r"\*{2,}/|\*+|\[[!^]?+.[^\]]*\]|\\.|.", re.DOTALL)


def glob_regex(glob: str) -> str:
    """Return a regular expression for the whole path: `*` and `?` stay within a name, `**` spans any number of
    directories.

    `[a-z]` and `[!a-z]` stand for one character, `{a,b}` for either; a backslash takes the next character as it is. As
    a file may be called like that, these are also taken by the letter. Raises ToolError for braces that stand for too
    many globs, and for a glob that no path is as long as.
    """
    if len(glob) > _MAX_CHARACTERS:
        raise ToolError(f"The glob has {len(glob):,} characters, more than {_MAX_CHARACTERS:,}: use a shorter one.")
    pieces: list[str] = _PIECE.findall(glob)
    ways = _ways(iter(pieces), 0) if _balanced(pieces) else []
    lettered = ["\\\\" if piece == "\\" else piece for piece in re.findall(r"\*{2,}/|\*+|.", glob, re.DOTALL)]
    every = [form for way in ways for form in _choices(way, _MAX_GLOBS // len(ways))]
    return "|".join(dict.fromkeys(join_tokens(_tokens(way)) for way in (*every, pieces, lettered)))


def ignore_regex(glob: str) -> str:
    """Return a regular expression for a line of an ignore file, which git takes as a glob without braces, and no other
    way."""
    return join_tokens(_tokens(_PIECE.findall(glob)))


def _choices(way: list[str], most: int) -> Iterator[list[str]]:
    """Yield a glob with each choice of what is a class, and what are brackets in a name; `most` at most."""
    classes = [at for at, piece in enumerate(way) if len(piece) > 1 and piece[0] == "["]
    for choice in islice(product((False, True), repeat=min(len(classes), _MAX_CLASSES)), most):
        plain = {at for at, is_plain in zip(classes, choice, strict=False) if is_plain}
        yield [each for at, piece in enumerate(way) for each in (map("\\{}".format, piece) if at in plain else [piece])]


def _ways(pieces: Iterator[str], depth: int) -> list[list[str]]:
    """The globs without braces that are meant, up to where the brace ends that is open."""
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
            out.append(re.escape(piece[1]) if piece.startswith("\\") else _choice(piece))
        else:
            out.append("[^/]" if piece == "?" else re.escape(piece))
    return out


def _choice(piece: str) -> str:
    """`[...]`."""
    negated = piece[1] in "!^"
    inside = _RANGES.sub(_escaped, piece[1 + negated : -1])
    choice = f"(?!/)[{'^' if negated else ''}{inside}]"
    try:
        re.compile(choice)
    except re.error:  # a range that runs backwards matches nothing
        return "(?!)"
    return choice


def _escaped(found: re.Match[str]) -> str:
    """Return a character or a range within `[...]`; the signs that may come to mean sets of characters mean
    themselves."""
    first, last = found.groups()
    return re.escape(found[0]) if last is None else f"{re.escape(first)}-{re.escape(last)}"


def _balanced(pieces: Sequence[str]) -> bool:
    depth = 0
    for piece in pieces:
        depth += (piece == "{") - (piece == "}")
        if depth < 0:
            return False
    return depth == 0
