"""Text for people: safe for a terminal, on one line, with its counts."""

from collections.abc import Iterable

from sagent.lib.dataclass import dataclass

_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, which may hold any text. `right` are the columns of figures, from 0."""

    rows: tuple[tuple[str, ...], ...]
    titles: tuple[str, ...] = ()
    right: tuple[int, ...] = ()


def printable(text: str) -> str:
    """The text without control characters and what turns its direction around, so that nothing a model or a file says
    can drive the terminal or look like something else."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() or (ord(c) > 0x9F and c not in _TURNING) else "�" for c in text)


def one_line(text: str, width: int) -> str:
    """The text on one line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def count(number: int, what: str, plural: str = "") -> str:
    """A number and its noun: "1 call", "2 calls"."""
    return f"{number} {what if number == 1 else plural or what + 's'}"


def nearest(word: str, names: Iterable[str]) -> str:
    """`. Did you mean ...?`, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(names), 1, 0.6)
    return f". Did you mean {near[0]}?" if near else ""
