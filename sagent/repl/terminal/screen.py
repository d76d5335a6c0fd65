"""The prompt_toolkit application: panel, list, input, completions and status line. Surface draws what is above."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import DynamicCompleter, ThreadedCompleter
from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import DynamicKeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.dimension import Dimension, sum_layout_dimensions
from prompt_toolkit.layout.processors import (
    ConditionalProcessor,
    HighlightIncrementalSearchProcessor,
    PasswordProcessor,
)
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.search import SearchState
from prompt_toolkit.styles import DynamicStyle, Style
from prompt_toolkit.widgets import SearchToolbar

from sagent.errors import UsageError
from sagent.lib.text import printable
from sagent.repl.terminal.menu import render_menu
from sagent.repl.terminal.parser import QUESTION, InputParser
from sagent.repl.terminal.surface import SteadyOutput, Surface
from sagent.repl.terminal.wrapping import DrawnInput
from sagent.repl.view.lines import Line, drawable, width_of
from sagent.repl.view.theme import THEMES, rules_of

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.layout import Container
    from prompt_toolkit.layout.screen import Char, WritePosition

SETTLED = 0.35  # seconds without a change after which a size counts; tmux reports one up to 0.25 s after it was made
MOST_UNSETTLED = 1.0  # seconds after which what is final is written all the same
CLOSING = 0.1  # seconds after Esc in which another key makes it a combination
YOUNG, OLDER = 700, 10  # objects, and looks at them, after which garbage is looked for among them and among older ones
LOW = 12  # rows of a terminal in which fewer of them are left empty
MOST_COMPLETIONS = 8


class _Application(Application[None]):
    """Waits less long for a second key after Esc than after Ctrl-X, and leaves resizing to Screen."""

    on_resize: Callable[[], None] = lambda: None
    fits: Callable[[], bool] = lambda: True

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

    def _redraw(self, render_as_done: bool = False) -> None:  # noqa: FBT001, FBT002 -- as it is called
        if render_as_done or self.fits():
            super()._redraw(render_as_done)


class _Rows(HSplit):
    """Windows one below the other with nothing between them. How high they would be is found out once a drawing."""

    _asked: object = None
    _found: "list[Dimension]"

    @property
    def _all_children(self) -> "list[Container]":
        return self.children

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        """The rows that all of them would have."""
        asked = get_app().render_counter, width, max_available_height
        if self._asked != asked:
            self._asked = asked
            self._found = [child.preferred_height(width, max_available_height) for child in self.children]
        return sum_layout_dimensions(self._found)

    def _divide_heights(self, write_position: "WritePosition") -> list[int] | None:
        wanted = [found.preferred for found in self._found]
        return wanted if sum(wanted) == write_position.height else super()._divide_heights(write_position)


class Screen:
    """What a person types into and looks at.

    `panel` and `status` give lines for a width and a height in rows; they and `completer` may be set at any time.
    """

    def __init__(self, history: "History", *, stdin: "Input | None" = None, stdout: TextIO | None = None) -> None:
        self.label = self.home = "› "  # before what is typed; where no question is answered
        self.secret = False  # what is typed is not shown
        self.focused: bool | None = None  # whether the terminal is in front; None where it has not said
        self.on_focus: Callable[[], None] = lambda: None  # it is in front, or is no longer
        self._holding = self._tidies = False
        self._drawn_for: Size | None = None  # the size of the terminal for which it was drawn
        self.on_resized: Callable[[], None] = lambda: None
        self.theme = "auto"
        self.light: bool | None = None  # the background; None where the terminal has not said
        self._asked = os.environ.get("TERM") in ("dumb", "linux") or _colours() == ColorDepth.DEPTH_1_BIT
        self._rules = dict(rules_of(self.theme))
        self._style = Style.from_dict(self._rules)
        self.panel: Callable[[int, int], Sequence[Line]] = lambda width, height: ()
        self.status: Callable[[int], Line] = lambda width: (("class:dim", "starting …"),)
        self.title: Callable[[], str] = lambda: ""  # of the terminal's window; "" leaves it as it is
        self._titled = ""
        self.completer: Completer | None = None
        self.completable: Callable[[str], bool] = lambda text: False  # whether typing on should offer completions
        out = stdout or sys.stdout
        self.output = SteadyOutput(out, lambda: _size(out), synchronised=os.environ.get("TERM") != "dumb")
        self.buffer = Buffer(
            name="input",
            multiline=True,
            completer=ThreadedCompleter(DynamicCompleter(lambda: self.completer)),
            complete_while_typing=Condition(lambda: self.completable(self.buffer.document.text_before_cursor)),
            history=history,
            tempfile_suffix=".md",
        )
        search = SearchToolbar(
            ignore_case=True, backward_search_prompt=self._sought, forward_search_prompt=self._sought
        )
        self._search = search.control
        self.input = Window(
            BufferControl(
                self.buffer,
                input_processors=[
                    ConditionalProcessor(PasswordProcessor(), Condition(lambda: self.secret)),
                    HighlightIncrementalSearchProcessor(),
                    DrawnInput(lambda: width_of(self.label)),
                ],
                search_buffer_control=search.control,
                preview_search=True,
            ),
            height=lambda: Dimension(min=1, max=max(self.rows // 3, 3)),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._prefix,
        )
        layout = _Rows(
            [
                Window(FormattedTextControl(self._panel_text), dont_extend_height=True),
                self.input,
                search,
                ConditionalContainer(
                    Window(FormattedTextControl(self._menu_text), dont_extend_height=True),
                    Condition(lambda: self.buffer.complete_state is not None),
                ),
                Window(FormattedTextControl(lambda: list(drawable(self.status(self.surface.width)))), height=1),
            ]
        )
        self.keys: KeyBindings | None = None  # before prompt_toolkit's own
        self.app = _Application(
            Layout(layout, focused_element=self.input),
            style=DynamicStyle(lambda: self._style),
            include_default_pygments_style=False,
            erase_when_done=True,
            input=stdin,
            output=self.output,
            color_depth=_colours(),
            cursor=CursorShape._NEVER_CHANGE,  # noqa: SLF001 -- prompt_toolkit's own default, which it does not export
            terminal_size_polling_interval=None,
            max_render_postpone_time=None,
        )
        source = self.app.input
        if (parser := getattr(source, "vt100_parser", None)) is not None:
            parser = InputParser(parser.feed_key_callback, self._take_focus, self._take_background)
            source.vt100_parser = parser  # pyright: ignore[reportAttributeAccessIssue]
        # the application remembers its bindings from the first key on, so that they must not be others later
        self.app.key_bindings = DynamicKeyBindings(lambda: self.keys)
        self.app.ttimeoutlen = 0.05
        self.redraw = self.app.invalidate
        self.app.on_resize, self.app.fits = self._wait, self.fits
        self.output.on_taken = self._catch_up
        self.app.before_render += self._before_render
        self.app.after_render += self._drawn
        self.surface = Surface(self.app, self.output, self.fits)
        self._settling: asyncio.TimerHandle | None = None  # the size was another a moment ago
        self._patient_until = 0.0

    # -- what is drawn

    @property
    def rows(self) -> int:
        return self.output.get_size().rows

    @property
    def panel_rows(self) -> int:
        """The rows that the panel may have."""
        return max(
            self.rows - min(self.buffer.document.line_count, max(self.rows // 3, 1)) - 3 - 2 * (self.rows > LOW), 2
        )

    def _panel_text(self) -> "StyleAndTextTuples":
        """The panel between empty rows, without a line end after the last."""
        panel = self.panel(self.surface.width, self.panel_rows)
        return _joined([*([()] if panel and self.rows > LOW else []), *panel, ()])

    def _menu_text(self) -> "StyleAndTextTuples":
        """The completions around the one at hand."""
        state, most = self.buffer.complete_state, max(min(MOST_COMPLETIONS, self.rows // 3), 2)
        rows = [(each.display_text, each.display_meta_text) for each in state.completions] if state else []
        at = -1 if state is None or state.complete_index is None else state.complete_index
        return _joined(render_menu(rows, at, self.surface.width, most))

    def _prefix(self, number: int, wrapped: int) -> "StyleAndTextTuples":
        return [("class:prompt", self.label)] if not number and not wrapped else [("", " " * width_of(self.label))]

    def _sought(self) -> "StyleAndTextTuples":
        """What stands before the words that the history is searched for."""
        words = self._search.buffer.text
        lost = words and words.lower() not in self.buffer.document_for_search(self._state()).text.lower()
        return [("class:warning", "  not found: ") if lost else ("class:mark", "  search: ")]

    def _state(self) -> SearchState:
        return SearchState(self._search.buffer.text, self._search.searcher_search_state.direction, ignore_case=True)

    def set_theme(self, name: str) -> None:
        """Use a theme. Raises UsageError naming the themes."""
        if name not in THEMES:
            raise UsageError(f"There is no theme {name!r}; choose one of {', '.join(THEMES)}.")
        self.theme, rules = name, dict(rules_of(name, light=self.light))
        if rules != self._rules:  # a style that is new, be it equal, has all drawn anew
            self._rules, self._style = rules, Style.from_dict(rules)
            self.app.invalidate()

    def _take_background(self, light: bool) -> None:  # noqa: FBT001 -- as the terminal reports it
        self.light = light
        self.set_theme(self.theme)

    def _take_focus(self, front: bool) -> None:  # noqa: FBT001 -- as above
        self.focused = front
        self.on_focus()

    def set_vim(self, value: str) -> str:
        """vi keys "on" or "off", or the other way than now; which it is then."""
        vi = value == "on" or (value != "off" and self.app.editing_mode != EditingMode.VI)
        self.app.editing_mode = EditingMode.VI if vi else EditingMode.EMACS
        self.app.vi_state.reset()
        return "vi" if vi else "emacs"

    @property
    def searching(self) -> bool:
        """Whether the history is searched."""
        return self.app.layout.is_searching

    @property
    def elsewhere(self) -> bool:
        """Whether what is typed goes elsewhere than into the input: to a search, or to another program."""
        return self.searching or self.app._running_in_terminal  # noqa: SLF001 -- it has no other name

    @property
    def vi(self) -> str:
        """The mode of vi keys: "insert", "navigation" and so on; "" without them."""
        mode: str = self.app.vi_state.input_mode.value.removeprefix("vi-")
        return mode if self.app.editing_mode == EditingMode.VI else ""

    def clear(self) -> None:
        """Begin at the top of the screen; what was on it moves to the scrollback, where the terminal keeps one."""
        with self.output.held():
            rows = self.rows
            self.surface.freeze()
            self.app.renderer.erase(leave_alternate_screen=False)
            self.output.write_raw("\n" * (rows - 1) + "\x1b[H\x1b[J")
            self.app.renderer.reset()
        self.app.invalidate()

    def replace_text(self, text: str) -> None:
        """Put a text into the input, the cursor after it; undo brings back what was there."""
        self.buffer.save_to_undo_stack()
        self.buffer.text = text
        self.buffer.cursor_position = len(text)

    def tidy_up(self) -> None:
        """Look for garbage whenever something was drawn, from now on, so that no key waits for that on its way to the
        screen: what is loaded by now stays, and the 50,000 new objects that are right for loading take 12 ms."""
        if not self._tidies:
            self._tidies = True
            gc.freeze()

    # -- keeping to what is ours

    def _drawn(self, app: "Application[None]") -> None:
        del app
        if self._holding:
            self._holding = False
            self.output.release()
        self.surface.flush_waiting()
        self._set_title()
        if self._tidies and gc.get_count()[0] > YOUNG:
            gc.collect(int(gc.get_count()[1] > OLDER))
        if not self._asked:
            self._asked = True
            self.output.write_raw(QUESTION)
            self.output.flush()

    def _set_title(self) -> None:
        if (title := printable(self.title())) != self._titled and self.output.term != "linux":
            self.output.write_raw(f"\x1b[22;2t\x1b]2;{title}\x1b\\" if not self._titled else f"\x1b]2;{title}\x1b\\")
            self.output.flush()
            self._titled = title

    def close(self) -> None:
        """Give the window the title that it had."""
        if self._titled:
            self.output.write_raw("\x1b]2;\x1b\\\x1b[23;2t")
            self.output.flush()
        self.output.close()

    def leave(self) -> None:
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def _before_render(self, app: "Application[None]") -> None:
        """Give back rows that are no longer needed. The signal of a new terminal size may come later than this."""
        if self._is_stale:
            self._erase()
        size = self._drawn_for = self.output.get_size()
        last = app.renderer.last_rendered_screen
        wanted = app.layout.container.preferred_height(size.columns, size.rows).preferred if last is not None else 0
        if last is not None and min(wanted, size.rows) < last.height:  # rows which prompt_toolkit would keep
            self.output.hold()  # until the new rows are drawn
            self._holding = True
            app.renderer.erase(leave_alternate_screen=False)

    @property
    def _is_stale(self) -> bool:
        return self._drawn_for is not None and self._drawn_for != self.output.get_size()

    def fits(self) -> bool:
        """Whether one may draw: the terminal reads, and its size is what it was a while ago."""
        if self._is_stale and self._settling is None:
            self._wait()
        return not self.output.stalled and self._settling is None

    def _catch_up(self) -> None:
        """Draw what was not drawn while the terminal did not read."""
        self.app.invalidate()
        self.on_resized()

    def _wait(self) -> None:
        """Draw nothing until the size stays: what is drawn for another one than the terminal has overwrites what is
        final. Where it does not stay, what is final is written every now and then in a way that fits any size."""
        loop = asyncio.get_running_loop()
        if self._settling is None:
            self._patient_until = loop.time() + MOST_UNSETTLED
        else:
            self._settling.cancel()
        settled = loop.time() + SETTLED
        if settled < self._patient_until:
            self._settling = loop.call_at(settled, self._resize)
        else:
            self._settling = loop.call_at(self._patient_until, self._write_unsettled)

    def _write_unsettled(self) -> None:
        self._settling, self._drawn_for = None, self.output.get_size()
        if self._is_drawn:
            with self.surface.any_size():
                self.on_resized()
        self._wait()

    def _resize(self) -> None:
        """The terminal has rewrapped its rows: find the first of ours, and draw from there."""
        self._settling = None
        if self._is_drawn:
            with self.output.held():
                self._erase()
                self.app._redraw()  # noqa: SLF001 -- what Application._on_resize, which this replaces, does
                self.on_resized()

    @property
    def _is_drawn(self) -> bool:
        """Whether the terminal is ours, and reads."""
        return self.app.is_running and not self.app._running_in_terminal and not self.output.stalled  # noqa: SLF001

    def _erase(self) -> None:
        """Erase what is not final, as the terminal has rewrapped it."""
        app, size = self.app, self.output.get_size()
        self._drawn_for = size
        screen = app.renderer.last_rendered_screen
        rows: list[int] = []  # columns
        at = over = 0  # the cursor's row, and the rows that it goes on in
        if screen is not None:
            cursor = screen.get_cursor_position(app.layout.current_window)
            at, over = cursor.y, cursor.x // max(size.columns, 1)
            rows = [_drawn_width(screen.data_buffer[row]) for row in range(screen.height)]
        above = self.surface.forget(rows[:at], rows[at + 1 :], size, over)
        with self.output.held():
            self.output.write_raw("\r")
            self.output.cursor_up(above)
            self.output.erase_down()
        app.renderer.reset()


def _joined(lines: Sequence[Line]) -> "StyleAndTextTuples":
    """Lines as they may be drawn, one below the other."""
    drawn = enumerate(map(drawable, lines))
    return [span for number, line in drawn for span in ((("", "\n"), *line) if number else line)]


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
