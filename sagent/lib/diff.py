"""Two texts compared line by line."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from sagent.lib.text import same_ends

LEFT_OUT = "... the rest of the diff was left out"  # the last line of a diff that is shown in part
_CONTEXT = 3
_MAX_COMPARED_PAIRS = 500_000_000  # pairs of equal lines, for each line: about a second of comparing

Opcodes: TypeAlias = list[tuple[str, int, int, int, int]]
Hunk: TypeAlias = tuple[int, int, int, int, list[tuple[str, str]]]
"""Start and length before, start and length after (from 0), and its lines: (" ", "-" or "+", text)."""


def unified(before: Sequence[str], after: Sequence[str]) -> str:
    """Return a unified diff without names; "" if the texts are equal."""
    return "\n".join(
        row
        for old, old_size, new, new_size, lines in hunks(before, after)
        for row in (f"@@ -{_span(old, old_size)} +{_span(new, new_size)} @@", *(mark + line for mark, line in lines))
    )


def hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[Hunk]:
    """Return the differences grouped with context. Equal beginnings and ends are not compared."""
    head, tail = same_ends(before, after)
    end, new_end = len(before) - tail, len(after) - tail
    groups = [
        [(tag, i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in group]
        for group in _groups(before[head:end], after[head:new_end])
    ]
    if not groups:
        return
    above, below = min(head, _CONTEXT), min(tail, _CONTEXT)
    groups[0].insert(0, ("equal", head - above, head, head - above, head))
    groups[-1].append(("equal", end, end + below, new_end, new_end + below))
    for group in groups:
        rows: list[tuple[str, str]] = []
        for tag, i1, i2, j1, j2 in group:
            rows += [(" " if tag == "equal" else "-", line) for line in before[i1:i2]]
            rows += [("+", line) for line in after[j1:j2] if tag != "equal"]
        i1, j1, i2, j2 = group[0][1], group[0][3], group[-1][2], group[-1][4]
        yield i1, i2 - i1, j1, j2 - j1, rows


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterable[Opcodes]:
    counts = Counter(new)
    most = len(new) // 100 + 1 if len(new) >= 200 else 200  # difflib ignores lines that occur more often
    pairs = sum(count for line in old if (count := counts[line]) <= most)
    if pairs * min(len(old), len(new)) > _MAX_COMPARED_PAIRS:  # one block is removed, another added
        return [[("replace", 0, len(old), 0, len(new))]]
    from difflib import SequenceMatcher

    return SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT)


def _span(start: int, size: int) -> str:
    return f"{start + 1 if size else start},{size}"
