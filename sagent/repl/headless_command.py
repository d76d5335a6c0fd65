"""A slash command without a terminal: the first line of a prompt."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from sagent.errors import UsageError
from sagent.repl.commands.command import carry_out, split_command
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, plain, printable

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.commands.context import Manner
    from sagent.repl.opening import Opened

T = TypeVar("T")


async def run_headless_command(
    text: str, settings: "Settings", opened: "Opened", write: Callable[[str], object]
) -> str:
    """Carry out the command that a prompt begins with, and return the prompt that is left, "" for none.

    A prompt that begins with none is returned as it is. Lines go to `write`. Raises UsageError, for a command that
    needs a person too.
    """
    from sagent.repl.commands.registry import all_commands

    first, _, rest = text.partition("\n")
    found = split_command(first)
    if found is None:
        return text
    context = _Desk(settings, opened, write)
    await carry_out(all_commands(settings), context, *found)
    return "\n\n".join(part for part in (*context.prompts, rest.strip()) if part)


class _Desk:
    """Nobody sits at it."""

    def __init__(self, settings: "Settings", opened: "Opened", write: Callable[[str], object]) -> None:
        self.settings, self.opened, self._write = settings, opened, write
        self.prompts: list[str] = []

    def write(self, lines: Sequence[Line]) -> None:
        """Lines, without their styles."""
        self._write(plain(lines) + "\n")

    def say(self, text: str) -> None:
        """A sentence."""
        self._write(printable(text) + "\n")

    async def pick(self, title: str, options: Sequence[Option[T]]) -> T | None:
        """Nobody can choose."""
        names = ", ".join(option.label for option in options[:20])
        raise UsageError(f"{title} Nobody can choose here; name it behind the command: {names}")

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        """Nobody can type."""
        del secret
        raise UsageError(f"{label.rstrip(': ')}: nobody can type here")

    def prompt(self, text: str) -> None:
        """It is what the prompt becomes."""
        self.prompts.append(text)

    def rewound(self, text: str) -> None:
        """Nobody would say it differently."""
        del text

    def copy(self, text: str) -> None:
        """There is no clipboard."""
        del text
        raise UsageError("There is no terminal whose clipboard could be used.")

    def reopen(self, settings: "Settings") -> None:
        """The session is what the flags say."""
        del settings
        raise UsageError("Without a terminal a session is named by --session or --continue.")

    def set_display(self, what: "Manner", value: str) -> None:
        """There is none."""
        del value
        raise UsageError(f"There is no terminal that could have a {what}.")

    def leave(self) -> None:
        """It ends anyway."""
