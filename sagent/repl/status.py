"""Display around the input: the activity panel above it, the status line below."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sagent.config.declared import CORE
from sagent.config.plugins import Installed
from sagent.lib.process import run
from sagent.plugin import StatusPart, resolve
from sagent.repl.tasks import Tasks
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.picker import render_picker
from sagent.repl.terminal.questions import Questions
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.lines import Line, cut, cut_line, line_width, one_line, printable
from sagent.repl.view.panel import (
    MIN_NAME_COLUMNS,
    Figures,
    PanelContext,
    Queued,
    Segment,
    render_panel,
    render_status,
    short_advisors,
)
from sagent.usage import Cost

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.opening import Opened
    from sagent.repl.root import RootAgent

HINT_SECONDS = 2.0
COMMAND_TIMEOUT_SECONDS = 5.0
MAX_PART_SECONDS = 1.0  # that a plugin's part may take to be drawn
MAX_BYTES = 4_000
_SHOWN = ("model", "effort", "advisor", "context", "window", "jobs", "mode", "sandboxed", "branch", "changed")


def find_segments(plugins: Installed) -> Mapping[str, Segment]:
    """Return the parts of the status line by name, the core's first. Their modules are imported."""
    return {part.name: _segment(plugin, part) for plugin, part in plugins.owned(StatusPart)}


def _segment(plugin: str, part: StatusPart) -> Segment:
    """Return a function that renders a part; if that fails or is slow, the reason is shown in its place."""
    show, slow = cast("Callable[[Figures], object] | None", None), ""

    def segment(figures: Figures) -> Line:
        nonlocal show, slow
        try:
            show = show or cast("Callable[[Figures], object]", resolve(part.show))
            started = time.monotonic()
            said = slow or show(figures)
            if time.monotonic() - started > MAX_PART_SECONDS:
                slow = f"({part.name} of {plugin} is switched off: it was too slow)"
            if plugin == CORE.name:
                return cast("Line", said)
            said = "" + cast("str", said)  # raises TypeError for anything but text
        except BaseException as error:  # third-party code
            said = f"({part.name} of {plugin}: {type(error).__name__}: {error})"
        return (("class:status", one_line(printable(said))),)

    return segment


class StatusCommand:
    """A person's command that writes the status line. It reads the figures as JSON; `line` is the first line of its
    last output."""

    def __init__(self, command: str, cwd: Path, tasks: Tasks, redraw: Callable[[], None]) -> None:
        self._argv, self._cwd = [os.environ.get("SHELL") or "/bin/sh", "-c", command], cwd
        self._tasks, self._redraw = tasks, redraw
        self._known: bytes | None = None  # the figures that it has read or will read
        self._running = False
        self.line = ""

    def update(self, figures: Figures) -> None:
        """Run the command if the figures have changed, one run at a time."""
        known = {name: getattr(figures, name) for name in _SHOWN}
        usd = None if figures.cost is None else float(figures.cost.total)
        figures_sent = json.dumps({**known, "usd": usd, "cwd": str(self._cwd)}).encode()
        if figures_sent != self._known:
            self._known = figures_sent
            if not self._running:
                self._running = True
                self._tasks.spawn(self._run())

    async def _run(self) -> None:
        figures_sent = None
        try:
            while figures_sent != self._known:
                figures_sent = self._known
                self.line = await self._written(figures_sent or b"")
                self._redraw()
        finally:
            self._running = False

    async def _written(self, figures: bytes) -> str:
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_SECONDS):
                done = await run(self._argv, cwd=str(self._cwd), env=os.environ, input=figures, max_bytes=MAX_BYTES)
        except TimeoutError:
            return f"status_line: no answer within {COMMAND_TIMEOUT_SECONDS:.0f} s"
        if done is None or done.code:
            return f"status_line: {'cannot be started' if done is None else f'exit {done.code}'}"
        from sagent.tools.capture import legible  # without colour codes

        return one_line(legible(done.output[:MAX_BYTES]).partition("\n")[0])


class StatusDisplay:
    """The figures of the status line, and the hint that replaces them for a moment. An error while drawing either is
    shown in its place."""

    def __init__(
        self, screen: Screen, painter: Painter, questions: Questions, queued: Callable[[], Sequence[Queued]]
    ) -> None:
        self._screen, self._painter, self._questions, self._queued = screen, painter, questions, queued
        self._hint = ""
        self._hint_end: asyncio.TimerHandle | None = None
        self.figures = Figures(note="starting …")
        self._short: Collection[str] = ()  # agents that wait for money
        self._parts: Sequence[str] = ()
        self._segments = find_segments(Installed())
        self._command: StatusCommand | None = None
        self.redraw = screen.redraw
        screen.panel, screen.status = self._render_panel, self._render_status

    def use(self, settings: "Settings", tasks: Tasks) -> None:
        """Show the parts in the setting `status_line`, by default those of the core and all plugins."""
        wanted = settings.status_line
        self._segments = find_segments(settings.plugins)
        if wanted.startswith("!"):
            self._command = StatusCommand(wanted[1:].strip(), settings.cwd, tasks, self.redraw)
        self._parts = () if self._command else wanted.split()

    def show(self, figures: Figures) -> None:
        self.figures = figures
        if self._command is not None:
            self._command.update(figures)
        self.redraw()

    def update(self, opened: "Opened") -> None:
        """Show the session's figures as they are now."""
        agent = opened.agent
        status = agent.status()
        figures = Figures(status.model, status.effort, short_advisors(status.advisors), status.context_tokens)
        figures = replace(figures, window=status.window, cost=agent.cost(), jobs=len(status.jobs))
        figures = replace(figures, branch=self.figures.branch, changed=self.figures.changed)
        held = opened.sandbox.known if opened.sandbox else None
        place = f"on {opened.elsewhere.where() or opened.elsewhere.home}" if opened.elsewhere else ""
        self.show(replace(figures, mode=opened.policy.mode, sandboxed=held, place=place))

    def show_branch(self, branch: str, changed: int) -> None:
        """Show the checked-out branch and the number of changed files."""
        if (branch, changed) != (self.figures.branch, self.figures.changed):
            self.show(replace(self.figures, branch=branch, changed=changed))

    def update_cost(self, agent: "RootAgent") -> None:
        """Update only the cost, which is cheap to compute."""
        if (cost := agent.cost()) != self.figures.cost:
            self.show(replace(self.figures, cost=cost))

    def hint(self, text: str) -> None:
        """Show a hint in place of the figures for a moment; "" shows the figures again."""
        if self._hint_end is not None:
            self._hint_end.cancel()
        self._hint = text
        self.redraw()
        self._hint_end = asyncio.get_running_loop().call_later(HINT_SECONDS, self.hint, "") if text else None

    def _leaving(self) -> str:
        """Return the effect of Esc on an open list or question; running work shows its own hint."""
        if self._screen.searching:
            return "leaves the search, Enter takes the line"
        return "closes the list" if self._screen.buffer.complete_state else self._questions.leaving

    async def tick(self, agent: "RootAgent | None" = None) -> None:
        """Redraw once a second while a clock, a countdown or a bill changes; until cancelled."""
        drawn: Sequence[Line] = ()
        while True:
            await asyncio.sleep(1.0)
            if agent is not None:
                self._short = _short_of_money(agent) if self._painter.view.children else ()
                self.update_cost(agent)  # prices load meanwhile, and calls are billed without an event
            before, drawn = drawn, self._render_panel(self._screen.surface.width, self._screen.rows)
            if drawn != before:
                self.redraw()

    def _render_panel(self, width: int, height: int) -> Sequence[Line]:
        try:
            picker = self._questions.picker
            spent, taken = (self.figures.cost or Cost()).by_agent, bool(self._leaving())
            around = PanelContext(spent, self._questions.asking, self._short, self._painter.near, taken)
            now = asyncio.get_running_loop().time()
            most = max(height * 3 // 4, 4) if picker is None else height // 3
            panel = render_panel(self._painter.view, self._queued(), now, width, most, around)
            if picker is None:
                return [*panel, cut_line(about, width)] if (about := self._questions.about) else panel
            gap: list[Line] = [()] if panel and height > 12 else []
            return [*panel, *gap, *render_picker(picker, width, height - len(panel) - len(gap))]
        except Exception as error:
            return [_defect("the activity panel", error, width)]

    def _render_status(self, width: int) -> Line:
        if self._hint:
            return cut_line((("class:warning", self._hint),), width)
        try:
            leaving = self._leaving()
            lead: Line = (("class:news", f"Esc {leaving}"), ("class:dim", " │ ")) if leaving else ()
            figures = replace(self.figures, vi=self._screen.vi)
            room = width - line_width(lead)
            if room < MIN_NAME_COLUMNS:
                return cut_line(lead[:1] or render_status(figures, width, self._segments), width)
            mode = render_status(figures, room, self._segments, ("mode",))
            left = room - line_width(mode) - 3
            if self._command is not None and self._command.line and left > 0:
                said = cut(self._command.line, left)
                return (*lead, ("class:status", said), ("class:dim", " │ "), *mode)
            return (*lead, *render_status(figures, room, self._segments, self._parts))
        except Exception as error:
            return _defect("the status", error, width)


def _defect(part: str, error: Exception, width: int) -> Line:
    return (("", f"({part} cannot be shown: {type(error).__name__}: {error})"[:width]),)


def _short_of_money(agent: "RootAgent") -> Collection[str]:
    """Return the agents that wait for money. A remote tree's status is at hand; computing ours takes long."""
    from sagent.agent import Agent

    living = agent.tree.living
    return {
        one.path for one in living if (one.ledger.waits(one.path) if isinstance(one, Agent) else one.status().waits)
    }
