"""A terminal that changes its size: drawing stops until the size is stable, then our rows are found again."""

import asyncio
import sys
from itertools import zip_longest
from typing import TYPE_CHECKING

from sagent.repl.terminal.application import ScreenApplication
from sagent.repl.terminal.surface import SteadyOutput, Surface

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.application import Application
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.layout.screen import Screen as Drawn

SETTLED_SECONDS = 0.35  # without a change, until a size counts; tmux reports one up to 0.25 s late
TMUX, XTERM = 84, 41  # by these numbers they call themselves
MAX_UNSETTLED_SECONDS = 1.0  # after which final rows are written in any case


class Resizing:
    """The surface above an application's input, and the times when drawing is allowed."""

    def __init__(self, app: ScreenApplication, output: SteadyOutput) -> None:
        self._app, self._output = app, output
        self.on_resizing: Callable[[], None] = lambda: None
        self.on_resized: Callable[[], None] = lambda: None
        self._drawn_for: Size | None = None  # terminal size of the last drawing
        self._columns: list[int] = []  # widths of the drawn rows, as tmux counts them
        self.terminal = 0  # the terminal's type number
        self._holding = False
        self._settling: asyncio.TimerHandle | None = None  # the size was another a moment ago
        self._patient_until = 0.0
        # Row and column, from 0, reported by the terminal since its last change of size:
        self.cursor: tuple[int, int] | None = None
        self.surface = Surface(app, output, self.fits)
        app.on_resize, app.fits = self._wait, self.fits
        output.on_taken = self._catch_up
        app.before_render += self._before_render
        app.after_render += self._drawn

    def _before_render(self, app: "Application[None]") -> None:
        """Give back unneeded rows. The signal of a new terminal size may come later."""
        if self._is_stale:
            self._erase()
        size = self._drawn_for = self._output.get_size()
        last = app.renderer.last_rendered_screen
        wanted = app.layout.container.preferred_height(size.columns, size.rows).preferred if last is not None else 0
        if last is not None and min(wanted, size.rows) < last.height:  # rows that prompt_toolkit would keep
            self._output.pause()  # until the new rows are drawn
            self._holding = True
            app.renderer.erase(leave_alternate_screen=False)
        if app.renderer.last_rendered_screen is None:
            self._columns = []

    def _drawn(self, app: "Application[None]") -> None:
        if self.terminal == TMUX and (screen := app.renderer.last_rendered_screen) is not None:
            self._columns = [max(row) for row in zip_longest(_drawn_widths(screen), self._columns, fillvalue=0)]
        if self._holding:
            self._holding = False
            self._output.release()

    @property
    def _is_stale(self) -> bool:
        return self._drawn_for is not None and self._drawn_for != self._output.get_size()

    def fits(self) -> bool:
        """Return True if drawing is allowed: the terminal reads, and its size is stable."""
        if self._is_stale and self._settling is None:
            self._wait()
        return not self._output.stalled and self._settling is None

    def _catch_up(self) -> None:
        """Draw everything that had to wait while the terminal did not read."""
        self._app.invalidate()
        self.on_resized()

    def _wait(self) -> None:
        """Draw nothing until the size is stable, because drawing for a wrong size overwrites final rows. If it stays
        unstable, write final rows from time to time in a way that fits any size."""
        loop = asyncio.get_running_loop()
        if self._settling is None:
            self._patient_until = loop.time() + MAX_UNSETTLED_SECONDS
            self.on_resizing()
        else:
            self._settling.cancel()
        self.cursor = None
        self._output.ask_for_cursor()
        settled = loop.time() + SETTLED_SECONDS
        if settled < self._patient_until:
            self._settling = loop.call_at(settled, self._resize)
        else:
            self._settling = loop.call_at(self._patient_until, self._write_unsettled)

    def _write_unsettled(self) -> None:
        self._settling, self._drawn_for = None, self._output.get_size()
        if self._is_drawn:
            with self.surface.any_size():
                self.on_resized()
        self._wait()

    def _resize(self) -> None:
        """Find the first of our rows after the terminal has rewrapped them, and redraw from there."""
        self._settling = None
        if self._is_drawn:
            with self._output.held():
                self._erase()
                self._app._redraw()  # noqa: SLF001 -- what Application._on_resize, which this replaces, does
                self.on_resized()

    @property
    def _is_drawn(self) -> bool:
        """True if the terminal is ours, and reads."""
        return self._app.is_running and not self._app._running_in_terminal and not self._output.stalled  # noqa: SLF001

    def _erase(self) -> None:
        """Erase all rows that are not final, as the terminal has rewrapped them."""
        app, size = self._app, self._output.get_size()
        self._drawn_for = size
        screen = app.renderer.last_rendered_screen
        rows: list[int] = []  # columns
        at = over = 0  # the cursor's row, and the rows it continues in
        reach, column = self.cursor or (None, None)
        lost = False
        if screen is not None:
            cursor = screen.get_cursor_position(app.layout.current_window)
            at, over = cursor.y, cursor.x // size.columns
            lost = column not in (None, cursor.x % size.columns, min(cursor.x, size.columns - 1))
            rows = self._columns or _drawn_widths(screen)
        if self.terminal == XTERM:  # xterm cuts rows where others rewrap them
            over, size = 0, size._replace(columns=sys.maxsize)
        above = self.surface.forget(rows[:at], rows[at + 1 :], size, over, reach)
        self.cursor = None
        with self._output.held():
            self._output.write_raw("\r")
            self._output.cursor_up(0 if lost else above)  # tmux may place it elsewhere after rewrapping wide characters
            self._output.erase_down()
        app.renderer.reset()


def _drawn_widths(screen: "Drawn") -> list[int]:
    """Return the columns of drawn rows up to the last that is not blank."""
    rows = (screen.data_buffer[row].items() for row in range(screen.height))
    return [max((x + 1 for x, cell in row if cell.char.strip()), default=0) for row in rows]
