"""Rows to choose from as every list draws them: a mark, a name, words about it in a column, and what lies beyond."""

from collections.abc import Sequence

from sagent.repl.view.lines import Line, cut, cut_line, line_width, one_line, printable, width_of


def render_menu(rows: Sequence[tuple[str, str]], at: int, width: int, most: int) -> list[Line]:
    """At most `most` of the names and what is said of them, around the one at hand (-1 for none). Rows that are not
    shown are counted at the right."""
    first = min(max(at - most // 2, 0), max(len(rows) - most, 0))
    shown = [(one_line(name), printable(about).replace("\n", " ")) for name, about in rows[first : first + most]]
    size = min(max((width_of(name) for name, _ in shown), default=0), max(width * 3 // 5, 12))
    lines = [_row(name, about, size, chosen=first + number == at) for number, (name, about) in enumerate(shown)]
    return count_hidden(lines, first, len(rows) - first - len(lines), width)


def count_hidden(lines: Sequence[Line], above: int, below: int, width: int, *, all_by: str = "") -> list[Line]:
    """The rows that are shown, with how many are not, above and below, at the right, and the key that shows all."""
    lines = list(lines)
    up, down = f"↑ {above}" * bool(above), f"↓ {below} {all_by}".rstrip() * bool(below)
    if len(lines) == 1:
        up, down = "", f"{up} {down}".strip()
    if lines and up:
        lines[0] = _counted(lines[0], up, width)
    if lines and down:
        lines[-1] = _counted(lines[-1], down, width)
    return [cut_line(line, width) for line in lines]


def _row(name: str, about: str, size: int, *, chosen: bool) -> Line:
    name = cut(name, size)
    head: Line = (("class:mark", "❯ " if chosen else "  "), ("class:chosen" if chosen else "", name))
    return (*head, ("class:dim", " " * (size - width_of(name) + 2) + about)) if about else head


def _counted(line: Line, position: str, width: int) -> Line:
    line = cut_line(line, width - width_of(position) - 1)
    return (*line, ("class:mark", " " * (width - line_width(line) - width_of(position)) + position))
