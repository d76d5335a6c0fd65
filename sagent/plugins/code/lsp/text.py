"""Positions in a text as in the protocol: lines from 0, and in a line units of UTF-16."""

import re
from collections.abc import Iterator, Mapping, Sequence

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_object, as_str

END = re.compile(r"\r\n|\n|\r")  # of a line


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A replacement for a part of a text, from one offset to another."""

    start: int
    end: int
    new: str


class Lines:
    """A text by its lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(end.end() for end in END.finditer(text))]

    def line(self, number: int) -> str:
        """Return a line without its end; "" if it does not exist."""
        if not 0 <= number < len(self._starts):
            return ""
        start, *end = self._starts[number : number + 2]
        return self._text[start : end[0] if end else None].rstrip("\r\n")

    def offset(self, position: object) -> int:
        """Return the offset of a position, at most the end of its line. Raises ValueError for a line that does not
        exist."""
        place = as_object(position)
        number, units = as_int(place.get("line"), -1), as_int(place.get("character"))
        if number == len(self._starts):  # the end of the text, as some say it
            return len(self._text)
        if not 0 <= number < len(self._starts):
            raise ValueError(f"there is no line {number + 1}")
        before = self.line(number).encode("utf-16-le", "surrogatepass")[: 2 * max(units, 0)]
        return self._starts[number] + len(before.decode("utf-16-le", "ignore"))

    def position(self, offset: int) -> Mapping[str, int]:
        """Return the position of an offset."""
        from bisect import bisect_right

        number = bisect_right(self._starts, offset) - 1
        before = self._text[self._starts[number] : offset]
        return {"line": number, "character": len(before.encode("utf-16-le", "surrogatepass")) // 2}

    def find(self, word: str, near: int | None) -> Mapping[str, int] | None:
        """Find a separate word: the place nearest to a line (from 1), or the first."""
        edges = (r"(?<!\w)" if re.match(r"\w", word) else "", r"(?!\w)" if re.search(r"\w\Z", word) else "")
        places = [self.position(found.start()) for found in re.finditer(re.escape(word).join(edges), self._text)]
        return min(places, key=lambda place: abs(place["line"] + 1 - (near or 0)), default=None)


def read_edits(items: Sequence[object], lines: Lines) -> Iterator[TextEdit]:
    """Edits as the protocol has them. Raises ValueError."""
    for item in map(as_object, items):
        between, new = as_object(item.get("range")), item.get("newText")
        if not between or not isinstance(new, str):
            raise ValueError("an edit has no range or no text")
        yield TextEdit(lines.offset(between.get("start")), lines.offset(between.get("end")), as_str(new))


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Return a text with all edits made. Raises ValueError for edits that overlap."""
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < done or edit.end < edit.start:
            raise ValueError("its edits overlap")
        parts += [text[done : edit.start], edit.new]
        done = edit.end
    return "".join([*parts, text[done:]])
