"""Questions to the person, one at a time: lists to choose from, lines to type, calls to approve, what agents ask."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sagent.messages import ToolCall
from sagent.repl.terminal.approval import Answer, approval_options, rules_for
from sagent.repl.terminal.picker import Option, Picker, option_width
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.lines import Line, printable, wrap

if TYPE_CHECKING:
    from sagent.policy import Ask
    from sagent.tools.ask import Question

T = TypeVar("T")
PAUSE = 0.2  # seconds without another letter after which one is a choice
QUIET = 0.7  # seconds without a key before a question takes the keyboard
LONG_TURN = 10.0  # seconds of work after which its end is told with a bell


class Presence:
    """Knows when something was typed last, and calls who is not there. `way` is how: "off", "bell" or "osc9"."""

    def __init__(self, screen: Screen, way: Callable[[], str]) -> None:
        self._screen, self._way = screen, way
        self._typed_at = 0.0
        screen.buffer.on_text_changed += self._on_typed

    def _on_typed(self, _: object) -> None:
        self._typed_at = time.monotonic()

    async def until_quiet(self) -> None:
        """Wait until the person has stopped typing."""
        if (left := self._typed_at + QUIET - time.monotonic()) > 0:
            await asyncio.sleep(left)
            await self.until_quiet()

    def ring(self, seconds: float) -> None:
        """Call a person who looks elsewhere when work ends; after long work also where the terminal does not say."""
        if seconds >= LONG_TURN or self._screen.focused is False:
            self.call("sagent has finished")

    def call(self, text: str) -> None:
        """Call a person who looks elsewhere, or has not typed for a while."""
        way, screen = self._way(), self._screen
        away = time.monotonic() - self._typed_at >= LONG_TURN if screen.focused is None else not screen.focused
        if way == "off" or not away:
            return
        if way == "osc9":
            note = f"\x1b]9;{text}\x07"
            inside = bool(os.environ.get("TMUX"))  # tmux passes it on where its option allow-passthrough is on
            screen.output.write_raw(f"\x1bPtmux;\x1b{note}\x1b\\" if inside else note)
        screen.output.bell()
        screen.output.flush()


class Questions:
    """Takes the input for a question, and gives it back with what was being typed.

    `cwd` is where relative paths begin; `allow` is told the rules that the person allows, and whether for ever; `write`
    shows above what there is no room for in a question.
    """

    def __init__(
        self,
        screen: Screen,
        presence: Presence,
        *,
        cwd: Callable[[], Path],
        allow: Callable[[Sequence[str], bool], None],
        write: Callable[[Sequence[Line]], None],
    ) -> None:
        self._screen, self._presence = screen, presence
        self._cwd, self._allow, self._write = cwd, allow, write
        self.picker: Picker[object] | None = None
        self._line: asyncio.Future[str | None] | None = None
        self._letter = self._words = ""  # typed at a question: not yet a choice, or its answer
        self._floor = asyncio.Lock()  # one question at a time
        self._waiting = 0  # calls to approve

    # -- what keys do

    def type(self, text: str) -> None:
        """A letter while a question is open: it chooses when no other follows at once, else it is the beginning of a
        text. Whoever was about to write something must not have allowed a call by its first letter."""
        buffer = self._screen.buffer
        letter, self._letter = self._letter, ""
        if letter or buffer.text:
            buffer.insert_text(letter + text)
            return
        self._letter = text

        def choose() -> None:
            if self.picker is not None and self._letter == text:
                self._letter = ""
                if not self.picker.type(text):
                    buffer.insert_text(text)
                self._screen.redraw()

        asyncio.get_running_loop().call_later(PAUSE, choose)

    def answer_in_words(self) -> bool:
        """Answer the open question with what was typed; False where nothing was."""
        text, self._words = self._screen.buffer.text.strip(), ""
        if not text or self.picker is None or not self.picker.keys:
            return False
        self._screen.buffer.reset()
        self._words = text
        self.picker.take()
        return True

    def take_line(self, text: str | None) -> bool:
        """Take the line that was asked for, None where the person leaves it; False where none was."""
        if self._line is None:
            return False
        self._screen.buffer.reset()
        if not self._line.done():
            self._line.set_result(text)
        return True

    # -- lists and lines

    async def pick(self, title: str, options: Sequence[Option[T]]) -> T | None:
        """Have the person choose; None for nothing."""
        picker = Picker([(("class:ask", f"? {title}"),)], options)
        await self._open(picker)
        return picker.chosen.result()

    async def choose(self, title: str, options: Sequence[Option[T]]) -> T | None:
        """Have the person choose by a key; None for nothing. Words that they write meanwhile stay in the input."""
        picker = Picker([(("class:ask", f"? {title}"),)], options, keys=True)
        async with self._floor:
            await self._presence.until_quiet()
            words = await self._put(picker)
        self._screen.buffer.insert_text(words)
        return picker.chosen.result()

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        """Have the person type a line; None when they leave it, or another one is being typed."""
        if self._line is not None:
            return None
        buffer, screen = self._screen.buffer, self._screen
        kept, self._line = buffer.text, asyncio.get_running_loop().create_future()
        buffer.reset()
        screen.label, screen.secret = label, secret
        screen.redraw()
        try:
            return await self._line
        finally:
            self._line = None
            screen.label, screen.secret = "› ", False
            screen.replace_text(kept)
            screen.redraw()

    async def _open(self, picker: "Picker[T]") -> None:
        """Show a list until something was chosen, or nothing."""
        await self._until_free()
        self.picker = picker  # pyright: ignore[reportAttributeAccessIssue] -- what it chooses is of no concern there
        self._screen.redraw()
        try:
            await asyncio.wait([picker.chosen])
        finally:
            picker.take()
            self.picker = None
            self._screen.redraw()

    async def _until_free(self) -> None:
        while self.picker is not None:
            await asyncio.wait([self.picker.chosen])
            await asyncio.sleep(0)

    async def _put(self, picker: "Picker[T]") -> str:
        """Put a question, and wait for a choice or for words, which are returned; what was being typed is kept."""
        await self._until_free()
        self._presence.call("sagent asks")
        buffer = self._screen.buffer
        kept, self._words, self._letter = buffer.text, "", ""
        buffer.reset()
        try:
            await self._open(picker)
        finally:
            self._screen.replace_text(kept or buffer.text)
        return self._words

    # -- calls to approve

    async def approve(self, call: ToolCall, ask: "Ask") -> str | None:
        """Have the person approve a call: None is yes, a text the reason for no."""
        self._waiting += 1
        self._screen.redraw()
        try:
            async with self._floor:
                await self._presence.until_quiet()
                return await self._put_approval(call, ask)
        finally:
            self._waiting -= 1
            self._screen.redraw()

    async def _put_approval(self, call: ToolCall, ask: "Ask") -> str | None:
        from sagent.repl.view.calls import read_text, render_approval

        rules, width = rules_for(ask), self._screen.surface.width
        options = approval_options(rules)
        title = render_approval(call, ask, partial(read_text, self._cwd()), width, self._waiting - 1)
        if max(map(option_width, options)) > width:
            title += wrap([("class:tool", printable(", ".join(rules)))], width, (("class:dim", "  s and a allow: "),))
        if len(title) > self._screen.panel_rows - 1 - len(options):
            self._write(title)
            title = [(("class:ask", "? "), ("class:tool", call.name), ("class:ask", ", as it is shown above?"))]
        picker: Picker[Answer] = Picker(title, options, keys=True)
        words = await self._put(picker)
        answer = picker.chosen.result()
        if answer in ("once", "session", "always"):
            if answer != "once":
                self._allow(rules, answer == "always")
            return None
        why = words or (await self.line("Why not? ") if answer == "no" else "") or ""
        return f"The person said no: {why.strip()}" if why.strip() else "The person said no."

    # -- what agents ask

    async def answer(self, question: "Question") -> str | None:
        """What the person says to an agent's question, after the questions that came before it."""
        from sagent.repl.view.calls import render_agents_question

        title = render_agents_question(question, self._screen.surface.width)
        options = [Option(text, text) for text in question.options]
        picker: Picker[str] = Picker(title, options, keys=True, ticked=set() if question.multiple else None)
        async with self._floor:
            await self._presence.until_quiet()
            words = await self._put(picker)
        chosen = picker.chosen.result()
        if words or not chosen or picker.ticked is None:
            return words or chosen or None
        return "\n".join(question.options[number] for number in sorted(picker.ticked))
