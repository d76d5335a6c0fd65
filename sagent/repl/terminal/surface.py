"""The terminal above the input: rows that are final, then the rows of what is not finished yet.

Nothing is erased that was final, and no row is written twice that has not changed. What lies below (input, panel,
status line) belongs to prompt_toolkit, which draws it relative to its own first row; here rows are put in above that,
and it moves down as it is. Everything of one step reaches the terminal in one write, inside synchronised output.
"""

import asyncio
import os
import select
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

from sagent.repl.terminal import key_codes
from sagent.repl.terminal.printed import HiddenRows, Printed, count_letters, folded
from sagent.repl.view.lines import GOES_ON, Line, alike, drawable, is_agreed, line_width, printable, slice_line
from sagent.repl.view.links import address

if TYPE_CHECKING:
    from pathlib import Path

    from prompt_toolkit.application import Application
    from prompt_toolkit.styles import Attrs

LEAVING_SECONDS = 1.0  # that a terminal which does not read has in the end
MAX_INSERTED_ROWS = 4  # more than fit are lost, and a terminal may be smaller than it has said
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # https://gist.github.com/christianparpart/d8a62cc1ab659194337d73e399004036


class SteadyOutput(Vt100_Output):
    """A terminal that shows each flush as a whole. `held` gathers several into one; one that went away is reported to
    `on_gone`, once, and written to no more."""

    def __init__(self, stdout: TextIO, get_size: Callable[[], Size], *, synchronised: bool = True) -> None:
        term = os.environ.get("TERM")
        super().__init__(stdout, get_size, term=term, enable_bell=True, enable_cpr=False)
        self._synchronised = synchronised
        self._depth = 0
        self._pieces: list[str] = []
        self._gone = False
        self._unsent = b""  # what the terminal has not taken yet
        self._own: int | None = None  # the terminal, opened so that writing to it waits for nothing
        self.on_gone: Callable[[], None] = lambda: None
        self.on_taken: Callable[[], None] = lambda: None  # a terminal that was stalled has taken all

    def write(self, data: str) -> None:
        """Draw text: what it says drives nothing. prompt_toolkit moves on by line ends alone."""
        if data.isprintable():
            self.write_raw(data)
        else:
            super().write(printable(data) if data.strip("\r\n") else data)

    def flush(self) -> None:
        """Write what is waiting, unless more is to come."""
        self._pieces += self._buffer
        self._buffer = []
        if self._depth or not self._pieces:
            return
        text, self._pieces = "".join(self._pieces), []
        if self._gone:
            return
        try:
            data = (f"{BEGIN}{text}{END}" if self._synchronised else text).encode(errors="replace")
            self._write_all(data)
        except OSError:
            self._gone = True
            self.on_gone()

    @property
    def stalled(self) -> bool:
        """True if the terminal does not read, so that nothing more should be drawn."""
        return bool(self._unsent)

    def _write_all(self, data: bytes) -> None:
        waits, self._unsent = self.stalled, self._unsent + data
        if not waits and not self._send():
            asyncio.get_running_loop().add_writer(self._terminal(), self._send_rest)

    def _send(self) -> bool:
        """Write what the terminal takes; whether that is all."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._terminal(), self._unsent) :]
        except BlockingIOError:
            return False
        return True

    def _send_rest(self) -> None:
        gone = False
        try:
            if not self._send():
                return
        except OSError:
            gone, self._unsent = True, b""
        asyncio.get_running_loop().remove_writer(self._terminal())
        if gone:
            self._gone = True
            self.on_gone()
        else:
            self.on_taken()

    def _terminal(self) -> int:
        if self._own is None:  # opened anew: the mode of standard output is that of others too
            try:
                self._own = os.open(os.ttyname(self.stdout.fileno()), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            except OSError:
                return self.stdout.fileno()
        return self._own

    def close(self) -> None:
        """Give the terminal a moment to take the rest."""
        if self._own is None:
            return
        if self.stalled:
            asyncio.get_running_loop().remove_writer(self._own)
            end = time.monotonic() + LEAVING_SECONDS
            with suppress(OSError):
                while (left := end - time.monotonic()) > 0 and not self._send():
                    select.select([], [self._own], [], left)
        os.close(self._own)
        self._own = None

    def erase_down(self) -> None:
        """Empty the cursor's row and those below; prompt_toolkit and we do so at a row's beginning only.

        The rows are deleted first: tmux takes an erasure of the whole screen for a page that belongs in the scrollback,
        if anything is on it. rxvt-unicode deletes nothing where there are fewer rows.
        """
        self.write_raw(f"\r\x1b[{self.get_size().rows}M\x1b[J")

    def ask_for_cursor(self) -> None:
        """Have the terminal say in which row the cursor is (DSR, https://vt100.net/docs/vt510-rm/DSR-CPR.html)."""
        if self.term not in ("linux", "dumb") and not self.stalled:
            self.write_raw("\x1b[6n")
            self.flush()

    def enable_bracketed_paste(self) -> None:
        """Have pastes marked, changes of focus reported, and keys distinguished."""
        super().enable_bracketed_paste()
        self.write_raw(f"\x1b[?1004h{key_codes.ASK}" if self.term != "linux" else "\x1b[?1004h")

    def disable_bracketed_paste(self) -> None:
        self.write_raw(f"{key_codes.STOP}\x1b[?1004l" if self.term != "linux" else "\x1b[?1004l")
        super().disable_bracketed_paste()

    def hold(self) -> None:
        self._depth += 1

    def release(self) -> None:
        """Write what has gathered in one piece."""
        self._depth = max(self._depth - 1, 0)
        self.flush()

    @contextmanager
    def held(self) -> Generator[None]:
        """Send everything written in the block at its end, in one piece."""
        self.hold()
        try:
            yield
        finally:
            self.release()


class Surface:
    """The rows above the input of an application."""

    def __init__(self, app: "Application[None]", output: SteadyOutput, fits: Callable[[], bool] = lambda: True) -> None:
        self._app = app
        self.fits = fits  # whether the terminal reads and has the size that it had, so that one may draw
        self._output = output
        self.open_rows: list[Line] = []  # rows of what is not finished, as they are on the screen
        self.printed = Printed()  # what is final of it: it was above the screen's edge, or something came below it
        self.ghosts: list[int] = []  # columns of drawn rows that are above the screen's edge
        self.buried = HiddenRows()  # the same with what was written below them
        self._look: Hashable = None
        self._known: dict[str, Attrs] = {}  # of that look
        self.directory: Callable[[], Path] | None = None  # of relative paths in links
        self._links = output.term not in ("linux", "dumb")
        self._wraps = False  # the terminal goes on at its edge by itself
        self._waiting: list[Line] = []  # rows for when the screen is ours again
        self._unsettled = False  # the terminal's size is not known
        self._guessed = False  # nor was it when what lies below was drawn: its rows may be cut

    @property
    def width(self) -> int:
        """Columns of a row: one less than the terminal has, so that no terminal wraps by itself."""
        return max(self._output.get_size().columns - 1, 10)

    def update(self, final: Sequence[Line], rows: Sequence[Line]) -> None:
        """Write rows that are final, and below them those of what is not finished, as they are now.

        Rows of the unfinished that no longer fit above the input are final.
        """
        if not rows:
            self.printed.clear()
        if self._is_full or self._unsettled:  # what is not finished comes when it is, or when there is room
            self._freeze()
            rows = ()
        final, kept = [*map(drawable, final)], [*map(drawable, self.printed.rest(rows, self.width) if rows else ())]
        screen = self._app.renderer.last_rendered_screen
        reach = max(self._output.get_size().rows - (screen.height if screen is not None else 0) - 1, 1)
        above = max(len(kept) - reach, 0)
        self._paint([*final, *kept[:above]], kept[above:])
        self.printed.add(above)

    @property
    def _is_full(self) -> bool:
        """True if what lies below has every row of the terminal."""
        screen = self._app.renderer.last_rendered_screen
        return screen is not None and screen.height >= self._output.get_size().rows

    def _paint(self, final: list[Line], rows: list[Line]) -> None:
        if self._app.renderer.last_rendered_screen is None or not self._app.is_running:
            self._waiting += final
            self.open_rows = []
            return
        final, self._waiting = [*self._waiting, *final], []
        wanted = [*final, *rows]
        if wanted != self.open_rows:
            if not self._unsettled:
                self.buried.add(self.ghosts)
            self.ghosts, self._guessed = [], self._guessed or self._unsettled
            self._forget_other_looks()
            with self._output.held():
                (self._write_anew if self._is_full or self._unsettled else self._replace)(wanted)
        self._bury(final)
        self.open_rows = rows

    def flush_waiting(self) -> None:
        """Write what came while there was no screen to write on."""
        if self._waiting and self._app.renderer.last_rendered_screen is not None:
            self._paint([], list(self.open_rows))

    # -- drawing. `row` counts from the first open row; the input's first row is `len(old)`.

    def _replace(self, wanted: list[Line]) -> None:
        old, out = self.open_rows, self._output
        screen = self._app.renderer.last_rendered_screen
        assert screen is not None
        cursor = screen.get_cursor_position(self._app.layout.current_window)
        row = len(old) + cursor.y
        for index in range(min(len(old), len(wanted))):
            if old[index] != wanted[index]:
                self._move(row, index)
                if not self._go_on(wanted, index):
                    self._change(old[index], wanted[index])
                elif line_width(wanted[index]) < line_width(old[index]):
                    out.write_raw("\x1b[K")
                row = index
        height = screen.height
        if len(wanted) < len(old):
            self._move(row, len(wanted))
            row = len(wanted)
            out.write_raw(f"\r\x1b[{len(old) - len(wanted)}M")
        fresh, top = wanted[len(old) :], len(old)
        most = max(min(out.get_size().rows - height - 1, MAX_INSERTED_ROWS), 1)
        while fresh:
            chunk, fresh = fresh[:most], fresh[most:]
            self._move(row, top + height - 1)
            out.write_raw("\r" + "\n" * len(chunk))
            self._move(top + height - 1 + len(chunk), top)
            out.write_raw(f"\x1b[{len(chunk)}L")
            if not self._go_on(wanted, top):
                self._write(chunk[0])
            for before, line in pairwise(chunk):
                out.write_raw("" if GOES_ON in before else "\r\n")
                self._write(line)
            top += len(chunk)
            row = top - 1
        self._move(row, len(wanted) + cursor.y)
        out.write_raw("\r")
        out.cursor_forward(cursor.x)
        out.flush()

    def _write_anew(self, wanted: list[Line]) -> None:
        """Write lines and redraw what lies below under them, if nothing can be put in above it."""
        self._app.renderer.erase(leave_alternate_screen=False)
        for line in wanted:
            self._write(line)
            self._output.write_raw("" if GOES_ON in line else "\r\n")
        self._app._redraw()  # noqa: SLF001 -- as `Screen` does it

    def _move(self, row: int, target: int) -> None:
        self._output.cursor_up(max(row - target, 0))
        self._output.cursor_down(max(target - row, 0))

    def _go_on(self, wanted: Sequence[Line], index: int) -> bool:
        """Write the row where the cursor is by way of the edge of the row above, where it goes on that one."""
        if not index or GOES_ON not in wanted[index - 1]:
            return False
        self._output.cursor_up(1)
        self._output.write_raw("\r")
        self._write(wanted[index - 1])
        self._write(wanted[index])
        return True

    def _change(self, before: Line, after: Line) -> None:
        """Write what differs in the row where the cursor is, from the first column that does; all of it where it is
        not sure which that is, or where it was longer: tmux rewraps blanks with the row, if only its end is erased."""
        out, same = self._output, 0
        out.write_raw("\r")
        if is_agreed(before) and is_agreed(after) and line_width(after) >= line_width(before):
            same = _common(before, after)
            out.cursor_forward(line_width(slice_line(after, 0, same)))
        else:
            out.write_raw("\x1b[K")
        self._write(slice_line(after, same))

    def _forget_other_looks(self) -> None:
        """Forget attributes that were of another theme. To ask costs more than to know: once for each painting."""
        if (now := self._app.renderer.style.invalidation_hash()) != self._look:
            self._look, self._known = now, {}

    def _attributes(self, style: str) -> "Attrs":
        if style not in self._known:
            self._known[style] = self._app.renderer.style.get_attrs_for_style_str(style)
        return self._known[style]

    def _address(self, style: str) -> str:
        return address(style, self.directory and self.directory()) if self._links else ""

    def _write(self, line: Line) -> None:
        out, depth, styled = self._output, self._app.color_depth, False
        if GOES_ON in line:
            out.enable_autowrap()  # which prompt_toolkit switches off
            self._wraps = True
        for style, text in line:
            leads_to = self._address(style) if "[" in style else ""
            if style:
                out.set_attributes(self._attributes(style.partition("[")[0]), depth)
                styled = True
            elif styled:
                out.reset_attributes()
                styled = False
            if leads_to:
                out.write_raw(f"\x1b]8;;{leads_to}\x1b\\")
            out.write(text)
            if leads_to:
                out.write_raw("\x1b]8;;\x1b\\")
        if styled:
            out.reset_attributes()
        if self._wraps and GOES_ON not in line:
            out.disable_autowrap()
            self._wraps = False

    def freeze(self) -> None:
        """Leave the unfinished rows as they are: other rows will be written below them."""
        self._freeze()
        self.buried.clear()

    def _freeze(self) -> None:
        """Count the unfinished rows as printed, but the last: it may be half a sentence, and is written again."""
        self.printed.add(max(len(self.open_rows) - 1, 0))
        self._bury(self.open_rows)
        self.open_rows = []

    def _bury(self, rows: Sequence[int | Line]) -> None:
        """Add rows that are final below those that are buried."""
        if self.buried:
            self.buried.add(rows)

    @contextmanager
    def any_size(self) -> Generator[None]:
        """Write what the block writes once and whole, whatever size the terminal has: what was there stays, and what is
        final goes on below it."""
        if self.open_rows:
            self.printed.add(len(self.open_rows) - 1, count_letters(self.open_rows[-1]))
            self.open_rows = []
        self._unsettled = True
        try:
            yield
        finally:
            self._unsettled = False
            self.buried.clear()

    def forget(self, before: Sequence[int], behind: Sequence[int], size: Size, over: int, reach: int | None) -> int:
        """Count the rows, from the cursor's up to the first that is not final, that will be drawn anew in a terminal
        that has rewrapped them. The cursor's goes on in `over` more; `before` and `behind` are the columns of the rows
        that are not ours. What is above the terminal's edge is out of reach: text there is final, and text that may be.
        If it is known how many rows are above the cursor (`reach`), drawn rows that were beyond its edge go too."""
        columns, drawn = max(size.columns, 1), [*self.ghosts, *before]
        ours = [folded(row, columns) for row in self.open_rows]
        sizes = [*ours, *(1 if self._guessed else folded(width, columns) for width in drawn)]
        above = sum(sizes) + over
        starts = [*accumulate(sizes, initial=0)][:-1]
        edge = above - size.rows + 1  # where the cursor is in the last row: terminals drop what is beyond it, or do not
        kept = edge + sum(folded(width, columns) for width in behind)
        final = sum(start < kept for start in starts[: len(ours)])
        self.printed.add(final)
        gone = edge if reach is None else above - reach
        self.ghosts = [] if self._guessed else drawn[: sum(start < gone for start in starts[len(ours) :])]
        self._bury(self.open_rows[:final])
        self.open_rows, self._guessed = [], False
        above -= sum(ours[:final])
        if reach is None or self.ghosts:
            return above
        rows, again = self.buried.dig(columns, reach - above)
        self._waiting = [*again, *self._waiting]
        return above + rows


def _common(before: Line, after: Line) -> int:
    """Characters that two rows begin with alike, styles included."""
    same = 0
    for (style, text), (other, more) in zip(before, after, strict=False):
        if style == other:
            same += alike(text, more)
        if (style, text) != (other, more):
            break
    return same
