"""The screen for typing: panel, line, completions and status line. Surface draws the rows above."""

import asyncio
import gc
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import DynamicKeyBindings
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import DynamicStyle, Style

from sagent.errors import UsageError
from sagent.repl.terminal.application import Rows, ScreenApplication, drawn_text
from sagent.repl.terminal.line import InputLine
from sagent.repl.terminal.parser import QUESTION, WHO, InputParser
from sagent.repl.terminal.resizing import Resizing
from sagent.repl.terminal.surface import SteadyOutput
from sagent.repl.view.lines import Line, drawable, one_line
from sagent.repl.view.theme import THEMES, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings

YOUNG, OLDER = 700, 10  # new objects before a collection; collections before one of older garbage
ASK_AGAIN_SECONDS, ANSWER_SECONDS = 3.0, 60.0  # to ask again, and to give up on an answer
LOW = 12  # rows of a low terminal, in which fewer are left empty


class Screen:
    """The parts of the terminal that belong to us.

    `panel` and `status` return lines for a width and a height in rows; they may be set at any time.
    """

    def __init__(self, history: "History", *, stdin: "Input | None" = None, stdout: TextIO | None = None) -> None:
        self.focused: bool | None = None  # whether the terminal is in front; None if unknown
        self.on_focus: Callable[[], None] = lambda: None  # called when that changes
        self.on_clipboard: Callable[[str], object] = lambda part: None  # takes parts of what the clipboard holds
        self.theme = "auto"
        self.light = _light_background()  # None if unknown
        self._to_ask = "" if os.environ.get("TERM") in ("dumb", "linux") else WHO
        if self._to_ask and _colours() != ColorDepth.DEPTH_1_BIT:
            self._to_ask += QUESTION
        self._answered: asyncio.Event | None = None  # set at the terminal's first answer; None before
        self._deep = _colours() in (ColorDepth.DEPTH_8_BIT, ColorDepth.DEPTH_24_BIT)
        self._rules = dict(rules_of(self.theme, light=self.light, deep=self._deep))
        self._style = Style.from_dict(self._rules)
        self.panel: Callable[[int, int], Sequence[Line]] = lambda width, height: ()
        self.status: Callable[[int], Line] = lambda width: (("class:dim", "starting …"),)
        self.title: Callable[[], str] = lambda: ""  # of the terminal's window; "" leaves it as it is
        self._titled = ""
        self._loaded = False
        out = stdout or sys.stdout
        self.output = SteadyOutput(out, lambda: _size(out), synchronised=os.environ.get("TERM") != "dumb")
        self.line = InputLine(history, self.output)
        self.buffer, self.replace_text = self.line.buffer, self.line.replace_text
        self.keys: KeyBindings | None = None  # take precedence over prompt_toolkit's
        self.app = self._application(stdin)
        self.redraw = self.app.invalidate
        self.resizing = Resizing(self.app, self.output)
        self.surface = self.resizing.surface
        self.app.after_render += self._drawn

    def _application(self, stdin: "Input | None") -> ScreenApplication:
        app = ScreenApplication(
            Layout(self._layout(), focused_element=self.line.window),
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
        source = app.input
        if (parser := getattr(source, "vt100_parser", None)) is not None:
            take = parser.feed_key_callback
            parser = InputParser(
                take,
                self._take_focus,
                self._take_background,
                lambda: self._loaded,
                self._take_cursor,
                self._take_number,
            )
            parser.on_clipboard = lambda part: self.on_clipboard(part)  # noqa: PLW0108 -- it changes
            source.vt100_parser = parser  # pyright: ignore[reportAttributeAccessIssue]
        # the application caches its bindings at the first key, so they must not change later
        app.key_bindings = DynamicKeyBindings(lambda: self.keys)
        app.ttimeoutlen = 0.05
        return app

    def _layout(self) -> Rows:
        menu = FormattedTextControl(lambda: self.line.menu(self.surface.width))
        status = FormattedTextControl(lambda: list(drawable(self.status(self.surface.width))))
        return Rows(
            [
                Window(FormattedTextControl(self._panel_text), dont_extend_height=True),
                self.line.window,
                self.line.toolbar,
                ConditionalContainer(
                    Window(menu, dont_extend_height=True), Condition(lambda: self.buffer.complete_state is not None)
                ),
                Window(status, height=1),
            ]
        )

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
        """Return the panel between empty rows, without a line end after the last."""
        panel = self.panel(self.surface.width, self.panel_rows)
        return drawn_text([*([()] if panel and self.rows > LOW else []), *panel, ()])

    async def until_drawn(self) -> None:
        """Draw the current state as soon as drawing is allowed."""
        drawn = asyncio.Event()

        def note(_: object) -> None:
            drawn.set()

        self.app.after_render += note
        self.redraw()
        try:
            await drawn.wait()
        finally:
            self.app.after_render -= note

    async def until_seen(self) -> None:
        """Draw the current state and wait until the terminal has it, because output may be in transit. A terminal that
        never answers is not waited for."""
        await self.until_drawn()
        end = time.monotonic() + ANSWER_SECONDS
        while (answered := self._answered) is not None:
            answered.clear()
            if not self.app._running_in_terminal:  # noqa: SLF001 -- as below; an editor would get the answer
                self.output.write_raw(WHO)
                self.output.flush()
            with suppress(TimeoutError):
                await asyncio.wait_for(answered.wait(), ASK_AGAIN_SECONDS)
            if answered.is_set():
                return
            if time.monotonic() > end:
                self._answered = None

    def set_theme(self, name: str) -> None:
        """Use a theme. Raises UsageError naming the themes."""
        if name not in THEMES:
            raise UsageError(f"There is no theme {name!r}; choose one of {', '.join(THEMES)}.")
        self.theme, rules = name, dict(rules_of(name, light=self.light, deep=self._deep))
        if rules != self._rules:  # a style that is new, be it equal, has all drawn anew
            self._rules, self._style = rules, Style.from_dict(rules)
            self.app.invalidate()

    def _take_background(self, light: bool) -> None:  # noqa: FBT001 -- as the terminal reports it
        self.light = light
        self.set_theme(self.theme)

    def _take_focus(self, front: bool) -> None:  # noqa: FBT001 -- as above
        self.focused = front
        self.on_focus()

    def _take_cursor(self, row: int, column: int) -> None:
        self.resizing.cursor = row - 1, column - 1

    def _take_number(self, number: int) -> None:
        self.resizing.terminal = number
        self._answered = self._answered or asyncio.Event()
        self._answered.set()

    def ask(self, question: str) -> bool:
        """Send a question to the terminal; False if it is one that answers none."""
        inside = os.environ.get("TMUX") or os.environ.get("STY")  # they pass no answer on
        if inside or os.environ.get("TERM") in ("dumb", "linux"):
            return False
        self.output.write_raw(question)
        self.output.flush()
        return True

    def set_vim(self, value: str) -> str:
        """Turn vi keys "on" or "off", or toggle them; return the new mode."""
        vi = value == "on" or (value != "off" and self.app.editing_mode != EditingMode.VI)
        self.app.editing_mode = EditingMode.VI if vi else EditingMode.EMACS
        self.app.vi_state.reset()
        return "vi" if vi else "emacs"

    @property
    def searching(self) -> bool:
        """True while the history is searched."""
        return self.app.layout.is_searching

    @property
    def elsewhere(self) -> bool:
        """True if typing goes elsewhere than into the input: to a search, or to another program."""
        return self.searching or self.app._running_in_terminal  # noqa: SLF001 -- it has no other name

    @property
    def unseen(self) -> bool:
        """True if the person may not see the drawing: they look elsewhere, or the terminal has not taken it."""
        return self.elsewhere or not self.resizing.fits()

    @property
    def vi(self) -> str:
        """The mode of vi keys: "insert", "navigation" and so on; "" without them."""
        mode: str = self.app.vi_state.input_mode.value.removeprefix("vi-")
        return mode if self.app.editing_mode == EditingMode.VI else ""

    def clear(self) -> None:
        """Begin at the top of the screen; its contents move to the scrollback, if the terminal keeps one."""
        with self.output.held():
            rows = self.rows
            self.surface.freeze()
            self.app.renderer.erase(leave_alternate_screen=False)
            self.output.write_raw("\n" * (rows - 1) + "\x1b[H\x1b[J")
            self.app.renderer.reset()
        self.app.invalidate()

    def tidy_up(self) -> None:
        """From now on collect garbage after drawing, so that no key waits for it. Loaded objects are frozen, because a
        threshold of 50,000 new objects, right for loading, takes 12 ms per collection."""
        if not self._loaded:
            self._loaded = True
            gc.freeze()

    # -- keeping to what is ours

    def _drawn(self, app: "Application[None]") -> None:
        del app
        self.surface.flush_waiting()
        self._set_title()
        if self._loaded and gc.get_count()[0] > YOUNG:
            gc.collect(int(gc.get_count()[1] > OLDER))
        if self._to_ask:
            self.output.write_raw(self._to_ask)
            self.output.flush()
            self._to_ask = ""

    def _set_title(self) -> None:
        if (title := one_line(self.title())) != self._titled and self.output.term != "linux":
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


def _light_background() -> bool | None:
    """Read the variable that terminals without answers set: a number of the sixteen colours."""
    colour = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return colour in ("7", "15") if colour.isdecimal() else None


def _size(stdout: TextIO) -> Size:
    try:
        columns, rows = os.get_terminal_size(stdout.fileno())
    except (OSError, ValueError):
        columns, rows = 80, 24
    return Size(rows=rows or 24, columns=columns or 80)


def _colours() -> ColorDepth:
    """Return the colour depth from the environment (NO_COLOR, PROMPT_TOOLKIT_COLOR_DEPTH), 256 colours if the terminal
    says that it has them, or sixteen."""
    many = "256color" in os.environ.get("TERM", "") or os.environ.get("COLORTERM")
    return ColorDepth.from_env() or (ColorDepth.DEPTH_8_BIT if many else ColorDepth.DEPTH_4_BIT)
