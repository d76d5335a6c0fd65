"""From events to the terminal: reduced, rendered, and painted a few times a second."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sagent.context.todo import Task
from sagent.events import Event, Finished, TextDelta
from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.repl.terminal.printed import count_letters
from sagent.repl.terminal.surface import Surface
from sagent.repl.view.blocks import Block, Report, expand, expandable, render_block, separated
from sagent.repl.view.lines import Line, printable, wrap
from sagent.repl.view.markdown import Piece, finish, render_piece, table_lines
from sagent.repl.view.view import MAX_TAIL_CHARS, ROOT, Running, View, plain_text, reduce

INTERVAL_SECONDS = 0.08  # between two paintings: less than small pieces are gathered for, so each reading is painted
MAX_RECALLED_BLOCKS = 500  # of the root, to show when the person returns to it
MAX_EXPANDABLE_BLOCKS = 100  # blocks that can still be expanded


class Painter:
    """Display of what happened and is in progress. A block that cannot be rendered is written as plain text."""

    def __init__(self, surface: Surface, redraw: Callable[[], None]) -> None:
        self.view = View()
        self.near = ROOT  # the agent that is read along with
        self._near_view = View()
        self._kept: list[Block] = []  # of the root's, while another is read along with
        self._surface, self._redraw = surface, redraw
        self._pending: list[Block] = []
        self._texts: list[str] = []  # pieces of the answer, not yet reduced
        self._last: Block | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._painted, self._width = 0.0, surface.width  # when, and for which columns
        self._recent: deque[Block] = deque(maxlen=MAX_EXPANDABLE_BLOCKS)
        self._table = Piece("table")  # the unfinished table as it is being printed
        self._expanded = 0  # number of expanded blocks, from the end

    def show(self, event: Event) -> None:
        """Take in an event. Pieces of an answer are collected until the next painting."""
        view = self.view
        writes = bool(view.flow.pending or view.flow.begun) and not view.thinking and not view.waiting
        if writes and type(event) is TextDelta and event.agent == self.near == ROOT:  # it changes only the answer
            self._texts.append(event.text)
            if self._timer is None:
                self._schedule()
            return
        self._take_texts()
        self._take(event)

    def show_tasks(self, tasks: Sequence[Task]) -> None:
        """Show the to-do list of a conversation that changed in another way than by its calls."""
        self.view = replace(self.view, tasks=tuple(tasks))

    def show_waiting(self, agent: str, waits_for: str) -> None:
        """Show why a call of an agent to a local server waits; "" clears it."""
        if waits_for != self.view.waits_for.get(agent, ""):
            others = {path: line for path, line in self.view.waits_for.items() if path != agent}
            self.view = replace(self.view, waits_for={**others, agent: waits_for} if waits_for else others)
            self._redraw()

    def _take_texts(self) -> None:
        if self._texts:
            text, self._texts = "".join(self._texts), []
            self._take(TextDelta(ROOT, text))

    def _take(self, event: Event) -> None:
        at = asyncio.get_running_loop().time()
        before = self.view
        try:
            self.view, blocks = reduce(before, event, at)
        except Exception as error:
            blocks = (Report(f"{plain_text(event)} (the display failed: {type(error).__name__}: {error})", "warning"),)
        if self.near != ROOT:
            blocks = self._take_near(event, blocks, at)
        self._add(*blocks)
        quiet = isinstance(event, TextDelta) and before.flow.begun and before.thinking == self.view.thinking
        self._schedule(redraw=not quiet)

    def _take_near(self, event: Event, blocks: Sequence[Block], at: float) -> Sequence[Block]:
        """Return the blocks that an event adds while another agent than the root is read along with."""
        if event.agent != self.near or isinstance(event, Finished):
            self._kept = [*self._kept, *blocks][-MAX_RECALLED_BLOCKS:]
        if event.agent != self.near:
            return ()
        self._near_view, blocks = reduce(self._near_view, replace(event, agent=ROOT), at)
        return blocks

    def enter(self, agent: str, past: Sequence[Block]) -> None:
        """Follow an agent, whose conversation so far is `past`; the root's output is shown when the person returns."""
        self.paint()
        self._surface.freeze()
        self._surface.printed.clear()
        kept, self._kept = self._kept, []
        self.near, self._near_view = agent, View()
        self.write(*past, *(kept if agent == ROOT else ()))

    @contextmanager
    def running(self, name: str, text: str) -> Generator[Callable[[str], None]]:
        """Show a command of the person's while it runs; send its output so far to the yielded function."""
        shown = Running(ROOT, ToolCall("", name, JsonObject({"command": text})), asyncio.get_running_loop().time())

        def show_output(text: str) -> None:
            nonlocal shown
            others = tuple(shell for shell in self.view.shells if shell is not shown)
            shown = replace(shown, tail=text[-MAX_TAIL_CHARS:])
            self.view = replace(self.view, shells=(*others, shown))
            self._schedule(redraw=True)

        show_output("")
        try:
            yield show_output
        finally:
            self.view = replace(self.view, shells=tuple(shell for shell in self.view.shells if shell is not shown))
            self._redraw()

    def write(self, *blocks: Block) -> None:
        self._take_texts()
        self._add(*blocks)

    def _add(self, *blocks: Block) -> None:
        self._pending += blocks
        if blocks:
            self._schedule()

    def _schedule(self, *, redraw: bool = False) -> None:
        if redraw:
            self._redraw()
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time(), self._painted + INTERVAL_SECONDS), self.paint)

    def paint(self) -> None:
        """Paint the terminal now; if it does not read, as soon as it does."""
        if not self._surface.fits():
            self._timer = None  # later events start the next timer
            return
        self._take_texts()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._painted = asyncio.get_running_loop().time()
        width = self._surface.width
        final: list[Line] = []
        pending, self._pending = self._pending, []
        for block in pending:
            rows = self._rows(block, width)
            if isinstance(block, Piece):
                rows = self._surface.printed.finish(rows, width)
                self._table = Piece("table") if block.kind == "table" else self._table
            final += rows
            self._last = block
            if expandable(block):
                self._recent.append(block)
                self._expanded = 0
        rows = self._unfinished(width)
        self._surface.update(final, rows)
        self._width = width

    def _rows(self, block: Block, width: int) -> list[Line]:
        try:
            rows = render_block(self._kept_layout(block, width) if isinstance(block, Piece) else block, width)
        except Exception as error:
            text = printable(f"{block!r:.2000} (the display failed: {type(error).__name__}: {error})")
            rows = wrap([("", text)], width)
        return [(), *rows] if rows and rows[0] and separated(self._last, block) else rows

    def _unfinished(self, width: int) -> list[Line]:
        try:
            pieces = finish((self.view if self.near == ROOT else self._near_view).flow, live=True)
            rows = self._live_rows(pieces, width)
            table = next((piece for piece in pieces if piece.kind == "table"), Piece("table"))
            if not (table.text and self._table.measured):
                self._measure(table, len(rows))
                rows = self._live_rows(pieces, width) if self._table.measured else rows
        except Exception:
            return []
        return [(), *rows] if rows and separated(self._last, Piece("paragraph")) else rows

    def _live_rows(self, pieces: Sequence[Piece], width: int) -> list[Line]:
        lines: list[Line] = []
        for piece in pieces:
            known = self._kept_layout(piece, width, lines)
            lines += render_piece(known, width, live=True, edge=width + 1)
        return lines

    def _kept_layout(self, piece: Piece, width: int, above: Sequence[Line] = ()) -> Piece:
        """Return the piece, if it is a table, in the columns in which it is printed: a row that has begun stays as it
        was in another width, because its letters stand in another order in this one."""
        if piece.kind != "table":
            return piece
        table, printed = self._table, self._surface.printed
        if printed and table.text and not table.measured:
            table = replace(table, measured=table.text.count("\n") + 1)
        kept = replace(piece, measured=table.measured, wide=table.wide, earlier=table.earlier)
        if printed and table.measured and width != self._width:
            letters, begun = printed.letters - sum(map(count_letters, above)), 0
            for number, line in table_lines(kept, self._width):
                if letters <= 0:
                    break
                begun, letters = number + 1, letters - count_letters(line)
            if begun > max((rows for rows, _ in table.earlier), default=0):
                table = replace(table, earlier=(*table.earlier, (begun, self._width)))
        self._table = table
        return replace(kept, earlier=table.earlier)

    def _measure(self, table: Piece, rows: int) -> None:
        """Keep the columns of a growing table as they are, once rows of it are final: printed, or too many to stay
        unfinished."""
        printed, before = bool(table.text and self._surface.printed), self._table
        if table.text and (printed or rows > self._surface.reach):
            table = before if printed and before.text else table  # as it was drawn last
            table = replace(table, measured=table.text.count("\n") + 1, wide=not printed)
        self._table = table

    def expand(self) -> Sequence[Line]:
        """Return the last expandable block in full; in further calls, the one before. () if there is none."""
        if not self._recent:
            return ()
        self._expanded = self._expanded % len(self._recent) + 1
        block = self._recent[-self._expanded]
        try:
            return expand(block, self._surface.width)
        except Exception:
            return wrap([("", printable(repr(block)[:20_000]))], self._surface.width)
