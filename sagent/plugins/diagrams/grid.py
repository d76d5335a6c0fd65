"""A grid of characters: lines that meet are joined, and texts lie above them."""

from collections.abc import Sequence

from sagent.repl.view.lines import width_of

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_LINES = " │││─┘┐┤─└┌├─┴┬┼"  # by the sum of the directions
_DOTTED = {UP: "┊", DOWN: "┊", UP | DOWN: "┊", LEFT: "╌", RIGHT: "╌", LEFT | RIGHT: "╌"}


class Grid:
    """Cells by row and column."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], int] = {}
        self._dotted = set[tuple[int, int]]()
        self._texts: dict[tuple[int, int], str] = {}  # "" behind a character of two columns

    def line(self, start: tuple[int, int], end: tuple[int, int], *, dotted: bool = False) -> None:
        """Draw a line down or to the right, or back."""
        (row, column), (last, right) = sorted((start, end))
        ahead, back, step = (RIGHT, LEFT, (0, 1)) if row == last else (DOWN, UP, (1, 0))
        at = (row, column)
        while True:
            inside = (ahead if at != (last, right) else 0) | (back if at != (row, column) else 0)
            self._lines[at] = self._lines.get(at, 0) | inside
            if dotted:
                self._dotted.add(at)
            if at == (last, right):
                return
            at = at[0] + step[0], at[1] + step[1]

    def box(self, row: int, column: int, height: int, width: int) -> None:
        """Draw the edge of a box."""
        low, right = row + height - 1, column + width - 1
        self.line((row, column), (row, right))
        self.line((low, column), (low, right))
        self.line((row, column), (low, column))
        self.line((row, right), (low, right))

    def text(self, row: int, column: int, text: str) -> None:
        """Write a text."""
        for character in text:
            for place in range(max(width_of(character), 1)):
                self._texts[row, column + place] = "" if place else character
            column += max(width_of(character), 1)

    def rows(self) -> Sequence[str]:
        """Return the rows, without blanks at their ends."""
        cells = {**self._lines, **self._texts}
        if not cells:
            return []
        high, wide = max(row for row, _ in cells) + 1, max(column for _, column in cells) + 1
        return ["".join(self._cell(row, column) for column in range(wide)).rstrip() for row in range(high)]

    def _cell(self, row: int, column: int) -> str:
        at = row, column
        if at in self._texts:
            return self._texts[at]
        joined = self._lines.get(at, 0)
        return _DOTTED[joined] if at in self._dotted and joined in _DOTTED else _LINES[joined]
