"""Quotations of recorded output in texts: descriptions of pull requests, and messages of commits.

A quotation is a block of code that begins with three backquotes or more, `recorded` and the first digits of an entry's
id. Its lines are lines of the result, in order and without a gap; a line `...` leaves some out.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sagent.lib.text import fenced
from sagent.plugins.proofs.statement import Quote

_BLOCK = re.compile(r"^(`{3,}) ?recorded ([^\n`]*)\n(.*?)^\1`*[ \t]*$", re.MULTILINE | re.DOTALL)
MIN_ID_CHARS = 8
SHOWN_ID_CHARS = 12


class Quotation(NamedTuple):
    """A quotation in a text: the beginning of an entry's id, and the lines."""

    entry: str
    lines: tuple[str, ...]

    def is_in(self, quotes: Sequence[Quote]) -> bool:
        """Return True if one of some recorded results has these lines."""
        if len(self.entry) < MIN_ID_CHARS or not any(self.lines):
            return False
        return any(self._is_of(quote) for quote in quotes if quote.entry.startswith(self.entry))

    def _is_of(self, quote: Quote) -> bool:
        left = [line.rstrip() for line in quote.text.splitlines()]
        for part in _parts(self.lines):
            places = range(len(left) - len(part) + 1)
            place = next((start for start in places if left[start : start + len(part)] == part), None)
            if place is None:
                return False
            left = left[place + len(part) :]
        return True


def quoted_in(text: str) -> Iterator[Quotation]:
    """Yield the quotations in a text."""
    for block in _BLOCK.finditer(text.replace("\r\n", "\n")):
        yield Quotation(block[2].strip(), tuple(line.rstrip() for line in block[3].splitlines()))


def quotation(quote: Quote) -> str:
    """Return a recorded result as a block for a text."""
    return fenced(quote.text.rstrip("\n"), f"recorded {quote.entry[:SHOWN_ID_CHARS]}")


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines between lines of dots."""
    part: list[str] = []
    for line in (*lines, "..."):
        if line.strip() in ("...", "…"):
            if part:
                yield part
            part = []
        else:
            part.append(line)
