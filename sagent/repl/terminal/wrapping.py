"""The drawn input: invisible characters become signs, and rows end between words."""

import re
from collections.abc import Callable

from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from sagent.lib.text import printable
from sagent.repl.view.lines import TAB, one_sign_each, width_of

_WORDS = re.compile(r"\S+|\s")


def gaps(text: str, room: int) -> dict[int, int]:
    """Find where the rows of a text end between words: by character position, the columns to leave free before it; -1
    for a blank that is not drawn because the row is full."""
    found: dict[int, int] = {}
    column = 0
    for word in _WORDS.finditer(text):
        if word[0].isspace() and column == room:
            found[word.start()], column = -1, 0
            continue
        width = width_of(word[0])
        if column and column + width > room >= width:
            if column < room:
                found[word.start()] = room - column
            column = 0
        for character in word[0] if width > room else ():  # a word longer than a row is broken anywhere
            size = width_of(character)
            column = size if column + size > room else column + size
        column += width if width <= room else 0
    return found


def _drawn(character: str) -> str:
    return TAB if character == "\t" else one_sign_each(printable(character))


class DrawnInput(Processor):
    """Draws the input in rows that begin with a label of a given width."""

    def __init__(self, label: Callable[[], int]) -> None:
        self._label = label

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the line with blanks before words that begin a row; invisible characters of pastes are shown too."""
        fragments, room = transformation_input.fragments, transformation_input.width - self._label()
        text = fragment_list_to_text(fragments)
        if text == one_sign_each(text) and text.isprintable() and width_of(text) <= room:
            return Transformation(fragments)
        cells = [(cell[0], _drawn(cell[1])) for cell in explode_text_fragments(fragments)]
        text = "".join(cell[1] for cell in cells)
        places = gaps(text, room) if width_of(text) > room > 0 else {}
        shown: list[tuple[str, str]] = []
        to_display: list[int] = []
        to_source: list[int] = []
        at = 0
        for number, (style, drawn) in enumerate(cells):
            to_display.append(len(shown) + max(places.get(at, 0), 0) * bool(drawn))
            for letter in drawn:
                gap = places.get(at, 0)
                row = [] if gap < 0 else [*([("", " ")] * gap), (style, letter)]
                to_source += [number] * len(row)
                shown += row
                at += 1
        end, after = len(cells), len(shown)
        return Transformation(
            [*shown],
            lambda place: to_display[place] if place < end else after + place - end,
            lambda place: to_source[place] if place < after else end + place - after,
        )
