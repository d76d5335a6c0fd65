"""Commands that continue the open session in another directory, or with one more."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sagent.errors import UsageError
from sagent.lib.names import path_of
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.opening import SessionChoices

if TYPE_CHECKING:
    from sagent.config import Settings

_LEFT = "places.left"  # the key of the directory that /cd goes back to


@command(name="cd", here=True)
async def change_directory(context: CommandContext, text: Annotated[str, "directory"]) -> None:
    """Continue this session in another directory.

    Tools and commands then work there; the conversation and its settings go on. What you allowed for this session ends,
    and a project's own settings there are read when sagent is started there. `/cd -` goes back.
    """
    context.require_person("--cwd")
    settings, left = context.settings, context.notes.get(_LEFT)
    if text.strip() == "-" and not isinstance(left, Path):
        raise UsageError("There is no directory to go back to: this session has not left one yet.")
    directory = await _directory(context, str(left) if text.strip() == "-" else text)
    if directory == settings.cwd:
        raise UsageError(f"This session works in {directory} already.")
    _continue(context, replace(settings, cwd=directory), f"This session continues in {directory}.", keep_rules=False)
    context.notes[_LEFT] = settings.cwd


@command(name="add-dir", here=True)
async def add_directory(context: CommandContext, text: Annotated[str, "directory"]) -> None:
    """Let the agent work in one more directory.

    It lasts for this session; `--add-dir` and `add_dirs` in your config do the same from the start.
    """
    context.require_person("--add-dir")
    settings, directory = context.settings, await _directory(context, text)
    if any(directory.is_relative_to(each) for each in (settings.cwd, *settings.add_dirs)):
        raise UsageError(f"The agent may work in {directory} already.")
    wider = replace(settings, add_dirs=(*settings.add_dirs, directory))
    _continue(context, wider, f"The agent may work in {directory} too.", keep_rules=True)


async def _directory(context: CommandContext, text: str) -> Path:
    """Return an existing directory. Raises UsageError."""
    if context.turn.locked():
        raise UsageError("A turn is in progress: interrupt it first (Esc).")
    given = text.strip()
    if given[:1] in ("'", '"') and given[1:].endswith(given[0]):  # as a shell has it
        given = given[1:-1]
    path = await asyncio.to_thread((context.settings.cwd / path_of(given)).resolve)
    if not path.is_dir():
        raise UsageError(f"{path} is not a directory.")
    return path


def _continue(context: CommandContext, settings: "Settings", notice: str, *, keep_rules: bool) -> None:
    """Reopen the session with other settings and the same choices."""
    opened = context.opened
    if not (log := opened.agent.log.path):
        raise UsageError("This session is not saved, so it cannot be reopened: start sagent there.")
    choices = SessionChoices.of(opened)
    choices = choices if keep_rules else replace(choices, rules=None)
    context.reopen(replace(settings, session=Path(log), continue_session=False, fork=None), choices, notice)
