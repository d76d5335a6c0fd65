"""The line at the end of a turn: how long it took, what it cost, and what its edits changed."""

import time
from dataclasses import replace

from sagent.events import Event, ToolFinished
from sagent.lib.figures import duration
from sagent.lib.money import EXACT, ZERO
from sagent.lib.text import count
from sagent.repl.root import RootAgent
from sagent.repl.view.blocks import Page
from sagent.repl.view.diff import changes
from sagent.repl.view.panel import cost_line


class TurnTally:
    """The figures of a turn of an agent, from now on."""

    def __init__(self, agent: RootAgent) -> None:
        self._agent, self._before, self._began = agent, agent.cost(), time.monotonic()
        self._unpriced = agent.ledger.totals().whole.unpriced  # the number of such charges
        self._files = set[str]()
        self._added = self._removed = 0
        self._cut = False

    @property
    def seconds(self) -> float:
        """Seconds since the turn began."""
        return time.monotonic() - self._began

    def take(self, event: Event) -> None:
        """Count the changes of a call of any agent of the tree."""
        if isinstance(event, ToolFinished) and event.diff and not event.result.is_error:
            found = changes(event.diff)
            self._files |= found.files or {str(event.call.arguments.get("file_path"))}
            self._added, self._removed = self._added + found.added, self._removed + found.removed
            self._cut |= found.cut

    def line(self) -> Page:
        """Return the figures as one line."""
        now, before = self._agent.cost(), self._before
        cost = replace(
            now,
            total=EXACT.subtract(now.total, before.total),
            unbilled=max(EXACT.subtract(now.unbilled, before.unbilled), ZERO),
            unpriced=now.unpriced if self._agent.ledger.totals().whole.unpriced > self._unpriced else (),
        )
        facts = [duration(self.seconds), cost_line(cost)]
        if self._files:
            least = "≥" if self._cut else ""
            facts.append(f"{count(len(self._files), 'file')} {least}+{self._added} -{self._removed}")
        return Page(((("class:dim", " · ".join(facts)),),))
