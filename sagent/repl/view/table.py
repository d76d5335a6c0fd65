"""Rows in columns, for the pages of slash commands."""

from collections.abc import Collection, Iterable, Sequence

from sagent.repl.view.lines import Line, Span, width_of


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
    return [_row(row, sizes, right) for row in rows]


def _row(row: Sequence[Span], sizes: Sequence[int], right: Collection[int]) -> Line:
    cells: list[Span] = []
    for number, (style, text) in enumerate(row):
        gap = " " * max(sizes[number] - width_of(text), 0)
        padded = gap + text if number in right else text + gap if number < len(row) - 1 else text
        cells.append((style, f"  {padded}"))
    return tuple(cells)
