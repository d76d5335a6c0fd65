"""A slash command without a terminal: the first line of a prompt."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from sagent.errors import UsageError
from sagent.repl.commands.command import Command, run_command, split_command
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, plain, printable

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.commands.command import DisplaySetting
    from sagent.repl.opening import Opened

T = TypeVar("T")


async def run_headless_command(
    text: str, settings: "Settings", opened: "Opened", write: Callable[[str], object]
) -> str:
    """Run the command that a prompt begins with, and return the rest of the prompt; its output goes to `write`.

    A prompt that begins with no command is returned as it is. Raises UsageError, also where the command needs a person.
    """
    from sagent.repl.commands.registry import all_commands

    first, _, rest = text.partition("\n")
    found = split_command(first)
    if found is None:
        return text
    context = _HeadlessContext(settings, opened, all_commands(settings), write)
    await run_command(context, *found)
    return "\n\n".join(part for part in (*context.prompts, rest.strip()) if part)


class _HeadlessContext:
    """A context without a person and without a terminal."""

    def __init__(
        self, settings: "Settings", opened: "Opened", commands: Mapping[str, Command], write: Callable[[str], object]
    ) -> None:
        self.settings, self.opened, self.commands, self._write = settings, opened, commands, write
        self.prompts: list[str] = []

    def write(self, lines: Sequence[Line]) -> None:
        self._write(plain(lines) + "\n")

    def say(self, text: str) -> None:
        self._write(printable(text) + "\n")

    async def pick(self, title: str, options: Sequence[Option[T]]) -> T | None:
        names = ", ".join(option.label for option in options[:20])
        raise UsageError(f"{title} Nobody can choose here; name it after the command: {names}")

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        del secret
        raise UsageError(f"{label.rstrip(': ')}: nobody can type here")

    def prompt(self, text: str) -> None:
        self.prompts.append(text)

    def rewound(self, text: str) -> None:
        del text

    def copy(self, text: str) -> None:
        del text
        raise UsageError("There is no terminal whose clipboard could be used.")

    def reopen(self, settings: "Settings") -> None:
        del settings
        raise UsageError("Without a terminal a session is named by --session or --continue.")

    def set_display(self, what: "DisplaySetting", value: str) -> None:
        del value
        raise UsageError(f"There is no terminal that could have a {what}.")

    def leave(self) -> None:
        """The run ends anyway."""
