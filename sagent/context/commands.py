"""Slash commands that a person or a project has written: each a file whose text is sent."""

from collections.abc import Iterator
from pathlib import Path

from sagent.context.definitions import DefinitionReader, Form, leave_out_rest
from sagent.context.frontmatter import Document
from sagent.context.places import Place, places
from sagent.lib.dataclass import dataclass

MAX_COMMANDS = 200
FORM = Form("command", dict.fromkeys(("name", "description", "argument-hint"), "text"), much=200_000)


@dataclass(frozen=True, slots=True)
class CommandFile:
    """A command by its name, and what its file holds; `root` is what its plugin, or its project, may not leave."""

    name: str
    path: Path
    document: Document
    root: Path | None


def find_commands(cwd: Path, user_dir: Path, notices: list[str] | None = None) -> tuple[CommandFile, ...]:
    """Return the person's own, those of plugins, and the project's. The notices say what was left out."""
    notices = [] if notices is None else notices
    found: dict[str, CommandFile] = {}
    reader = DefinitionReader(FORM, notices)
    for place in places("commands", cwd, user_dir, notices):
        for one in commands_in(place, reader):
            if (first := found.setdefault(one.name, one)) is not one:
                reader.leave_out_twin(one.name, one.path, first.path, place)
    reader.finish()
    leave_out_rest("command", found, MAX_COMMANDS, notices)
    return tuple(found.values())[:MAX_COMMANDS]


def commands_in(place: Place, reader: DefinitionReader | None = None) -> Iterator[CommandFile]:
    """Return a command for each `NAME.md`.

    One in a folder is called by its name, too, or, where that is taken, by both: `folder:name`.
    """
    reader = reader or DefinitionReader(FORM, [])
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
