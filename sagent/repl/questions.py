"""Questions to the person, one at a time: lists to choose from, lines to type, calls to allow, what agents ask."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sagent.messages import ToolCall
from sagent.repl.approvals import Answer, Approval, Approvals
from sagent.repl.terminal.keys import replace_text
from sagent.repl.terminal.picker import Option, Picker
from sagent.repl.terminal.presence import Presence
from sagent.repl.terminal.screen import Screen

if TYPE_CHECKING:
    from sagent.policy import Ask
    from sagent.tools.ask import Question

T = TypeVar("T")
Spawn: TypeAlias = Callable[[Coroutine[None, None, None]], "asyncio.Task[None]"]
"""Does something beside everything else, and tells what went wrong with it."""
PAUSE = 0.2  # seconds without another letter after which one is a choice


class Questions:
    """Takes the input for a question, and gives it back with what was being typed.

    `cwd` is where relative paths begin; `allow` is told a rule that the person allows, and whether for ever.
    """

    def __init__(
        self,
        screen: Screen,
        presence: Presence,
        spawn: Spawn,
        *,
        cwd: Callable[[], Path],
        allow: Callable[[str, bool], None],
    ) -> None:
        self._screen, self._presence, self._spawn = screen, presence, spawn
        self._cwd, self._allow = cwd, allow
        self._picker: Picker[object] | None = None
        self._line: asyncio.Future[str | None] | None = None
        self._letter = self._words = ""  # typed at a question: not yet a choice, or its answer
        self._floor = asyncio.Lock()  # one question at a time
        self._approvals = Approvals(self._on_approvals)
        self._asking: asyncio.Task[None] | None = None

    @property
    def picker(self) -> "Picker[object] | None":
        """The list that is open."""
        return self._picker

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
            if self._picker is not None and self._letter == text:
                self._letter = ""
                if not self._picker.type(text):
                    buffer.insert_text(text)
                self._screen.redraw()

        asyncio.get_running_loop().call_later(PAUSE, choose)

    def answer_in_words(self) -> bool:
        """Answer the open question with what was typed; False where nothing was."""
        text, self._words = self._screen.buffer.text.strip(), ""
        if not text or self._picker is None or not self._picker.keys:
            return False
        self._screen.buffer.reset()
        self._words = text
        self._picker.leave()
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
            replace_text(buffer, kept)
            screen.redraw()

    async def _open(self, picker: "Picker[T]", end: "asyncio.Future[str | None] | None" = None) -> None:
        """Show a list until something was chosen, or nothing; `end` closes it too."""
        await self._until_free()
        self._picker = picker  # pyright: ignore[reportAttributeAccessIssue] -- what it chooses is of no concern there
        self._screen.redraw()
        try:
            await asyncio.wait([picker.chosen, *([end] if end else ())], return_when=asyncio.FIRST_COMPLETED)
        finally:
            picker.leave()
            self._picker = None
            self._screen.redraw()

    async def _until_free(self) -> None:
        """Wait until no list is open."""
        while self._picker is not None:
            await asyncio.wait([self._picker.chosen])
            await asyncio.sleep(0)

    async def _put(self, picker: "Picker[T]", end: "asyncio.Future[str | None] | None" = None) -> str:
        """Put a question, and wait for a choice or for words, which are returned; what was being typed is kept."""
        await self._until_free()
        self._presence.call("sagent asks")
        buffer = self._screen.buffer
        kept, self._words, self._letter = buffer.text, "", ""
        buffer.reset()
        try:
            await self._open(picker, end)
        finally:
            replace_text(buffer, kept or buffer.text)
        return self._words

    # -- calls to allow

    def approve(self, call: ToolCall, ask: "Ask") -> Awaitable[str | None]:
        """Have the person allow a call: None is yes, a text the reason for no."""
        return self._approvals.ask(call, ask, "" if ask.agent == "root" else ask.agent)

    def _on_approvals(self) -> None:
        if self._approvals.waiting and (self._asking is None or self._asking.done()):
            self._asking = self._spawn(self._put_approvals())
        self._screen.redraw()

    async def _put_approvals(self) -> None:
        while self._approvals.waiting:
            async with self._floor:
                await self._presence.until_quiet()
                if self._approvals.waiting and not (approval := self._approvals.waiting[0]).answer.done():
                    await self._put_approval(approval)
            await asyncio.sleep(0)

    async def _put_approval(self, approval: Approval) -> None:
        from sagent.repl.approvals import options, render_question, rule_for
        from sagent.repl.view.calls import read_text

        rule = rule_for(approval)
        count = len(self._approvals.waiting) - 1
        title = render_question(approval, read_text(self._cwd()), self._screen.surface.width, count)
        picker: Picker[Answer] = Picker(title, options(rule), keys=True)
        words = await self._put(picker, approval.answer)
        if approval.answer.done():
            return
        match answer := picker.chosen.result():
            case "once":
                approval.settle(None)
            case "session" | "always":
                self._allow(rule, answer == "always")
                approval.settle(None)
            case _:
                why = words or (await self.line("Why not? ") if answer == "no" else "") or ""
                approval.settle(f"The person said no: {why.strip()}" if why.strip() else "The person said no.")

    # -- what agents ask

    async def answer(self, question: "Question") -> str | None:
        """What the person says to an agent's question, after the questions that came before it."""
        from sagent.repl.approvals import render_agents_question

        title = render_agents_question(question, self._screen.surface.width)
        options = [Option(text, text) for text in question.options]
        picker: Picker[str] = Picker(title, options, keys=True, ticked=set() if question.multiple else None)
        async with self._floor:
            await self._presence.until_quiet()
            words = await self._put(picker)
        if words or not picker.chosen.result():
            return words or None
        if picker.ticked is None:
            return picker.chosen.result()
        return "\n".join(question.options[number] for number in sorted(picker.ticked))
