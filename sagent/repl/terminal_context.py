"""What slash commands work with on a terminal."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from sagent.errors import SagentError
from sagent.repl.commands.command import Command, DisplaySetting
from sagent.repl.session import SessionLoop
from sagent.repl.terminal.clipboard import osc52
from sagent.repl.terminal.painter import Painter
from sagent.repl.terminal.picker import Option
from sagent.repl.terminal.questions import Questions
from sagent.repl.terminal.screen import Screen
from sagent.repl.view.blocks import Page, Report
from sagent.repl.view.lines import Line

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.opening import Opened

T = TypeVar("T")


class TerminalContext:
    """A CommandContext. `on_prompt` sends a text as if the person had typed it."""

    def __init__(
        self,
        screen: Screen,
        session: SessionLoop,
        painter: Painter,
        questions: Questions,
        *,
        on_leave: Callable[[], None],
    ) -> None:
        self._screen, self._session, self._painter, self._questions = screen, session, painter, questions
        self.leave = on_leave
        self.on_prompt: Callable[[str], None] = lambda text: None
        self.commands: Mapping[str, Command] = {}

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

    async def pick(self, title: str, options: Sequence[Option[T]]) -> T | None:
        return await self._questions.pick(title, options)

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        return await self._questions.line(label, secret=secret)

    def prompt(self, text: str) -> None:
        self.on_prompt(text)

    def rewound(self, text: str) -> None:
        if text and not self._screen.buffer.text:
            self._screen.replace_text(text)

    def copy(self, text: str) -> None:
        self._screen.output.write_raw(osc52(text))
        self._screen.output.flush()

    def reopen(self, settings: "Settings") -> None:
        self._session.reopen(settings)

    def set_display(self, what: DisplaySetting, value: str) -> None:
        if what == "theme":
            self._screen.set_theme(value)
        else:
            self.say(f"{self._screen.set_vim(value)} keys")

    # -- completion in the input

    def names(self) -> list[tuple[str, str]]:
        """All commands, each with its summary."""
        return [(name, one.summary) for name, one in sorted(self.commands.items())]

    def arguments(self, name: str, typed: str) -> list[tuple[str, str]]:
        """What may be the first argument of a command, given what is typed of it."""
        found = self.commands.get(name)
        if found is None or not found.arguments or " " in typed:
            return []
        try:
            known = list(found.complete(self)) if found.complete else []
        except SagentError:
            known = []
        return [*known, *((word, "") for word in found.arguments[0].choices)]
