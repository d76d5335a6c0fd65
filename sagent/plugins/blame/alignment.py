"""The lines of a new version of a text, traced to an old one: by every longest common subsequence, not by one of them.

A diff chooses one of several alignments when lines repeat. Here a line keeps the origins of all old lines that it may
be, so that nothing depends on that choice.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.text import same_ends

Origins: TypeAlias = frozenset[int]
"""Possible origins of a line, by number."""

MAX_VISITED = 200_000  # cells of the table of one region
MAX_CELLS = 100_000_000  # old lines times new lines of one region
_MAX_COUNTED = 16  # lines that are counted one by one, before all are


@dataclass(frozen=True, slots=True)
class Region:
    """The lines that may differ between two versions: `start`, and the ends in the old and the new one."""

    start: int
    old_end: int
    new_end: int


def trace(
    old: Sequence[bytes], new: Sequence[bytes], origins: Sequence[Origins], added: Origins
) -> tuple[list[Origins], Region]:
    """Return the origins of the new lines, given those of the old ones; a line that may be new has `added` too. Also
    return the region outside which all lines are surely kept."""
    region = changed_region(old, new)
    start, old_end, new_end = region.start, region.old_end, region.new_end
    if start == old_end == new_end:
        return [*origins], region
    inner = _align(old[start:old_end], new[start:new_end], origins[start:old_end], added)
    return [*origins[:start], *inner, *origins[old_end:]], region


def changed_region(old: Sequence[bytes], new: Sequence[bytes]) -> Region:
    """Return the region outside which every longest common subsequence keeps all lines.

    Equal beginnings count up to their last line that occurs once in both versions: it is in every such subsequence, and
    the lines before it must then be kept too. Likewise for equal ends.
    """
    head, tail = same_ends(old, new)
    if head == len(old) == len(new):
        return Region(head, head, head)
    head = _anchored(old, new, range(head - 1, -1, -1)) + 1
    below = _anchored(old[::-1], new[::-1], range(tail - 1, -1, -1)) + 1
    return Region(head, len(old) - below, len(new) - below)


def _anchored(old: Sequence[bytes], new: Sequence[bytes], places: range) -> int:
    """Return the first of some places with a line that occurs once in both texts; -1 if there is none."""
    for place in places[:_MAX_COUNTED]:
        if old.count(old[place]) == 1 and new.count(old[place]) == 1:
            return place
    if len(places) <= _MAX_COUNTED:
        return -1
    before, after = Counter(old), Counter(new)
    rest = (place for place in places[_MAX_COUNTED:] if before[old[place]] == 1 and after[old[place]] == 1)
    return next(rest, -1)


def _align(old: Sequence[bytes], new: Sequence[bytes], origins: Sequence[Origins], added: Origins) -> Iterable[Origins]:
    if not old or not new:
        return [added] * len(new)
    found = _Paths(old, new)
    if len(old) * len(new) > MAX_CELLS or not found.walk():
        return _any(new, _places(old), origins, added)
    sure = {next(iter(columns)) for columns in found.by_rank.values() if len(columns) == 1}
    return [
        frozenset[int]().union(*(origins[row] for row in rows), () if column in sure else added)
        for column, rows in enumerate(found.kept)
    ]


class _Paths:
    """All longest common subsequences of two texts.

    `kept` are the old lines that each new one may be, `by_rank` the new lines that may be first, second and so on.
    """

    def __init__(self, old: Sequence[bytes], new: Sequence[bytes]) -> None:
        self.kept: list[set[int]] = [set() for _ in new]
        self.by_rank: dict[int, set[int]] = defaultdict(set)
        self._old, self._new = old, new

    def walk(self) -> bool:
        """Walk over the cells of the table, row by row, through which a longest subsequence goes. Return False if there
        are too many."""
        rows, columns = len(self._old), len(self._new)
        forward, backward = _rows(self._old, self._new), _rows(self._old[::-1], self._new[::-1])
        longest = forward[rows].bit_count()
        reached, cells = {0}, 0
        for row in range(rows + 1):
            here, below = forward[row], backward[rows - row]
            after = backward[rows - row - 1] if row < rows else 0
            waiting, seen, further = [*reached], set(reached), set[int]()
            while waiting:
                column = waiting.pop()
                cells += 1
                rank = (here & ((1 << column) - 1)).bit_count()
                if column < columns:
                    rest = (1 << (columns - column - 1)) - 1
                    if column + 1 not in seen and _length(here, column + 1) + (below & rest).bit_count() == longest:
                        seen.add(column + 1)
                        waiting.append(column + 1)
                    is_equal = row < rows and self._old[row] == self._new[column]
                    if is_equal and rank + 1 + (after & rest).bit_count() == longest:
                        self.kept[column].add(row)
                        self.by_rank[rank].add(column)
                        further.add(column + 1)
                if row < rows:
                    rest = (1 << (columns - column)) - 1
                    if _length(forward[row + 1], column) + (after & rest).bit_count() == longest:
                        further.add(column)
            if cells > MAX_VISITED:
                return False
            reached = further
        return True


def _length(row: int, column: int) -> int:
    return (row & ((1 << column) - 1)).bit_count()


def _places(lines: Sequence[bytes]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = defaultdict(list)
    for place, line in enumerate(lines):
        found[line].append(place)
    return dict(found)


def _any(
    new: Sequence[bytes], places: dict[bytes, list[int]], origins: Sequence[Origins], added: Origins
) -> Iterable[Origins]:
    """Return all origins of equal lines, for texts that are too repetitive to compare."""
    by_text = {line: added.union(*(origins[row] for row in rows)) for line, rows in places.items()}
    return [by_text.get(line, added) for line in new]


def _rows(old: Sequence[bytes], new: Sequence[bytes]) -> list[int]:
    """Return for each number of old lines a bit for each new line at which the longest common subsequence grows.

    This is the bit-parallel algorithm of Hyyrö (2004): one addition of whole numbers for each old line.
    """
    whole = (1 << len(new)) - 1
    masks: dict[bytes, int] = defaultdict(int)
    for place, line in enumerate(new):
        masks[line] |= 1 << place
    value, found = whole, [0]
    for line in old:
        mask = masks.get(line, 0)
        shared = value & mask
        value = ((value + shared) | (value - shared)) & whole
        found.append(whole & ~value)
    return found
