"""Lines of files, and edits: the steps from one content to another, which anybody can check by making them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sagent.lib.diff import hunks

MAX_TEXT_BYTES = 4 << 20
"""Bytes of a text whose lines are told apart; a larger one is proven as a whole."""


class Edit(NamedTuple):
    """Lines that replace others: from `start`, counted from 0, `removed` lines before become `added` lines after."""

    start: int
    removed: int
    added: int


def is_text(data: bytes) -> bool:
    """Return True for content that is compared line by line."""
    return len(data) <= MAX_TEXT_BYTES and b"\0" not in data[:8000]


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a text, each with its end."""
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def same_ends(line: bytes) -> bytes:
    """Return a line as lines are compared between a log and git, which may have changed its end."""
    return line[:-2] + b"\n" if line.endswith(b"\r\n") else line


def edits(before: Sequence[bytes], after: Sequence[bytes]) -> tuple[Edit, ...]:
    """Return the steps from some lines to others."""
    old, new = ([line.decode("latin-1") for line in lines] for lines in (before, after))
    found: list[Edit] = []
    for start, _, _, _, rows in hunks(old, new):
        place, removed, added = start, 0, 0
        for mark, _ in (*rows, (" ", "")):
            if mark == " ":
                found += [Edit(place - removed, removed, added)] if removed or added else []
                place, removed, added = place + 1, 0, 0
            elif mark == "-":
                place, removed = place + 1, removed + 1
            else:
                added += 1
    return tuple(found)


def changed_lines(
    before: Sequence[bytes], after: Sequence[bytes], steps: Sequence[Edit]
) -> tuple[list[int], list[int]]:
    """Return the numbers, from 0, of the removed lines and of the added ones. Raises ValueError for steps that do not
    lead from the one to the other."""
    old = new = 0
    removed: list[int] = []
    added: list[int] = []
    for step in (*steps, Edit(len(before), 0, 0)):
        kept = step.start - old
        if min(kept, step.removed, step.added) < 0 or before[old : step.start] != after[new : new + kept]:
            raise ValueError("its steps do not lead from the file before to the file after")
        new += kept
        removed += range(step.start, step.start + step.removed)
        added += range(new, new + step.added)
        old, new = step.start + step.removed, new + step.added
    if (old, new) != (len(before), len(after)):
        raise ValueError("its steps do not lead from the file before to the file after")
    return removed, added


def gained(before: Sequence[bytes], after: Sequence[bytes]) -> Counter[bytes]:
    """Return the lines that are more often in one text than in another, and how much more often."""
    return Counter(map(same_ends, after)) - Counter(map(same_ends, before))


def differing(expected: Sequence[bytes], actual: Sequence[bytes]) -> Iterator[tuple[str, int, bytes]]:
    """Yield the differences between two texts: "+" and the number of a line of the second, or "-" and one of the
    first, numbered from 1, with the line."""
    removed, added = changed_lines(expected, actual, edits(expected, actual))
    yield from (("+", number + 1, actual[number]) for number in added)
    yield from (("-", number + 1, expected[number]) for number in removed)
