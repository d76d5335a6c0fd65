"""prompt_toolkit's application and layout with our changes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit
from prompt_toolkit.layout.dimension import Dimension, sum_layout_dimensions

from sagent.repl.view.lines import Line, drawable, one_sign_each

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.layout import Container
    from prompt_toolkit.layout.screen import WritePosition

ESCAPE_SECONDS = 0.1  # after Esc, in which another key makes a combination


class ScreenApplication(Application[None]):
    """Waits less long for a second key after Esc than after Ctrl-X, and leaves resizing to Resizing."""

    on_resize: Callable[[], None] = lambda: None
    fits: Callable[[], bool] = lambda: True

    @property
    def timeoutlen(self) -> float:
        """Seconds to wait for the next key of a combination."""
        pressed = self.key_processor.key_buffer
        return ESCAPE_SECONDS if pressed and pressed[-1].key == Keys.Escape else 1.0

    @timeoutlen.setter
    def timeoutlen(self, value: float) -> None:
        del value

    def _on_resize(self) -> None:
        self.on_resize()

    def _redraw(self, render_as_done: bool = False) -> None:  # noqa: FBT001, FBT002 -- as it is called
        if render_as_done or self.fits():
            super()._redraw(render_as_done)


class Rows(HSplit):
    """Stacks windows without gaps. Their heights are computed once per drawing."""

    _asked: object = None
    _found: "list[Dimension]"

    @property
    def _all_children(self) -> "list[Container]":
        return self.children

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        """Return the rows that all of them would have."""
        asked = get_app().render_counter, width, max_available_height
        if self._asked != asked:
            self._asked = asked
            self._found = [child.preferred_height(width, max_available_height) for child in self.children]
        return sum_layout_dimensions(self._found)

    def _divide_heights(self, write_position: "WritePosition") -> list[int] | None:
        wanted = [found.preferred for found in self._found]
        return wanted if sum(wanted) == write_position.height else super()._divide_heights(write_position)


def drawn_text(lines: Sequence[Line]) -> "StyleAndTextTuples":
    """Return drawable lines joined, one below the other."""
    drawn = enumerate([(style, one_sign_each(text)) for style, text in drawable(line)] for line in lines)
    return [span for number, line in drawn for span in ((("", "\n"), *line) if number else line)]
