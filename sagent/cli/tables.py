"""Output of commands: JSON, lines, and tables, fitted to a terminal by rich; elsewhere one row a line."""

import os
import sys
from collections.abc import Iterable
from io import StringIO
from itertools import count
from shutil import get_terminal_size
from typing import TextIO

from sagent.lib.json import json_dump
from sagent.lib.text import Table, printable

_NARROW = 60  # columns of a terminal below which tables are narrower


def show(value: object, blocks: Iterable[str | Table], *, as_json: bool) -> None:
    """Write a result to standard output: as one JSON object, or as lines and tables."""
    from sagent.cli.render import binary_safe

    out = binary_safe(sys.stdout)
    if as_json:
        out.write(json_dump(value) + "\n")
    else:
        write(out, blocks)
    out.flush()


def write(out: TextIO, blocks: Iterable[str | Table]) -> None:
    """Write lines and tables, which may contain any text."""
    out.writelines(
        draw(block, on_terminal=out.isatty()) if isinstance(block, Table) else f"{printable(block)}\n"
        for block in blocks
    )


def draw(table: Table, *, on_terminal: bool) -> str:
    """Return the table as text. Cells are never read as markup."""
    if not on_terminal:
        return _draw_plain(table)
    if not table.rows and not table.titles:
        return ""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    def cell(text: str) -> Text:
        return Text(printable(text))

    width = get_terminal_size().columns
    gap = 1 if width < _NARROW else 2
    grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=bool(table.titles))
    for number, title in enumerate(table.titles or ("",) * max(map(len, table.rows), default=0)):
        figures = number in table.right
        widest = max((len(row[number]) for row in table.rows if number < len(row)), default=0)
        least = widest if figures else min(widest, 8)  # a figure must not lose its end
        grid.add_column(cell(title), justify="right" if figures else "left", overflow="fold", min_width=least)
    for row in table.rows:
        grid.add_row(*map(cell, row))
    console = Console(
        file=StringIO(),
        width=width,
        height=1,  # by default, rich assumes 80 columns for a dumb terminal
        force_terminal=True,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )
    with console.capture() as captured:
        console.print(grid, crop=False)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().removesuffix("\n").split("\n"))


def _draw_plain(table: Table) -> str:
    """Write one row a line, uncut, each column as wide as its widest cell."""
    rows = [
        [" ".join(printable(cell).replace("\t", " ").splitlines()) for cell in row]
        for row in (table.titles, *table.rows)
        if row
    ]
    widths = [0] * max(map(len, rows), default=0)
    for row in rows:
        widths[: len(row)] = map(max, widths, map(_columns, row))

    def fitted(cell: str, number: int) -> str:
        gap = " " * (widths[number] - _columns(cell))
        return gap + cell if number in table.right else cell + gap

    return "".join("  ".join(map(fitted, row, count())).rstrip() + "\n" for row in rows)


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
