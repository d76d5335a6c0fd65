"""What slash commands work with on a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sagent.repl.commands.command import CommandContext, DisplaySetting
from sagent.repl.session import SessionLoop
from sagent.repl.terminal.clipboard import osc52
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.questions import Questions
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.blocks import Page, Report
from sagent.repl.view.lines import Line

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.opening import Opened


class TerminalContext(CommandContext):
    """Has the person choose and type, and shows what commands write above the input."""

    def __init__(self, screen: Screen, session: SessionLoop, painter: Painter, questions: Questions) -> None:
        super().__init__()
        self._screen, self._session, self._painter = screen, session, painter
        self.pick, self.line = questions.pick, questions.line
        self.reopen, self.leave = session.reopen, screen.leave

    @property
    def settings(self) -> "Settings":
        return self._session.settings

    @property
    def opened(self) -> "Opened":
        return self._session.opened

    def write(self, lines: Sequence[Line]) -> None:
        self._painter.write(Page(tuple(lines)))

    def say(self, text: str) -> None:
        self._painter.write(Report(text))

    def rewound(self, text: str) -> None:
        if text and not self._screen.buffer.text:
            self._screen.replace_text(text)

    def copy(self, text: str) -> None:
        self._screen.output.write_raw(osc52(text))
        self._screen.output.flush()

    def set_display(self, what: DisplaySetting, value: str) -> None:
        if what == "theme":
            self._screen.set_theme(value)
        else:
            self.say(f"{self._screen.set_vim(value)} keys")
