"""The prompt_toolkit application: panel, list, input, completions and status line; what is above them is Surface's."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import DynamicCompleter, ThreadedCompleter
from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import ConditionalProcessor, PasswordProcessor
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import DynamicStyle, Style
from prompt_toolkit.widgets import SearchToolbar

from sagent.repl.lines import Line
from sagent.repl.surface import SteadyOutput, Surface
from sagent.repl.theme import THEMES, rules_of

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.layout.screen import Char

CLOSING = 0.1  # seconds after Esc in which another key makes it a combination
MOST_COMPLETIONS = 8


class _Application(Application[None]):
    """Esc waits shorter for a second key than Ctrl-X does, and a resize is for us to repair."""

    on_resize: Callable[[], None] = lambda: None

    @property
    def timeoutlen(self) -> float:
        """Seconds to wait for the next key of a combination."""
        pressed = self.key_processor.key_buffer
        return CLOSING if pressed and pressed[-1].key == Keys.Escape else 1.0

    @timeoutlen.setter
    def timeoutlen(self, value: float) -> None:
        del value

    def _on_resize(self) -> None:
        self.on_resize()


class Screen:
    """What a person types into and looks at.

    `panel` and `status` give lines for a width and a height in rows; they and `completer` may be set at any time.
    """

    def __init__(self, history: "History", *, stdin: "Input | None" = None, stdout: TextIO | None = None) -> None:
        self.label = "› "
        self.secret = False  # what is typed is not shown
        self._holding = False
        self.on_resized: Callable[[], None] = lambda: None
        self._themed = "auto"
        self._theme = Style.from_dict(dict(rules_of(self._themed)))
        self.panel: Callable[[int, int], Sequence[Line]] = lambda width, height: ()
        self.status: Callable[[int], Line] = lambda width: (("class:dim", "starting …"),)
        self.completer: Completer | None = None
        out = stdout or sys.stdout
        self.output = SteadyOutput(out, lambda: _size(out), synchronised=os.environ.get("TERM") != "dumb")
        self.buffer = Buffer(
            name="input",
            multiline=True,
            completer=ThreadedCompleter(DynamicCompleter(lambda: self.completer)),
            complete_while_typing=Condition(self._wants_completions),
            history=history,
            tempfile_suffix=".md",
            enable_history_search=False,
        )
        search = SearchToolbar(ignore_case=True)
        self.input = Window(
            BufferControl(
                self.buffer,
                input_processors=[ConditionalProcessor(PasswordProcessor(), Condition(lambda: self.secret))],
                search_buffer_control=search.control,
            ),
            height=self._input_height,
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._prefix,
        )
        layout = HSplit(
            [
                Window(FormattedTextControl(self._panel_text), dont_extend_height=True),
                self.input,
                search,
                ConditionalContainer(
                    CompletionsMenu(max_height=MOST_COMPLETIONS),
                    Condition(lambda: self.buffer.complete_state is not None),
                ),
                Window(FormattedTextControl(self._status_text), height=1),
            ]
        )
        self.app = _Application(
            Layout(layout, focused_element=self.input),
            style=DynamicStyle(lambda: self._theme),
            include_default_pygments_style=False,
            erase_when_done=True,
            input=stdin,
            output=self.output,
            color_depth=_colours(),
            cursor=CursorShape._NEVER_CHANGE,  # noqa: SLF001 -- prompt_toolkit's own default, which it does not export
            terminal_size_polling_interval=None,
            max_render_postpone_time=None,
        )
        self.app.ttimeoutlen = 0.05
        self.app.on_resize = self._resize
        self.app.before_render += self._shrink
        self.app.after_render += self._drawn
        self.surface = Surface(self.app, self.output)

    # -- what is drawn

    @property
    def rows(self) -> int:
        """Rows of the terminal."""
        return self.output.get_size().rows

    def _panel_text(self) -> "StyleAndTextTuples":
        """The panel, a row of air, and no line end behind the last."""
        height = max(self.rows - self._input_rows() - 4, 2)
        lines = [*self.panel(self.surface.width, height), ()]
        return [span for number, line in enumerate(lines) for span in ((("", "\n"), *line) if number else line)]

    def _status_text(self) -> "StyleAndTextTuples":
        return list(self.status(self.surface.width))

    def _prefix(self, number: int, wrapped: int) -> "StyleAndTextTuples":
        return [("class:prompt", self.label)] if not number and not wrapped else [("", " " * len(self.label))]

    def _input_rows(self) -> int:
        return min(self.buffer.document.line_count, max(self.rows // 3, 1))

    def _input_height(self) -> Dimension:
        return Dimension(min=1, max=max(self.rows // 3, 3))

    def _wants_completions(self) -> bool:
        if self.completer is None:
            return False
        from sagent.repl.completion import is_completable

        return is_completable(self.buffer.document.text_before_cursor)

    def set_theme(self, name: str) -> None:
        """Look like that from now on. Raises KeyError naming the themes."""
        if name not in THEMES:
            raise KeyError(f"there is no theme {name!r}; the themes are {', '.join(THEMES)}")
        if name != self._themed:  # a style that is new, be it equal, has all drawn anew
            self._themed, self._theme = name, Style.from_dict(dict(rules_of(name)))
            self.app.invalidate()

    def set_vim(self, value: str) -> str:
        """vi keys "on" or "off", or the other way than now; which it is then."""
        vi = value == "on" or (value != "off" and self.app.editing_mode != EditingMode.VI)
        self.app.editing_mode = EditingMode.VI if vi else EditingMode.EMACS
        self.app.vi_state.reset()
        return "vi" if vi else "emacs"

    def clear(self) -> None:
        """Begin at the top of the screen; what was on it is in the scrollback, as far as the terminal keeps that."""
        with self.output.held():
            rows = self.rows
            self.surface.freeze()
            self.app.renderer.erase(leave_alternate_screen=False)
            self.output.write_raw("\n" * (rows - 1) + "\x1b[H\x1b[J")
            self.app.renderer.reset()
        self.app.invalidate()

    def bind(self, keys: "KeyBindings") -> None:
        """Take these keys, before prompt_toolkit's own."""
        self.app.key_bindings = keys

    # -- keeping to what is ours

    def _shrink(self, app: "Application[None]") -> None:
        """prompt_toolkit keeps rows it once had; what is no longer needed is given back."""
        last = app.renderer.last_rendered_screen
        if last is None:
            return
        size = self.output.get_size()
        wanted = app.layout.container.preferred_height(size.columns, size.rows).preferred
        if min(wanted, size.rows) < last.height:
            self.output.hold()  # until the new rows are drawn
            self._holding = True
            app.renderer.erase(leave_alternate_screen=False)

    def _drawn(self, app: "Application[None]") -> None:
        del app
        if self._holding:
            self._holding = False
            self.output.release()
        self.surface.flush_waiting()

    def leave(self) -> None:
        """End the application."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def redraw(self) -> None:
        """Draw the application's part in its own time."""
        self.app.invalidate()

    def _resize(self) -> None:
        """The terminal folded the rows on it anew: find their first one, and draw from there."""
        app, columns = self.app, self.output.get_size().columns
        screen = app.renderer.last_rendered_screen
        with self.output.held():
            rows = self.surface.open_rows
            above = sum(_folded(_width(row), columns) for row in rows)
            if screen is not None:
                cursor = screen.get_cursor_position(app.layout.current_window)
                above += sum(_folded(_drawn_width(screen.data_buffer[row]), columns) for row in range(cursor.y))
                above += cursor.x // max(columns, 1)
            self.surface.forget()
            self.output.write_raw("\r")
            if above:
                self.output.cursor_up(above)
            self.output.erase_down()
            app.renderer.reset()
            app._redraw()  # noqa: SLF001 -- what Application._on_resize, which this replaces, does
            self.on_resized()


def _width(line: Line) -> int:
    from sagent.repl.lines import line_width

    return line_width(line)


def _folded(width: int, columns: int) -> int:
    return max(1, -(-width // max(columns, 1)))


def _drawn_width(row: "Mapping[int, Char]") -> int:
    """The columns of a drawn row up to the last that is not blank."""
    return max((x + 1 for x, cell in row.items() if cell.char.strip()), default=0)


def _size(stdout: TextIO) -> Size:
    try:
        columns, rows = os.get_terminal_size(stdout.fileno())
    except (OSError, ValueError):
        columns, rows = 80, 24
    return Size(rows=rows or 24, columns=columns or 80)


def _colours() -> ColorDepth | None:
    """As the environment asks (NO_COLOR, PROMPT_TOOLKIT_COLOR_DEPTH); else what all terminals of today have: our styles
    are the sixteen colours."""
    return ColorDepth.from_env() or ColorDepth.DEPTH_4_BIT
