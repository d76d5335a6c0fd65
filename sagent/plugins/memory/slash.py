"""Commands about what agents know from the start: files of instructions, and the memory."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from sagent.context.instructions import gather
from sagent.errors import UsageError
from sagent.lib.atomic import put
from sagent.plugins.memory.notes import Note, find_note, folders, has_memory, list_notes, read_note
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.project import instructions_file
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, Span, cut, table


@command(here=True)
async def memory(context: CommandContext, what: Literal["show", "edit", "forget", ""] = "", name: str = "") -> None:
    """Show the instruction files and notes in use; show, edit or forget a note.

    Notes are files that agents keep for later sessions, with `memory = true` in your config.
    """
    if not what:
        context.write(await asyncio.to_thread(_overview, context))
        return
    note = await _chosen(context, name)
    if note is None:
        return
    if what == "edit":
        await _edit(context, note)
    elif what == "show":
        context.say(await asyncio.to_thread(read_note, note))
    else:
        try:
            note.path.unlink()
        except OSError as error:
            raise UsageError(f"{note.path} could not be deleted: {error.strerror or error}") from error
        context.say(f"Deleted {note.name}. This and earlier sessions may still have its text in their logs.")


@command(here=True)
async def init(context: CommandContext) -> None:
    """Have the model write AGENTS.md."""
    path = instructions_file(context.settings.cwd)
    doing = "Improve" if path.exists() else "Write"
    context.prompt(
        f"{doing} {path.name} in {path.parent}: what an agent must know to work in this project. Look at the project "
        "first. Say how it is built, tested and run, how it is laid out, and the conventions that its code shows. Keep "
        "what is there and right, at most a page, no advice that holds for every project."
    )


def _overview(context: CommandContext) -> Sequence[Line]:
    settings = context.settings
    found = gather(settings.cwd, settings.config_dir, settings.add_dirs)
    files = [[("", str(path)), ("class:dim", f"{path.stat().st_size} bytes")] for path in found.files]
    notes = [[("", one.name), ("class:dim", cut(one.about, 100))] for one in list_notes(settings)]
    where = [("class:dim", f"{owner} notes are in {folder}") for owner, folder in folders(settings).items()]
    state = "" if has_memory(settings) else " (off: set memory = true in your config to have agents keep notes)"
    nothing: list[Span] = [("class:dim", "none")]
    return [
        (("class:heading", "Instructions"),),
        *table(files or [nothing]),
        (("class:dim", f"#note writes to {instructions_file(settings.cwd)}"),),
        (),
        (("class:heading", f"Memory{state}"),),
        *table(notes or [nothing]),
        *((each,) for each in where),
    ]


async def _chosen(context: CommandContext, name: str) -> Note | None:
    """Return the note that is named, or that the person chooses. Raises UsageError."""
    if name:
        return await asyncio.to_thread(find_note, context.settings, name)
    notes = await asyncio.to_thread(list_notes, context.settings)
    if not notes:
        raise UsageError("The memory has no files.")
    return await context.pick("Which note?", [Option(note, note.name, note.about, also=note.name) for note in notes])


async def _edit(context: CommandContext, note: Note) -> None:
    before = await asyncio.to_thread(read_note, note)
    after = (await context.edit(before)).rstrip("\n")
    after += "\n" * bool(after)  # editors differ about the last line's end
    if after == before:
        context.say(f"{note.name} is unchanged.")
        return
    if await asyncio.to_thread(read_note, note) != before:
        raise UsageError(
            f"{note.name} was changed by someone else meanwhile, so your changes were not saved. Edit it again."
        )
    try:
        put(note.path, after.encode())
    except OSError as error:
        raise UsageError(f"{note.path} could not be written: {error.strerror or error}") from error
    context.say(f"Saved {note.name}. New sessions see it; this one keeps its prompt.")
