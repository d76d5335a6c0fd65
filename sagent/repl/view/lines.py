"""Lines of styled text: measured, cut, wrapped, and set in columns."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

import sagent.lib.text

Span: TypeAlias = tuple[str, str]
"""A style ("class:strong class:link", "" for none) and a text without line ends."""
Line: TypeAlias = tuple[Span, ...]

TAB = "    "
GOES_ON: Span = ("class:goes-on", "")
"""Ends a row as wide as the terminal that continues in the next, so that copying gets one line."""
FILL = "class:fill"
"""Ends the style of a last span without text, whose background reaches to the edge."""
_NARROW = re.compile("[ -~¡-¬®-˿Α-ΡΣ-ώЀ-҂Ҋ-ԯ‐-‧‰-⁞←-⋿─-◼]*")  # characters one column wide, which most text consists of
_AGREED = re.compile("[ -~¡-¬®-˿Α-ΡΣ-ώЀ-҂Ҋ-ԯ‐-‧‰-⁞←-⋿─-◼、。ぁ-ヿ㐀-䶿一-鿿가-힣！-～]*")  # as wide in all terminals
_JOINED = re.compile("[\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U0001f1e6-\U0001f1ff]")
_FLAGS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
_WORD = re.compile(r"\S{1,500}")  # longer ones in parts: a command may be a single word of a megabyte


def width_of(text: str) -> int:
    """Return the columns of a text as drawn; invisible characters are drawn as signs."""
    if (text.isascii() and text.isprintable()) or _NARROW.fullmatch(text):
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return sum(get_cwidth(character) for character in sagent.lib.text.printable(text))


def line_width(line: Line) -> int:
    """Return the columns of a line."""
    return sum([width_of(text) for _, text in line])


def is_agreed(line: Line) -> bool:
    """Return True if all terminals draw a line with the width computed here. They differ in signs that combine, as
    flags and families do."""
    return all(map(_AGREED.fullmatch, [text for _, text in line]))


def one_sign_each(text: str) -> str:
    """Return the text with each character a sign of its own, for drawing by columns: without joiners, and with the
    letters of flags."""
    if text.isascii():
        return text
    return _JOINED.sub(lambda match: chr(ord(match[0]) - 0x1F1E6 + ord("A")) if match[0] in _FLAGS else "", text)


def plain(lines: Iterable[Line]) -> str:
    """Lines without their styles."""
    return "\n".join("".join(text for _, text in line) for line in lines)


def printable(text: str) -> str:
    """Return the text without control characters other than line ends, so that it cannot drive the terminal."""
    return text if text.isprintable() else sagent.lib.text.printable(text.replace("\r\n", "\n").expandtabs(len(TAB)))


def drawable(line: Line) -> Line:
    """Return the line as it may reach a terminal, whatever its texts hold: all that is drawn goes through here."""
    if "".join([text for _, text in line]).isprintable():
        return line
    return tuple((style, printable(text).replace("\n", " ")) for style, text in line)


def one_line(text: str) -> str:
    """Return the text on one line, with runs of white space collapsed."""
    return printable(" ".join(text.split()))


def _end(text: str, start: int, room: int) -> int:
    """Return where a text that begins at `start` must end to fit a width."""
    from prompt_toolkit.utils import get_cwidth

    if room > 0 and _NARROW.fullmatch(text, start, min(start + room, len(text))):
        start, room = start + room, 0
    for place in range(start, len(text)):
        character = text[place]
        room -= get_cwidth(character) if character.isprintable() else width_of(character)
        if room < 0:
            return place
    return len(text)


def cut(text: str, width: int) -> str:
    """Cut a text to a width, with an ellipsis if anything is left out."""
    if len(text) <= width and width_of(text) <= width:
        return text
    return text[: _end(text, 0, max(width, 1) - 1)].rstrip() + "…"


def cut_middle(text: str, width: int) -> str:
    """Cut a text with the ellipsis in the middle, for names that begin alike."""
    if width_of(text) <= width:
        return text
    head = text[: _end(text, 0, max(width - 1, 0) // 2)]
    rest = text[len(head) :][::-1]
    return f"{head}…{rest[: _end(rest, 0, max(width - 1 - width_of(head), 0))][::-1]}"


def fold_long(text: str, most: int, shown: int) -> str:
    """Return a text of which lines with more than `most` characters are their first ones and the number of the rest."""
    if len(text) <= most:
        return text
    lines = (f"{line[:shown]}{hidden(len(line) - shown)}" if len(line) > most else line for line in text.split("\n"))
    return "\n".join(lines)


def hidden(characters: int) -> str:
    """Return a note on the hidden characters of a line."""
    return f" … {characters:,} more characters · Ctrl-O"


def cut_line(line: Line, width: int) -> Line:
    """Cut a line to a width."""
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
    """Return the characters of a line from `start` up to `stop`."""
    spans: list[Span] = []
    for style, text in line:
        if part := text[max(start, 0) : None if stop is None else max(stop, 0)]:
            spans.append((style, part))
        start -= len(text)
        stop = None if stop is None else stop - len(text)
    return tuple(spans)


def alike(line: str, other: str) -> int:
    """Return the number of leading characters that both share."""
    if other.startswith(line):
        return len(line)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(line, other, strict=False)))


def fold(line: Line, width: int, *, joined: bool) -> Iterator[Line]:
    """Yield a line in rows of at most `width` columns, broken at the edge wherever that is."""
    row, room = list[Span](), width
    for style, text in line:
        at = 0
        while (end := _end(text, at, room)) < len(text):
            end = end if row else max(end, at + 1)  # a character may be wider than the row
            yield (*row, *(((style, text[at:end]),) if end > at else ()), *((GOES_ON,) if joined else ()))
            row, room, at = [], width, end
        if at < len(text) or style.endswith(FILL):
            row.append((style, text[at:]))
            room -= width_of(text[at:])
    yield tuple(row)


def wrap(spans: Iterable[Span], width: int, first: Line = (), rest: Line | None = None) -> list[Line]:
    """Break spans into lines of at most `width` columns, between words, and inside a word longer than a line.

    `first` begins the first line and `rest` the others (by default blanks as wide as `first`; a `first` that leaves
    less than half of a line gets lines of its own). A text may contain line ends.
    """
    width, size = max(width, 8 if first or rest else 2), line_width(first)
    if rest is None and size > width // 2:
        return [*wrap(first, width), *wrap(spans, width, (("", TAB),))]
    rest = ((("", " " * size),) if first else ()) if rest is None else rest
    lead, room, below = first, width - size, width - line_width(rest)
    lines: list[Line] = []
    for paragraph in _paragraphs(spans):
        text, end, more = sagent.lib.text.printable("".join([part for _, part in paragraph])), 0, True  # as it is drawn
        last = len(text.rstrip())
        while more:
            begin, end = _next_line(text, end, room, indented=not lines)
            lines.append(_joined((*lead, *slice_line(paragraph, begin, end))))
            more, lead, room = end < last, rest, below
    return lines


def _paragraphs(spans: Iterable[Span]) -> Iterator[Line]:
    """Split spans at line ends, and yield those of each line."""
    paragraph: Line = ()
    for style, text in spans:
        part, *others = text.split("\n")
        paragraph = (*paragraph, (style, part))
        for other in others:
            yield paragraph
            paragraph = ((style, other),)
    yield paragraph


def _next_line(text: str, start: int, room: int, *, indented: bool) -> tuple[int, int]:
    """Find where the next line of a text begins and ends: white space around it is left out unless `indented`."""
    if (word := _WORD.search(text, start)) is None:
        return start, start
    begin = start if indented else word.start()
    if (edge := _end(text, begin, room)) < word.end() and indented:
        begin = word.start()
        edge = _end(text, begin, room)
    if edge < word.end():
        return begin, max(edge, begin + 1)  # a character may be wider than the line
    fits = text[begin:edge]
    if edge < len(text) and not text[edge].isspace() and not fits[-1].isspace():  # inside a word
        fits = fits.removesuffix(fits.rsplit(None, 1)[-1])
    return begin, max(begin + len(fits.rstrip()), word.end())


def _joined(spans: Sequence[Span]) -> Line:
    """Merge neighbours of the same style."""
    line: list[Span] = []
    for style, text in spans:
        if line and line[-1][0] == style:
            line[-1] = (style, line[-1][1] + text)
        elif text:
            line.append((style, text))
    return tuple(line)


def table(rows: Iterable[Sequence[Span]], *, right: Collection[int] = ()) -> list[Line]:
    """Return rows as lines, indented by two. Each cell is one span; the columns in `right` are aligned to the right.

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
