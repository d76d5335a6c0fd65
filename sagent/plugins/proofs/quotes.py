"""Quotations of recorded output in texts: descriptions of pull requests, and messages of commits.

A quotation is a block of code that begins with three backquotes or tildes or more, `recorded` and the first digits of
an entry's id. Its lines are those of the result, from the first to the last; a line `...` leaves some out.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sagent.lib.text import fenced
from sagent.plugins.proofs.statement import Quote

_BEGIN = re.compile(
    r"([ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t>]+)*)(`{3,}|~{3,})[ \t]*recorded(?:[ \t]+(.*))?", re.IGNORECASE
)
_LINE_END = re.compile(r"\r\n|\n|\r")  # those of Markdown: a renderer sees no block begin or end elsewhere
_DOTS = ("...", "…")
MIN_ID_CHARS = 8
SHOWN_ID_CHARS = 12


class Quotation(NamedTuple):
    """A quotation in a text: the beginning of an entry's id, and the lines."""

    entry: str
    lines: tuple[str, ...]

    def source(self, quotes: Sequence[Quote]) -> tuple[Quote, int] | None:
        """Return the recorded result that has these lines, and the number of its lines that they leave out; None if no
        result has them."""
        known = (quote for quote in quotes if len(self.entry) >= MIN_ID_CHARS and quote.entry.startswith(self.entry))
        found = ((quote, self._left_out(quote)) for quote in known)
        return next(((quote, number) for quote, number in found if number is not None), None)

    def _left_out(self, quote: Quote) -> int | None:
        """Return the number of a result's lines that are left out; None if these are not its lines."""
        first, *parts = _parts(_trimmed(self.lines))
        lines = _trimmed([line.rstrip() for line in quote.text.splitlines()])
        if not parts:
            return 0 if first == lines else None
        *inner, last = parts
        end = len(lines) - len(last)
        if end < len(first) or lines[: len(first)] != first or lines[end:] != last:
            return None
        start, kept = len(first), len(first) + len(last)
        for part in inner:
            places = range(start, end - len(part) + 1)
            place = next((each for each in places if lines[each : each + len(part)] == part), None)
            if place is None:
                return None
            start, kept = place + len(part), kept + len(part)
        return len(lines) - kept if kept else None


def quoted_in(text: str) -> Iterator[Quotation]:
    """Yield the quotations in a text. A block without an end reaches to the end of the text, as in Markdown."""
    lines = iter(_LINE_END.split(text))
    for line in lines:
        if begin := _BEGIN.fullmatch(line):
            prefix, fence, entry = begin.groups()
            spaces = 3 - len(prefix) if prefix == " " * len(prefix) and len(prefix) < 3 else 0
            end = re.compile(rf" {{0,{spaces}}}{fence[0]}{{{len(fence)},}}[ \t]*")
            inner: list[str] = []
            while (row := next(lines, None)) is not None and not end.fullmatch(row := _without(prefix, row)):
                inner.append(row)
            yield Quotation((entry or "").strip(), tuple(row.rstrip() for row in "\n".join(inner).splitlines()))


def quotation(quote: Quote) -> str:
    """Return a recorded result as a block for a text."""
    return fenced(quote.text.rstrip("\n"), f"recorded {quote.entry[:SHOWN_ID_CHARS]}")


def _without(prefix: str, line: str) -> str:
    """Return a line without the marks and spaces before the block that it is in."""
    place = 0
    while place < min(len(prefix), len(line)) and (line[place] in " \t" or (line[place] == ">" and ">" in prefix)):
        place += 1
    return line[place:]


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Return lines without empty ones at both ends."""
    full = [place for place, line in enumerate(lines) if line.strip()]
    return [*lines[full[0] : full[-1] + 1]] if full else []


def _parts(lines: Sequence[str]) -> Sequence[list[str]]:
    """Return the lines between lines of dots, and before and after them."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.strip() in _DOTS:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts
