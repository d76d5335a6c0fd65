"""Lines of styled text: measured, cut, wrapped, and set in columns."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import sagent.lib.text

Span: TypeAlias = tuple[str, str]
"""A style ("class:strong class:link", "" for none) and a text without line ends."""
Line: TypeAlias = tuple[Span, ...]

TAB = "    "
_WORDS = re.compile(r"\s+|\S+")


def width_of(text: str) -> int:
    """Columns a text takes; control characters take none."""
    if text.isascii() and text.isprintable():
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return sum(get_cwidth(character) for character in text)


def line_width(line: Line) -> int:
    """Columns a line takes."""
    return sum(width_of(text) for _, text in line)


def plain(lines: Iterable[Line]) -> str:
    """Lines without their styles."""
    return "\n".join("".join(text for _, text in line) for line in lines)


def printable(text: str) -> str:
    """The text without control characters but line ends, so that nothing it says can drive the terminal."""
    return text if text.isprintable() else sagent.lib.text.printable(text.replace("\r\n", "\n").replace("\t", TAB))


def one_line(text: str) -> str:
    """The text on one line, white space run together."""
    return printable(" ".join(text.split()))


def cut(text: str, width: int) -> str:
    """The text in at most so many columns, with an ellipsis where something is left out."""
    if len(text) <= width and width_of(text) <= width:
        return text
    taken: list[str] = []
    room = max(width, 1) - 1
    for character in text:
        room -= width_of(character)
        if room < 0:
            break
        taken.append(character)
    return "".join(taken).rstrip() + "…"


def cut_line(line: Line, width: int) -> Line:
    """A line in at most so many columns."""
    if line_width(line) <= width:
        return line
    kept: list[Span] = []
    for style, text in line:
        size = width_of(text)
        if size >= width:
            return (*kept, (style, cut(text + " " * (size == width), width)))
        kept.append((style, text))
        width -= size
    return tuple(kept)


def slice_line(line: Line, start: int, stop: int | None = None) -> Line:
    """The characters of a line from `start` up to `stop`."""
    spans: list[Span] = []
    for style, text in line:
        if part := text[max(start, 0) : None if stop is None else max(stop, 0)]:
            spans.append((style, part))
        start -= len(text)
        stop = None if stop is None else stop - len(text)
    return tuple(spans)


def wrap(spans: Iterable[Span], width: int, first: Line = (), rest: Line | None = None) -> list[Line]:
    """Spans in lines of at most `width` columns, broken between words, and inside a word that is longer than a line.

    `first` begins the first line and `rest` the others (as wide as `first`, and empty, where left out). A text may
    hold line ends.
    """
    rest = ((("", " " * line_width(first)),) if first else ()) if rest is None else rest
    fold = _Fold(max(width, 8), first, rest)
    for style, text in spans:
        for number, part in enumerate(text.split("\n")):
            if number:
                fold.end_line()
            fold.add(style, part)
    fold.end_line()
    return fold.lines


class _Fold:
    def __init__(self, width: int, first: Line, rest: Line) -> None:
        self.lines: list[Line] = []
        self._width = width
        self._rest = rest
        self._line: list[Span] = list(first)
        self._used = self._start = line_width(first)
        self._word: list[Span] = []  # begun by an earlier span, perhaps not whole
        self._word_width = 0
        self._space: Span | None = None  # kept back: it is left out at a line's end

    def add(self, style: str, text: str) -> None:
        for piece in _WORDS.findall(text):
            if piece[0].isspace():
                self._end_word()
                if self._used > self._start or not self.lines or self._space is not None:
                    self._space = (style, (self._space[1] if self._space else "") + piece)
            else:
                self._word.append((style, piece))
                self._word_width += width_of(piece)

    def end_line(self) -> None:
        self._end_word()
        self._space = None
        self._break()

    def _break(self) -> None:
        self.lines.append(_joined(self._line))
        self._line = list(self._rest)
        self._used = self._start = line_width(self._rest)

    def _end_word(self) -> None:
        if not self._word:
            return
        space = width_of(self._space[1]) if self._space else 0
        if self._used + space + self._word_width <= self._width:
            if self._space:
                self._line.append(self._space)
                self._used += space
        elif self._used > self._start:
            self._break()
        self._space = None
        for style, text in self._word:
            self._put(style, text)
        self._word, self._word_width = [], 0

    def _put(self, style: str, text: str) -> None:
        size = width_of(text)
        while self._used + size > self._width:
            room, taken = self._width - self._used, 0
            while taken < len(text) and (room := room - width_of(text[taken])) >= 0:
                taken += 1
            if not taken and self._used == self._start:
                taken = 1  # a character wider than the line
            if taken:
                self._line.append((style, text[:taken]))
            self._break()
            text = text[taken:]
            size = width_of(text)
        if text:
            self._line.append((style, text))
            self._used += size


def _joined(spans: Sequence[Span]) -> Line:
    """Neighbours of one style as one."""
    line: list[Span] = []
    for style, text in spans:
        if line and line[-1][0] == style:
            line[-1] = (style, line[-1][1] + text)
        elif text:
            line.append((style, text))
    return tuple(line)


def table(rows: Iterable[Sequence[Span]], *, right: Collection[int] = ()) -> list[Line]:
    """Rows as lines, indented by two. Each cell is one span; the columns numbered in `right` are aligned to the right.

    A row without cells is an empty line. The last cell of a row is not padded, and may be too long for its line.
    """
    rows = list(rows)
    sizes = [0] * max(map(len, rows), default=0)
    for row in rows:
        for number, (_, text) in enumerate(row):
            if number < len(row) - 1 or number in right:
                sizes[number] = max(sizes[number], width_of(text))

    def cell(row: Sequence[Span], number: int) -> Span:
        style, text = row[number]
        gap = " " * max(sizes[number] - width_of(text), 0)
        return style, f"  {gap + text if number in right else text + gap if number < len(row) - 1 else text}"

    return [tuple(cell(row, number) for number in range(len(row))) for row in rows]
