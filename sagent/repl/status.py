"""What is drawn around the input: the panel of what is in progress above it, the status line below."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.picker import render_picker
from sagent.repl.terminal.questions import Questions
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.lines import Line, cut_line, line_width
from sagent.repl.view.panel import Figures, Queued, render_panel, render_status, short_advisors

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.repl.opening import Opened

HINT = 2.0  # seconds that a hint is shown


class StatusDisplay:
    """The figures of the status line, and the hint that takes its place for a moment. A defect in drawing either is
    shown in its place."""

    def __init__(
        self, screen: Screen, painter: Painter, questions: Questions, queued: Callable[[], Sequence[Queued]]
    ) -> None:
        self._screen, self._painter, self._questions, self._queued = screen, painter, questions, queued
        self._hint = ""
        self.figures = Figures(note="starting …")
        self.redraw = screen.redraw
        screen.panel, screen.status = self._render_panel, self._render_status

    def show(self, figures: Figures) -> None:
        self.figures = figures
        self.redraw()

    def update(self, opened: "Opened") -> None:
        """Show the session's figures as they are now."""
        agent = opened.agent
        status = agent.status()
        figures = Figures(status.model, status.effort, short_advisors(status.advisors), status.context_tokens)
        figures = replace(figures, window=status.window, cost=agent.cost(), jobs=len(status.jobs))
        held = opened.sandbox.known if opened.sandbox else None
        self.show(replace(figures, mode=opened.policy.mode, sandboxed=held, branch=self.figures.branch))

    def update_cost(self, agent: "Agent") -> None:
        """Show only what was spent, which costs less to find out."""
        if (cost := agent.cost()) != self.figures.cost:
            self.show(replace(self.figures, cost=cost))

    def hint(self, text: str) -> None:
        """Show a text in place of the figures, for a moment."""
        self._hint = text
        self.redraw()

        def end() -> None:
            self._hint = ""
            self.redraw()

        asyncio.get_running_loop().call_later(HINT, end)

    def _leaving(self) -> str:
        """What Esc does where something is open; what runs is told with what interrupts it."""
        if self._screen.searching:
            return "leaves the search, Enter takes the line"
        return "closes the list" if self._screen.buffer.complete_state else self._questions.leaving

    async def tick(self, agent: "Agent | None" = None) -> None:
        """Redraw once a second while a clock, a countdown or a bill changes; until cancelled."""
        drawn: Sequence[Line] = ()
        while True:
            await asyncio.sleep(1.0)
            if agent is not None:
                self.update_cost(agent)  # prices load meanwhile, and calls are billed without an event
            before, drawn = drawn, self._render_panel(self._screen.surface.width, self._screen.rows)
            if drawn != before:
                self.redraw()

    def _render_panel(self, width: int, height: int) -> Sequence[Line]:
        try:
            picker = self._questions.picker
            spent = self.figures.cost.by_agent if self.figures.cost else None
            now = asyncio.get_running_loop().time()
            most = height if picker is None else height // 4
            panel = render_panel(self._painter.view, self._queued(), now, width, most, spent)
            if picker is None:
                return panel
            gap: list[Line] = [()] if height > 12 else []
            return [*panel, *gap, *render_picker(picker, width, height - len(panel) - len(gap))]
        except Exception as error:
            return [_defect("what is in progress", error, width)]

    def _render_status(self, width: int) -> Line:
        if self._hint:
            return cut_line((("class:warning", self._hint),), width)
        try:
            leaving = self._leaving()
            lead: Line = (("class:news", f"Esc {leaving}"), ("class:dim", " │ ")) if leaving else ()
            figures = replace(self.figures, vi=self._screen.vi)
            return (*cut_line(lead, width), *render_status(figures, max(width - line_width(lead), 1)))
        except Exception as error:
            return _defect("the status", error, width)


def _defect(what: str, error: Exception, width: int) -> Line:
    return (("", f"({what} cannot be shown: {type(error).__name__}: {error})"[:width]),)
