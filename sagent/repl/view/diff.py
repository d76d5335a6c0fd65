"""A unified diff in colour, with line numbers and context."""

import re
from collections.abc import Iterator

from sagent.repl.view.lines import TAB, Line, cut_line, printable

_PLACE = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$")
MOST_LINES = 60


def render_diff(diff: str, width: int, *, most: int = MOST_LINES) -> list[Line]:
    """The diff in at most about `most` lines; what is left out is counted."""
    lines = list(_rendered(diff, width))
    if len(lines) <= most:
        return lines
    left = len(lines) - most
    return [*lines[:most], (("class:dim", f"     … {left} more lines, Ctrl-O shows them"),)]


def counts(diff: str) -> tuple[int, int]:
    """Lines added and removed."""
    body = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in body), sum(line.startswith("-") for line in body)


def _rendered(diff: str, width: int) -> Iterator[Line]:
    old = new = 0
    first = True
    for line in diff.splitlines():
        if place := _PLACE.match(line):
            old, new = int(place[1]), int(place[2])
            if not first:
                yield (("class:dim", "   ⋯"),)
            first = False
        elif first:
            continue  # the names of the files, which the line above tells
        elif line.startswith("\\"):
            yield (("class:dim", f"     {line}"),)
        else:
            mark, text = line[:1], printable(line[1:].replace("\t", TAB))
            style = {"+": "class:diff.added", "-": "class:diff.removed"}.get(mark, "class:diff.context")
            number = old if mark == "-" else new
            yield cut_line((("class:dim", f"{number:>5} "), (style, f"{mark or ' '} {text}")), width)
            old += mark != "+"
            new += mark != "-"
