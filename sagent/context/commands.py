"""Slash commands written by a person or a project: each a file whose text is sent."""

from collections.abc import Iterator
from pathlib import Path

from sagent.context.definitions import DefinitionReader, Form, find_definitions, first_names
from sagent.context.frontmatter import Document
from sagent.context.places import Place
from sagent.lib.dataclass import dataclass

MAX_COMMANDS = 200
FORM = Form("command", dict.fromkeys(("name", "description", "argument-hint"), "text"), much=200_000)


@dataclass(frozen=True, slots=True)
class CommandFile:
    """A command by its name, and its file; included files must be in `root`, its plugin or project."""

    name: str
    path: Path
    document: Document
    root: Path | None


def find_commands(cwd: Path, user_dir: Path, notices: list[str] | None = None) -> tuple[CommandFile, ...]:
    """Return the person's commands, those of plugins and the project's. Notices list those left out."""
    notices = [] if notices is None else notices
    found = find_definitions("commands", FORM, commands_in, cwd, user_dir, notices)
    return tuple(found[name] for name in first_names("command", found, MAX_COMMANDS, notices))


def commands_in(place: Place, reader: DefinitionReader) -> Iterator[CommandFile]:
    """Yield a command for each `NAME.md`. One in a folder is called by its name, too; if that is taken, it is called
    `folder:name`."""
    names: set[str] = set()
    for file in reader.files(place.path, 2):
        name = file.stem.lower()
        if not name.replace("-", "").replace("_", "").isalnum():
            reader.leave_out(file, "a command's name is letters, digits, - and _")
            continue
        if name in names and file.parent != place.path:
            name = f"{file.parent.name.lower()}:{name}"
        if (document := reader.read(file, place)) is None:
            continue
        if not document.body.strip():
            reader.leave_out(file, "it says nothing after its head")
            continue
        if (given := document.fields.get("name", file.stem)).lower() != file.stem.lower():
            reader.say(file, f"it is called /{name} like its file, and not {given!r:.60}")
        names.add(name)
        yield CommandFile(f"{place.plugin}:{name}" if place.plugin else name, file, document, place.border)
