"""Sequence diagrams: a column for each participant, a row for each message and one for its text."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sagent.plugins.diagrams.grid import Grid
from sagent.repl.view.lines import width_of

_LOOP = 3  # columns of a message to oneself


class Message(NamedTuple):
    """A message from one participant to another, whose line is dotted or has a head."""

    sender: str
    receiver: str
    text: str
    dotted: bool = False
    headed: bool = True


def draw_sequence(names: Mapping[str, str], messages: Sequence[Message], width: int) -> Sequence[str] | None:
    """Return the rows of a diagram, None if it is wider."""
    order = {name: number for number, name in enumerate(names)}
    sizes = [width_of(label) + 4 for label in names.values()]
    centres = _centres(sizes, order, messages)
    loops = (centres[order[one.sender]] + _LOOP + 2 + width_of(one.text) for one in messages if _is_own(one))
    if max(centres[-1] + sizes[-1] - sizes[-1] // 2, *loops, 0) > width:
        return None
    grid, last = Grid(), 3 + sum(3 if _is_own(message) else 2 for message in messages)
    for centre, size, label in zip(centres, sizes, names.values(), strict=True):
        grid.box(0, centre - size // 2, 3, size)
        grid.text(1, centre - size // 2 + 2, label)
        grid.line((2, centre), (last, centre))
    row = 3
    for message in messages:
        start, end = centres[order[message.sender]], centres[order[message.receiver]]
        if _is_own(message):
            grid.line((row, start), (row, start + _LOOP), dotted=message.dotted)
            grid.line((row, start + _LOOP), (row + 1, start + _LOOP))
            grid.line((row + 1, start), (row + 1, start + _LOOP), dotted=message.dotted)
            grid.text(row, start + _LOOP + 2, message.text)
            if message.headed:
                grid.text(row + 1, start + 1, "◀")
            row += 3
            continue
        left, right = sorted((start, end))
        grid.text(row, left + (right - left - width_of(message.text) + 1) // 2, message.text)
        grid.line((row + 1, left), (row + 1, right), dotted=message.dotted)
        if message.headed:
            grid.text(row + 1, end - 1 if end > start else end + 1, "▶" if end > start else "◀")
        row += 2
    return grid.rows()


def _is_own(message: Message) -> bool:
    return message.sender == message.receiver


def _centres(sizes: Sequence[int], order: Mapping[str, int], messages: Sequence[Message]) -> list[int]:
    """Return the columns of the participants: texts fit between sender and receiver."""
    centres = [sizes[0] // 2]
    for number in range(1, len(sizes)):
        least = centres[-1] + (sizes[number - 1] - sizes[number - 1] // 2) + 1 + sizes[number] // 2
        for message in messages:
            first, second = sorted((order[message.sender], order[message.receiver]))
            if first == second == number - 1:
                least = max(least, centres[first] + _LOOP + 4 + width_of(message.text))
            elif second == number and first != second:
                least = max(least, centres[first] + width_of(message.text) + 4)
        centres.append(least)
    return centres
