"""Rows of a list: a mark, a name, its description in columns, and a count of hidden rows."""

import re
from collections.abc import Sequence

from sagent.lib.dataclass import dataclass
from sagent.repl.view.lines import Line, cut, cut_line, cut_middle, line_width, one_line, printable, width_of

GAP = 2  # columns between name and description, and within the description
MIN_SENTENCE_COLUMNS = 8
_COLUMN = re.compile(rf"(?<= {{{GAP}}})(?=\S)")


def render_menu(rows: Sequence[tuple[str, str]], at: int, width: int, limit: int) -> list[Line]:
    """Show at most `limit` names and their descriptions, around the current one (-1 for none). Hidden rows are counted
    at the right.

    Descriptions may be in columns, as `lines.table` sets them: after whole names, as many columns as fit, those that
    differ most first. Names that would be equal when cut lose their middle instead."""
    first = min(max(at - limit // 2, 0), max(len(rows) - limit, 0))
    shown = [(one_line(name), printable(about).replace("\n", " ")) for name, about in rows[first : first + limit]]
    names, marks = [name for name, _ in shown], _marks(len(shown), first, len(rows) - first - len(shown))
    columns = _columns([about for _, about in rows])
    size = min(max(map(width_of, names), default=0), width - 2 if columns else max(width * 3 // 5, 12))
    fitting = _fitting(columns, width - 2 - size - GAP)
    lines: list[Line] = []
    for number, ((_, about), mark) in enumerate(zip(shown, marks, strict=True)):
        room = width - 2 - (width_of(mark) + 1) * bool(mark)
        name = _cut_apart(names, min(size, room))[number]
        left = room - size - GAP
        said = _cells(about, fitting, left) if columns and _COLUMN.search(about) else _words(about, left)
        lines.append(_marked(_row(name, said, size, chosen=first + number == at), mark, width))
    return lines


def count_hidden(lines: Sequence[Line], above: int, below: int, width: int, *, all_by: str = "") -> list[Line]:
    """Return rows with the numbers of hidden rows above and below, and the key that shows all, at the right."""
    marks = _marks(len(lines), above, below, all_by)
    return [_marked(line, mark, width) for line, mark in zip(lines, marks, strict=True)]


def _marks(count: int, above: int, below: int, all_by: str = "") -> list[str]:
    """Return the mark at the right of each row."""
    up, down = f"↑ {above}" * bool(above), f"↓ {below} {all_by}".rstrip() * bool(below)
    return [f"{up} {down}".strip()] if count == 1 else [up, *[""] * (count - 2), down][:count]


def _marked(line: Line, mark: str, width: int) -> Line:
    if not mark:
        return cut_line(line, width)
    line = cut_line(line, width - width_of(mark) - 1)
    gap = " " * (width - line_width(line) - width_of(mark))
    return cut_line((*line, ("class:mark", gap + mark)), width)


def _row(name: str, sentence: str, size: int, *, chosen: bool) -> Line:
    head: Line = (("class:mark", "❯ " if chosen else "  "), ("class:chosen" if chosen else "", name))
    return (*head, ("class:dim", " " * (size - width_of(name) + GAP) + sentence)) if sentence else head


def _words(sentence: str, room: int) -> str:
    """Return as much of a sentence as fits; "" if not even a word does."""
    return cut(sentence, room) if room >= MIN_SENTENCE_COLUMNS or width_of(sentence) <= room else ""


def _cut_apart(names: Sequence[str], width: int) -> list[str]:
    """Return the names cut to a width; if some would be equal, all are cut in the middle."""
    short = [cut(name, width) for name in names]
    return short if len({*short}) == len({*names}) else [cut_middle(name, width) for name in names]


@dataclass(frozen=True, slots=True)
class _Column:
    place: slice
    cells: frozenset[str]


def _columns(texts: Sequence[str]) -> list[_Column]:
    """Return the columns shared by all texts that have columns."""
    texts = [text for text in texts if _COLUMN.search(text)]
    starts = [{found.start() for found in _COLUMN.finditer(text)} for text in texts]
    edges = [0, *sorted(set[int].intersection(*starts))] if starts else [0]
    places = map(slice, edges, [*edges[1:], None]) if len(edges) > 1 else ()
    return [_Column(place, frozenset(text[place].rstrip() for text in texts)) for place in places]


def _fitting(columns: Sequence[_Column], room: int) -> list[_Column]:
    """Choose the columns that fit, those with most different cells first."""
    kept: list[_Column] = []
    for column in sorted(columns, key=lambda column: -len(column.cells)):
        size = max(map(width_of, column.cells))
        if size <= room:
            kept.append(column)
            room -= size + GAP
    return [column for column in columns if column in kept]


def _cells(text: str, columns: Sequence[_Column], room: int) -> str:
    """Return a text's cells in these columns; the last are left out if there is less room."""
    found = "".join(text[column.place] for column in columns).rstrip()
    return found if width_of(found) <= max(room, 0) else _cells(text, columns[:-1], room)
