"""What a command writes: JSON, lines, and tables, drawn by rich: fitted to a terminal; elsewhere one row a line."""

import os
import sys
from collections.abc import Iterable
from decimal import Decimal
from io import StringIO
from shutil import get_terminal_size
from typing import TextIO

from sagent.lib.json import json_dump
from sagent.lib.text import Table, printable

ENDLESS = 1 << 20  # columns of what is not a terminal: nothing is cut or wrapped


def show(value: object, blocks: Iterable[str | Table], *, as_json: bool) -> None:
    """Write a result on standard output: as one JSON object, or as lines and tables."""
    from sagent.cli.render import binary_safe

    out = binary_safe(sys.stdout)
    if as_json:
        out.write(json_dump(value) + "\n")
    else:
        write(out, blocks)
    out.flush()


def number(usd: Decimal | None) -> float | None:
    """USD as JSON has them; null where they are not known."""
    return None if usd is None else float(usd)


def write(out: TextIO, blocks: Iterable[str | Table]) -> None:
    """Write lines and tables, which may hold any text."""
    out.writelines(
        draw(block, on_terminal=out.isatty()) if isinstance(block, Table) else f"{printable(block)}\n"
        for block in blocks
    )


def draw(table: Table, *, on_terminal: bool) -> str:
    """The table as text. Cells are never read as markup."""
    if not table.rows and not table.titles:
        return ""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    def cell(text: str) -> Text:
        text = printable(text)
        return Text(text if on_terminal else " ".join(text.splitlines()))

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(table.titles))
    for number, title in enumerate(table.titles or ("",) * max(map(len, table.rows), default=0)):
        figures = number in table.right
        widest = max((len(row[number]) for row in table.rows if number < len(row)), default=0)
        least = widest if figures else min(widest, 8)  # a figure that lost its end would be another one
        grid.add_column(cell(title), justify="right" if figures else "left", overflow="fold", min_width=least)
    for row in table.rows:
        grid.add_row(*map(cell, row))
    console = Console(
        file=StringIO(),
        width=get_terminal_size().columns if on_terminal else ENDLESS,
        height=1,  # without any, rich takes a dumb terminal for one of 80 columns
        force_terminal=on_terminal,
        color_system="auto" if on_terminal and not os.environ.get("NO_COLOR") else None,
    )
    with console.capture() as captured:
        console.print(grid, crop=False)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().removesuffix("\n").split("\n"))
