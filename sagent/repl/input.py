"""What keys do: the input is sent, cleared, kept or filled, and what runs is interrupted."""

import asyncio
import os
import signal
import time
from typing import Literal

from sagent.repl.session import SessionLoop
from sagent.repl.status import HINT
from sagent.repl.submission import Submissions
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.questions import Questions
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.blocks import Page

TWICE = HINT  # seconds in which a second Ctrl-C quits, as the hint says
MOST_REMEMBERED = 20_000  # characters; of a longer line the history keeps what was to be seen of it


class InputActions:
    """The KeyActions of the REPL."""

    def __init__(
        self,
        screen: Screen,
        questions: Questions,
        *,
        session: SessionLoop,
        submissions: Submissions,
        painter: Painter,
    ) -> None:
        self.questions = questions
        self._screen, self._session, self._submissions = screen, session, submissions
        self._painter, self._status, self._tasks = painter, submissions.status, submissions.tasks
        self._pressed_at = 0.0  # Ctrl-C

    @property
    def busy(self) -> bool:
        return self._session.busy

    @property
    def interruptible(self) -> bool:
        return self.busy or self._submissions.runs_shell

    # -- the input

    def submit(self, moment: Literal["now", "idle"]) -> None:
        buffer = self._screen.buffer
        if not self.questions.take_line(buffer.text) and self.take(buffer.text, moment):
            buffer.reset()
            self._screen.app.vi_state.reset()  # a new line is typed, not navigated

    def take(self, typed: str, moment: Literal["now", "idle"] = "now") -> bool:
        """Do what a line asks for, and remember it; False where it asks for nothing yet."""
        text = self._submissions.pasted.whole(typed).strip("\n")
        if not text.strip() or not self._submissions.take(text, typed, when_idle=moment == "idle"):
            return False
        self._screen.buffer.history.append_string(typed if len(text) > MOST_REMEMBERED else text)
        return True

    def hold_paste(self, text: str) -> str:
        return self._submissions.pasted.keep_text(text)

    def recall_queued(self) -> bool:
        typed = self._session.recall()
        if typed is not None:
            self._screen.replace_text(typed)
        return typed is not None

    def edit(self) -> None:
        self._screen.surface.freeze()
        self._screen.buffer.open_in_editor()

    def paste_image(self) -> None:
        self._tasks.spawn(self._paste_image())

    async def _paste_image(self) -> None:
        from sagent.repl.terminal.clipboard import PROGRAMS, image_from_clipboard

        image = await image_from_clipboard()
        if image is None:
            self._status.hint(f"no image in the clipboard, or no program to read it with ({PROGRAMS})")
        else:
            self._screen.buffer.insert_text(self._submissions.pasted.keep_image(image))

    # -- what runs

    def can_background(self) -> bool:
        return any(not call.job and call.agent == "root" for call in self._painter.view.running.values())

    def background(self) -> None:
        from sagent.peer import Background

        self._session.opened.agent.apply(Background())

    def interrupt(self) -> None:
        self._submissions.stop_shells()
        if (agent := self._session.running) is not None:
            agent.interrupt()

    def rewind(self) -> None:
        if not self._screen.buffer.text and self._session.idle:
            self._tasks.spawn(self._submissions.run_command("rewind"))

    def clear_or_quit(self) -> None:
        now, before = time.monotonic(), self._pressed_at
        self._pressed_at = now
        buffer = self._screen.buffer
        if self.questions.take_line(None):
            return
        if buffer.text:
            buffer.save_to_undo_stack()
            buffer.text = ""
            self._screen.app.vi_state.reset()
            self._pressed_at = 0.0
        elif now - before < TWICE:
            self.quit()
        else:
            if self.busy:
                self.interrupt()
            self._status.hint("Ctrl-C again quits")

    def quit(self) -> None:
        self._screen.leave()

    # -- the screen

    def expand(self) -> None:
        if lines := self._painter.expand():
            self._painter.write(Page(tuple(lines)))

    def clear_screen(self) -> None:
        self._painter.paint()
        self._screen.clear()
        self._painter.paint()

    def suspend(self) -> None:
        from prompt_toolkit.application import run_in_terminal

        if not hasattr(signal, "SIGTSTP"):
            return
        if self._screen.app._running_in_terminal:  # noqa: SLF001 -- an editor has the terminal, and stops with us
            self._stop()
            return
        self._painter.paint()
        self._screen.surface.freeze()

        async def stop() -> None:
            await run_in_terminal(self._stop)

        self._tasks.spawn(stop())

    def _stop(self) -> None:
        """Do what the signal does to programs that do not handle it."""
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(0, signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, self.suspend)
