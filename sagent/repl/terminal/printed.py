"""Count of how much of a growing block is on the terminal for good, whatever width its rows have."""

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from sagent.repl.view.lines import GOES_ON, Line, fold, is_agreed, line_width, slice_line

MAX_BURIED_ROWS = 200  # more than an enlarged terminal shows again


class Printed:
    """The first printed rows of a block, and a number of letters and digits in the next row. In another width the
    position is found by counting these, because blanks and marks differ between widths."""

    def __init__(self) -> None:
        self._rows = self._letters = self._width = 0
        self._block: Sequence[Line] = ()  # its rows in that width
        self._used_up = False  # whether the partial row was used up at the last look

    def __bool__(self) -> bool:
        return bool(self.letters)

    def clear(self) -> None:
        """Begin with another block."""
        self._rows = self._letters = self._width = 0
        self._block, self._used_up = (), False

    def add(self, rows: int, letters: int = 0) -> None:
        """Count more rows as final, and letters of the row after them."""
        if self._used_up and (rows or letters):  # these come after that row
            self._rows, self._letters, self._used_up = self._rows + 1, 0, False
        self._letters = letters + (0 if rows else self._letters)
        self._rows += rows

    def rest(self, block: Sequence[Line], width: int) -> list[Line]:
        """Return the part of a block that is not final yet; `block` has its rows in that width."""
        if width != self._width and (self._rows or self._letters):
            self._rows, self._letters = _place(block, self.letters)
        self._block, self._width = block, width
        rest = list(block[self._rows :])
        self._used_up = False
        if self._letters and rest:
            rest[:1] = [row] if (row := _after(rest[0], self._letters)) else []
            self._used_up = not row
        return rest

    def finish(self, piece: Sequence[Line], width: int) -> list[Line]:
        """Return the unprinted rest of a piece at the block's start; the block then begins after it."""
        if not self._rows and not self._letters:
            return list(piece)
        final = self.letters - sum(map(count_letters, piece))
        rest = self.rest(piece, width)
        self._rows, self._letters, self._width, self._used_up = 0, max(final, 0), 0, False
        return rest

    @property
    def letters(self) -> int:
        """Letters that are final."""
        return sum(map(count_letters, self._block[: self._rows])) + self._letters


def count_letters(row: Line) -> int:
    """Return the letters and digits in a row."""
    return sum(character.isalnum() for _, text in row for character in text)


def _place(rows: Sequence[Line], letters: int) -> tuple[int, int]:
    """Return the row of the letter at a position, and the letters before it there."""
    for number, row in enumerate(rows):
        here = count_letters(row)
        if letters < here or (letters == here and number == len(rows) - 1):  # the last row may go on
            return number, letters
        letters -= here
    return len(rows), 0


def _after(row: Line, letters: int) -> Line:
    """Return the rest of a row after a number of letters and the marks that follow."""
    text = "".join(text for _, text in row)
    at = [at for at, character in enumerate(text) if character.isalnum()][:letters][-1] + 1
    while at < len(text) and not text[at].isalnum() and not text[at].isspace():
        at += 1
    return slice_line(row, len(text) - len(text[at:].lstrip()))


class HiddenRows:
    """Drawn rows, as their widths, that a lower terminal has pushed above its edge, and the final rows written below
    them. If the terminal shows them again, the drawn ones are removed."""

    def __init__(self) -> None:
        self._rows: list[int | Line] = []  # rows that continue in the next are merged

    def __bool__(self) -> bool:
        return bool(self._rows)

    def clear(self) -> None:
        """Forget the rows, because other output was written below them."""
        self._rows = []

    def add(self, rows: Iterable[int | Line]) -> None:
        for row in rows:
            if isinstance(row, tuple) and self._rows and _goes_on(last := self._rows[-1]):
                self._rows[-1] = (*last[:-1], *row)
            else:
                self._rows.append(row)
        if len(self._rows) > MAX_BURIED_ROWS:
            self.clear()

    def dig(self, columns: int, room: int) -> tuple[int, list[Line]]:
        """Return how many of the last `room` rows begin at the first drawn one, and the lines to write again. They are
        forgotten then."""
        if any(not _is_counted(row, columns) for row in self._rows) or (self._rows and _goes_on(self._rows[-1])):
            return 0, []
        first, rows, found = len(self._rows), 0, 0
        for at in range(first - 1, -1, -1):
            rows += folded(row := self._rows[at], columns)
            if rows <= room and isinstance(row, int):
                first, found = at, rows
        self._rows, kept = self._rows[:first], self._rows[first:]
        return found, [part for row in kept if isinstance(row, tuple) for part in fold(row, columns, joined=True)]


def _is_counted(row: int | Line, columns: int) -> bool:
    """Return True if all terminals agree on the number of its rows."""
    return isinstance(row, int) or is_agreed(row) or 2 * line_width(row) <= columns


def _goes_on(row: int | Line) -> TypeGuard[Line]:
    return isinstance(row, tuple) and row[-1:] == (GOES_ON,)


def folded(row: int | Line, columns: int) -> int:
    """Return the rows that a narrower terminal makes of a row, or of one of this width."""
    return max(1, -(-(row if isinstance(row, int) else line_width(row)) // columns))
