"""The input line: its text, label and completions, and the search in the history."""

from typing import TYPE_CHECKING

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import DynamicCompleter, ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import (
    ConditionalProcessor,
    HighlightIncrementalSearchProcessor,
    PasswordProcessor,
    Processor,
)
from prompt_toolkit.search import SearchState
from prompt_toolkit.widgets import SearchToolbar

from sagent.repl.terminal.application import drawn_text
from sagent.repl.terminal.menu import render_menu
from sagent.repl.terminal.surface import SteadyOutput
from sagent.repl.terminal.wrapping import DrawnInput
from sagent.repl.view.lines import width_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.completion import Completer
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import History

MAX_COMPLETION_ROWS = 8


class InputLine:
    """Input line that a person types into. `completer` may be set at any time."""

    def __init__(self, history: "History", output: SteadyOutput) -> None:
        self.label = self.home = "› "  # before the input; the second when no question is open
        self.secret = False  # the input is not shown
        self.completer: Completer | None = None
        self.completable: Callable[[str], bool] = lambda text: False  # whether to offer completions for a text
        self._output = output
        self.buffer = Buffer(
            name="input",
            multiline=True,
            completer=ThreadedCompleter(DynamicCompleter(lambda: self.completer)),
            complete_while_typing=Condition(lambda: self.completable(self.buffer.document.text_before_cursor)),
            history=history,
            tempfile_suffix=".md",
        )
        self.toolbar = SearchToolbar(
            ignore_case=True, backward_search_prompt=self._sought, forward_search_prompt=self._sought
        )
        self.window = self._window()

    def _window(self) -> Window:
        processors: list[Processor] = [
            ConditionalProcessor(PasswordProcessor(), Condition(lambda: self.secret)),
            HighlightIncrementalSearchProcessor(),
            DrawnInput(lambda: width_of(self.label)),
        ]
        search = self.toolbar.control
        return Window(
            BufferControl(self.buffer, processors, search_buffer_control=search, preview_search=True),
            height=lambda: Dimension(min=1, max=max(self._rows // 3, 3)),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._prefix,
        )

    @property
    def _rows(self) -> int:
        return self._output.get_size().rows

    def menu(self, width: int) -> "StyleAndTextTuples":
        """Return the completions around the current one."""
        state, most = self.buffer.complete_state, max(min(MAX_COMPLETION_ROWS, self._rows // 3), 2)
        rows = [(each.display_text, each.display_meta_text) for each in state.completions] if state else []
        at = -1 if state is None or state.complete_index is None else state.complete_index
        return drawn_text(render_menu(rows, at, width, most))

    def _prefix(self, number: int, wrapped: int) -> "StyleAndTextTuples":
        return [("class:prompt", self.label)] if not number and not wrapped else [("", " " * width_of(self.label))]

    def _sought(self) -> "StyleAndTextTuples":
        """Return the label of a history search."""
        words = self.toolbar.control.buffer.text
        lost = words and words.lower() not in self.buffer.document_for_search(self._state()).text.lower()
        return [("class:warning", "  not found: ") if lost else ("class:mark", "  search: ")]

    def _state(self) -> SearchState:
        return SearchState(
            self.toolbar.control.buffer.text, self.toolbar.control.searcher_search_state.direction, ignore_case=True
        )

    def replace_text(self, text: str) -> None:
        """Replace the input, with the cursor at its end; undo restores it."""
        self.buffer.save_to_undo_stack()
        self.buffer.text = text
        self.buffer.cursor_position = len(text)
