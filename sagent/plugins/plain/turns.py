"""What is told of a turn in plain lines: that it is still in progress, and how it ended."""

import asyncio
from typing import TYPE_CHECKING

from sagent.plugins.plain.paper import Paper
from sagent.plugins.plain.terminal import LineTerminal
from sagent.plugins.plain.words import working_text
from sagent.repl.session import SessionLoop
from sagent.repl.view.panel import Figures, cost_line

if TYPE_CHECKING:
    from sagent.repl.opening import Opened
    from sagent.repl.root import RootAgent

FIRST_NEWS_SECONDS, MAX_NEWS_SECONDS = 10.0, 320.0  # of silence, before a line about what is in progress
BELL_SECONDS = 10.0  # of a turn, after which its end rings


class Meter:
    """The figures, which are told on request only; and news of what takes long."""

    def __init__(self, terminal: LineTerminal, paper: Paper) -> None:
        self.figures = Figures()
        self._terminal, self._paper = terminal, paper

    def show(self, figures: Figures) -> None:
        self.figures = figures

    def update(self, opened: "Opened") -> None:
        """Do nothing: /status and /cost tell the figures."""

    def update_cost(self, agent: "RootAgent") -> None:
        """Do nothing, as `update`."""

    def redraw(self) -> None:
        """Do nothing: nothing is drawn."""

    async def tick(self, agent: "RootAgent | None" = None) -> None:
        """Tell what is in progress when nothing else was told for a while, ever more seldom; until cancelled."""
        wait, loop = FIRST_NEWS_SECONDS, asyncio.get_running_loop()
        self._terminal.written_at = loop.time()
        while True:
            await asyncio.sleep(max(self._terminal.written_at + wait - loop.time(), 0.1))
            if loop.time() - self._terminal.written_at >= wait and not self._terminal.reading:
                if text := working_text(self._paper.view, loop.time()):
                    self._terminal.write(text)
                wait = min(2 * wait, MAX_NEWS_SECONDS)


class Bell:
    """Tells how a turn ended, and rings after a long one."""

    def __init__(self, terminal: LineTerminal, paper: Paper) -> None:
        self._terminal, self._paper = terminal, paper
        self.session: SessionLoop | None = None

    def ring(self, seconds: float) -> None:
        if (session := self.session) is None or not session.ready:
            return
        from sagent.lib.figures import duration

        cost = cost_line(session.opened.agent.cost())
        self._terminal.write(f"End of turn after {duration(seconds)}, session {cost}{self._paper.turn_end()}.")
        if seconds >= BELL_SECONDS and session.notify != "off":
            self._terminal.ring()
        asyncio.get_running_loop().call_soon(self._tell_queued, session)

    def _tell_queued(self, session: SessionLoop) -> None:
        """Tell what is queued after a turn that failed: it is sent after the next one."""
        if session.outbox.waits and not session.busy:
            texts = ", ".join(each.text for each in session.outbox.queued)
            self._terminal.write(f"Still queued, and sent after your next message: {texts}")
