"""A slash command without a terminal: the first line of a prompt."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext, run_command, split_command

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.opening import Opened


async def run_headless_command(
    text: str,
    settings: "Settings",
    opened: "Opened",
    write: Callable[[str], object],
    warn: Callable[[str], object] = lambda text: None,
) -> str:
    """Run the command that a prompt begins with, and return the rest of the prompt. Output goes to `write`, and the
    names of commands that cannot be called to `warn`.

    A prompt without a command is returned unchanged. Raises UsageError, also if the command needs a person.
    """
    from sagent.repl.commands.registry import Commands, all_commands, prompt_commands

    first, _, rest = text.partition("\n")
    if (found := split_command(first)) is None:
        return text
    context = _HeadlessContext(settings, opened, write)
    notices: list[str] = []
    context.commands = all_commands(settings, notices)
    for notice in notices:
        warn(notice)
    if not context.known(found[0]):
        context.commands = Commands(context.commands, await prompt_commands(opened))
    try:
        await run_command(context, *found)
    except ValueError as error:  # an impossible name, such as one with a zero byte
        raise UsageError(f"/{found[0]}: {error}") from error
    return "\n\n".join(part for part in (*context.prompts, rest.strip()) if part)


class _HeadlessContext(CommandContext):
    def __init__(self, settings: "Settings", opened: "Opened", out: Callable[[str], object]) -> None:
        super().__init__()
        self._settings, self._opened, self._out = settings, opened, out

    def _write(self, text: str) -> None:
        self._out(text + "\n")
