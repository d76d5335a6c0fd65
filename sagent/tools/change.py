"""A change of a text, shown: as a unified diff for people, as numbered lines for the model."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import eq

_CONTEXT = 3
_MOST_DIFF = 400  # lines
_MOST_SHOWN = 40  # lines
_MOST_COMPARED = 3_000  # lines on either side between the first and the last difference

Opcodes = list[tuple[str, int, int, int, int]]
Hunk = tuple[int, int, int, int, list[tuple[str, str]]]
"""Start and length before, start and length after (from 0), and its lines: (" ", "-" or "+", text)."""


def unified_diff(before: str, after: str, name: str) -> str:
    """The change as a unified diff, at most a few hundred lines; "" when nothing changed."""
    lines: list[str] = []
    for old, old_size, new, new_size, rows in _hunks(_lines(before), _lines(after)):
        lines.append(f"@@ -{_span(old, old_size)} +{_span(new, new_size)} @@")
        lines += [mark + text for mark, text in rows]
        if len(lines) > _MOST_DIFF:
            lines = [*lines[:_MOST_DIFF], "... the rest of the diff is left out"]
            break
    return "\n".join([f"--- a/{name}", f"+++ b/{name}", *lines]) + "\n" if lines else ""


def changed_lines(before: str, after: str) -> str:
    """The changed places as they are now, with line numbers and a little around them."""
    shown: list[str] = []
    for _, _, new, _, rows in _hunks(_lines(before), _lines(after)):
        if shown:
            shown.append("...")
        number = new
        for mark, text in rows:
            if mark != "-":
                number += 1
                line, _, _ = text.partition("\n")
                shown.append(f"{number}\t{line[:300]}")
        if len(shown) > _MOST_SHOWN:
            return "\n".join([*shown[:_MOST_SHOWN], "..."])
    return "\n".join(shown)


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[Hunk]:
    """Differences grouped with their context. What is equal at both ends is skipped before anything is compared."""
    head = sum(takewhile(bool, map(eq, before, after)))
    room = min(len(before), len(after)) - head
    tail = min(room, sum(takewhile(bool, map(eq, reversed(before), reversed(after)))))
    first = max(0, head - _CONTEXT)
    old = before[first : len(before) - max(0, tail - _CONTEXT)]
    new = after[first : len(after) - max(0, tail - _CONTEXT)]
    if old == new:
        return
    for group in _groups(old, new, (head - first, min(tail, _CONTEXT))):
        rows: list[tuple[str, str]] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                rows += [(" ", line) for line in old[i1:i2]]
            else:
                rows += [("-", line) for line in old[i1:i2]]
                rows += [("+", line) for line in new[j1:j2]]
        i1, j1, i2, j2 = group[0][1], group[0][3], group[-1][2], group[-1][4]
        yield first + i1, i2 - i1, first + j1, j2 - j1, rows


def _groups(old: Sequence[str], new: Sequence[str], around: tuple[int, int]) -> Iterator[Opcodes]:
    if max(len(old), len(new)) <= _MOST_COMPARED:
        from difflib import SequenceMatcher

        yield from SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT)
        return
    head, tail = around  # too much to compare: one block goes, another comes
    i, j = len(old) - tail, len(new) - tail
    yield [
        ("equal", 0, head, 0, head),
        ("replace", head, i, head, j),
        ("equal", i, len(old), j, len(new)),
    ]


def _lines(text: str) -> list[str]:
    """Lines without their ends. A last line without one says so in a second line, as diff writes it."""
    if not text:
        return []
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], lines[-1] + "\n\\ No newline at end of file"]


def _span(start: int, size: int) -> str:
    return f"{start + 1 if size else start},{size}"
