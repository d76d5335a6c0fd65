"""The rows above the input: final ones, then those of unfinished blocks.

Final rows are never erased, and unchanged rows never rewritten. The input, panel and status line below belong to
prompt_toolkit, which draws relative to its own first row; rows are inserted above that and move it down unchanged. All
output of one step reaches the terminal in one write, inside synchronised output.
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
from sagent.repl.view.lines import FILL, GOES_ON, Line, alike, drawable, is_agreed, line_width, printable, slice_line
from sagent.repl.view.links import address

if TYPE_CHECKING:
    from pathlib import Path

    from prompt_toolkit.application import Application
    from prompt_toolkit.styles import Attrs

LEAVING_SECONDS = 1.0  # to write the rest at exit to a terminal that does not read
MAX_INSERTED_ROWS = 4  # further rows would be lost in a terminal smaller than reported
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # https://gist.github.com/christianparpart/d8a62cc1ab659194337d73e399004036


class SteadyOutput(Vt100_Output):
    """A terminal that shows each flush as a whole. `held` merges several; if the terminal goes away, `on_gone` is
    called once and nothing more is written."""

    def __init__(self, stdout: TextIO, get_size: Callable[[], Size], *, synchronised: bool = True) -> None:
        term = os.environ.get("TERM")
        super().__init__(stdout, get_size, term=term, enable_bell=True, enable_cpr=False)
        self._synchronised = synchronised
        self._depth = 0
        self._pieces: list[str] = []
        self._gone = False
        self._unsent = b""  # not yet taken by the terminal
        self._own: int | None = None  # the terminal, opened for non-blocking writes
        self.on_gone: Callable[[], None] = lambda: None
        self.on_taken: Callable[[], None] = lambda: None  # called when a stalled terminal has taken everything

    def write(self, data: str) -> None:
        """Draw text without control sequences. prompt_toolkit advances by line ends alone."""
        if data.isprintable():
            self.write_raw(data)
        else:
            super().write(printable(data) if data.strip("\r\n") else data)

    def flush(self) -> None:
        """Write pending output, unless more follows."""
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
        """Write as much as the terminal takes; return True if that is all."""
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
        if self._own is None:  # opened anew, because standard output's mode is shared with others
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
        """Empty the cursor's row and those below; only called at the beginning of a row.

        The rows are deleted first: tmux moves a completely erased screen to the scrollback if it has text. rxvt-unicode
        deletes nothing if there are fewer rows.
        """
        self.write_raw(f"\r\x1b[{self.get_size().rows}M\x1b[J")

    def ask_for_cursor(self) -> None:
        """Ask the terminal for the cursor's row (DSR, https://vt100.net/docs/vt510-rm/DSR-CPR.html)."""
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

    def pause(self) -> None:
        self._depth += 1

    def release(self) -> None:
        """Write collected output in one piece."""
        self._depth = max(self._depth - 1, 0)
        self.flush()

    @contextmanager
    def held(self) -> Generator[None]:
        """Write all output of the block at its end, in one piece."""
        self.pause()
        try:
            yield
        finally:
            self.release()


class Surface:
    """The rows above the input of an application."""

    def __init__(self, app: "Application[None]", output: SteadyOutput, fits: Callable[[], bool] = lambda: True) -> None:
        self._app = app
        self.fits = fits  # whether drawing is allowed: the terminal reads, and its size is stable
        self._output = output
        self.open_rows: list[Line] = []  # unfinished rows on the screen
        self.printed = Printed()  # its final rows: beyond the screen's edge, or with other rows below
        self.ghosts: list[int] = []  # columns of drawn rows that are above the screen's edge
        self.buried = HiddenRows()  # the same, with the rows written below
        self._look: Hashable = None
        self._known: dict[str, Attrs] = {}  # of that look
        self.directory: Callable[[], Path] | None = None  # of relative paths in links
        self._links = output.term not in ("linux", "dumb")
        self._wraps = False  # the terminal wraps at its edge itself
        self._waiting: list[Line] = []  # rows to write when the screen is ours again
        self._unsettled = False  # the terminal's size is unknown
        self._guessed = False  # it was also unknown at the last drawing: rows may be cut

    @property
    def width(self) -> int:
        """Columns of a row: one less than the terminal has, so that it never wraps."""
        return max(self._output.get_size().columns - 1, 10)

    def update(self, final: Sequence[Line], rows: Sequence[Line]) -> None:
        """Write final rows, and below them the current unfinished ones.

        Unfinished rows that no longer fit above the input become final.
        """
        if not rows:
            self.printed.clear()
        if self._is_full or self._unsettled:  # unfinished rows wait until they are final, or fit
            self._freeze()
            rows = ()
        final, kept = [*map(drawable, final)], [*map(drawable, self.printed.rest(rows, self.width) if rows else ())]
        above = max(len(kept) - self.reach, 0)
        self._paint([*final, *kept[:above]], kept[above:])
        self.printed.add(above)

    @property
    def reach(self) -> int:
        """The unfinished rows that fit above the input."""
        screen = self._app.renderer.last_rendered_screen
        return max(self._output.get_size().rows - (screen.height if screen is not None else 0) - 1, 1)

    @property
    def _is_full(self) -> bool:
        """True if the input and its surroundings fill the terminal."""
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
        """Write rows that waited for the screen."""
        if self._waiting and self._app.renderer.last_rendered_screen is not None:
            self._paint([], list(self.open_rows))

    # -- drawing. `row` counts from the first open row; the input's first row is `len(old)`.

    def _replace(self, lines: list[Line]) -> None:
        old, out = self.open_rows, self._output
        screen = self._app.renderer.last_rendered_screen
        assert screen is not None
        cursor = screen.get_cursor_position(self._app.layout.current_window)
        row = len(old) + cursor.y
        for index in range(min(len(old), len(lines))):
            if old[index] != lines[index]:
                self._move(row, index)
                if not self._go_on(lines, index):
                    self._change(old[index], lines[index])
                elif line_width(lines[index]) < line_width(old[index]):
                    out.write_raw("\x1b[K")
                row = index
        height = screen.height
        if len(lines) < len(old):
            self._move(row, len(lines))
            row = len(lines)
            out.write_raw(f"\r\x1b[{len(old) - len(lines)}M")
        fresh, top = lines[len(old) :], len(old)
        most = max(min(out.get_size().rows - height - 1, MAX_INSERTED_ROWS), 1)
        while fresh:
            chunk, fresh = fresh[:most], fresh[most:]
            self._move(row, top + height - 1)
            out.write_raw("\r" + "\n" * len(chunk))
            self._move(top + height - 1 + len(chunk), top)
            out.write_raw(f"\x1b[{len(chunk)}L")
            if not self._go_on(lines, top):
                self._write(chunk[0])
            for before, line in pairwise(chunk):
                out.write_raw("" if GOES_ON in before else "\r\n")
                self._write(line)
            top += len(chunk)
            row = top - 1
        self._move(row, len(lines) + cursor.y)
        out.write_raw("\r")
        out.cursor_forward(cursor.x)
        out.flush()

    def _write_anew(self, lines: list[Line]) -> None:
        """Write lines and redraw everything below, if no rows can be inserted."""
        self._app.renderer.erase(leave_alternate_screen=False)
        for line in lines:
            self._write(line)
            self._output.write_raw("" if GOES_ON in line else "\r\n")
        self._app._redraw()  # noqa: SLF001 -- as `Screen` does it

    def _move(self, row: int, target: int) -> None:
        self._output.cursor_up(max(row - target, 0))
        self._output.cursor_down(max(target - row, 0))

    def _go_on(self, lines: Sequence[Line], index: int) -> bool:
        """Write the cursor's row past the edge of the row above, if it continues that row."""
        if not index or GOES_ON not in lines[index - 1]:
            return False
        self._output.cursor_up(1)
        self._output.write_raw("\r")
        self._write(lines[index - 1])
        self._write(lines[index])
        return True

    def _change(self, before: Line, after: Line) -> None:
        """Write the changed part of the cursor's row; the whole row if the first changed column is uncertain, or if it
        became shorter: tmux rewraps blanks with the row if only its end is erased."""
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

    def _write(self, line: Line) -> None:
        out, depth, styled = self._output, self._app.color_depth, False
        if GOES_ON in line:
            out.enable_autowrap()  # prompt_toolkit turns it off
            self._wraps = True
        for style, text in line:
            leads_to = address(style, self.directory and self.directory()) if self._links and "[" in style else ""
            if style:
                out.set_attributes(self._attributes(style.partition("[")[0]), depth)
                styled = True
            elif styled:
                out.reset_attributes()
                styled = False
            if leads_to:
                out.write_raw(f"\x1b]8;;{leads_to}\x1b\\")
            out.write(text) if text or not style.endswith(FILL) else out.write_raw("\x1b[K")
            if leads_to:
                out.write_raw("\x1b]8;;\x1b\\")
        if styled:
            out.reset_attributes()
        if self._wraps and GOES_ON not in line:
            out.disable_autowrap()
            self._wraps = False

    def freeze(self) -> None:
        """Leave the unfinished rows as they are, because other rows will be written below."""
        self._freeze()
        self.buried.clear()

    def _freeze(self) -> None:
        """Count the unfinished rows as printed, except the last, which may be half a sentence and is written again."""
        self.printed.add(max(len(self.open_rows) - 1, 0))
        self._bury(self.open_rows)
        self.open_rows = []

    def _bury(self, rows: Sequence[int | Line]) -> None:
        """Add final rows below the buried ones."""
        if self.buried:
            self.buried.add(rows)

    @contextmanager
    def any_size(self) -> Generator[None]:
        """Write the block's output once in a way that fits any size: existing rows stay, and final rows follow."""
        self._settle(len(self.open_rows))
        self._unsettled = True
        try:
            yield
        finally:
            self._unsettled = False
            self.buried.clear()

    def _settle(self, final: int) -> None:
        """Count the first open rows as final; of the very last, which may go on, what it has. Forget the others."""
        last = self.open_rows[len(self.open_rows[:-1]) : final]
        self.printed.add(final - len(last), sum(map(count_letters, last)))
        self.open_rows = []

    def forget(self, before: Sequence[int], behind: Sequence[int], size: Size, over: int, reach: int | None) -> int:
        """Count the rows, from the cursor's up to the first one that is not final, to redraw in a terminal that has
        rewrapped them. The cursor's row continues in `over` more; `before` and `behind` are the widths of foreign rows.
        Rows above the terminal's edge are out of reach and count as final. If the number of rows above the cursor is
        known (`reach`), drawn rows beyond the edge are forgotten too."""
        columns, drawn = max(size.columns, 1), [*self.ghosts, *before]
        ours = [folded(row, columns) for row in self.open_rows]
        sizes = [*ours, *(1 if self._guessed else folded(width, columns) for width in drawn)]
        above = sum(sizes) + over
        starts = [*accumulate(sizes, initial=0)][:-1]
        edge = above - size.rows + 1  # the cursor is in the last row here; terminals may drop rows beyond it
        kept = edge + sum(folded(width, columns) for width in behind)
        final = sum(start < kept for start in starts[: len(ours)])
        gone = edge if reach is None else above - reach
        self.ghosts = [] if self._guessed else drawn[: sum(start < gone for start in starts[len(ours) :])]
        self._bury(self.open_rows[:final])
        self._settle(final)
        self._guessed = False
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
