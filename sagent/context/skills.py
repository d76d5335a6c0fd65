"""Skills: know-how of a person or a project, each in a file that a model reads when it needs it.

A skill is a directory `skills/NAME` with a `SKILL.md` that begins with `name` and `description` between two lines of
dashes (agentskills.io). Only these two are in the prompt; scripts and further files lie next to it.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.context.frontmatter import MARKDOWN
from sagent.context.places import Place, is_any
from sagent.lib.dataclass import dataclass
from sagent.lib.regular import read_regular
from sagent.lib.text import one_line, printable

if TYPE_CHECKING:
    from sagent.context.definitions import DefinitionReader

MAX_SKILLS = 64
_MAX_NAME_CHARS = 64  # shown to the model
_MAX_DESCRIPTION_CHARS = 300
_MAX_DEPTH = 3  # levels of directories below `skills`
FILE = "SKILL.md"
_PACKED = (".zip", ".skill", ".tgz", ".gz")
_ABOUT = ("README", "LICENSE", "CHANGELOG", "CONTRIBUTING")  # files about skills
_MISNAMED = re.compile(r"skill|skills?[ _]?(\.(md\w*|mkdn?|markdown|txt))+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill and its complete file. `offered`: the model sees it; `command`: the person may call it."""

    name: str
    description: str
    path: Path
    offered: bool = True
    command: bool = True
    border: Path | None = None
    hint: str = ""  # about its arguments


def find_skills(cwd: Path, user_dir: Path, notices: list[str] | None = None) -> tuple[Skill, ...]:
    """Return the person's own skills and the project's, by name; unreadable ones are left out. A project cannot replace
    a skill of the person's, and its skills must not be outside the project. Notices say what was left out."""
    if not is_any("skills", cwd, user_dir):
        return ()
    from sagent.context.definitions import SKILL, find_definitions, first_names

    notices = [] if notices is None else notices
    seen: set[str] = set()  # several links to a skill count once

    def once(place: Place, reader: "DefinitionReader") -> Iterator[Skill]:
        for skill in skills_in(place, reader):
            if (real := os.path.realpath(skill.path)) not in seen:
                seen.add(real)
                yield skill

    found = find_definitions("skills", SKILL, once, cwd, user_dir, notices)
    return tuple(found[name] for name in first_names("skill", sorted(found), MAX_SKILLS, notices))


def skills_text(skills: Sequence[Skill]) -> str:
    """Return the prompt's section about skills; "" if there are none."""
    rows = "\n".join(f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills if skill.offered)
    return f"Skills. When a task fits one, read its file first and do as it says.\n{rows}" if rows else ""


def skill_text(skill: Skill) -> str:
    """Return the text of a skill, without its head. Raises OSError."""
    data = read_regular(skill.path, skill.border)
    from sagent.context.frontmatter import read_document
    from sagent.lib.encoding import readable

    body = read_document(readable(data)).body.strip().replace("${CLAUDE_SKILL_DIR}", str(skill.path.parent))
    return f"Skill {skill.name}; its files are in {skill.path.parent}.\n\n{body}"


def skills_in(place: Place, reader: "DefinitionReader") -> Iterator[Skill]:
    for file in _files(place.path, reader, _MAX_DEPTH):
        if (document := reader.read(file, place)) is None:
            continue
        fields = document.fields
        name = one_line(printable(fields.get("name") or file.parent.name), _MAX_NAME_CHARS)
        name = f"{place.plugin}:{name}" if place.plugin else name
        when = f"{fields.get('description', '')} {fields.get('when_to_use', '')}"
        if description := one_line(printable(when), _MAX_DESCRIPTION_CHARS):
            yield Skill(
                name,
                description,
                file,
                not document.flag("disable-model-invocation", default=False),
                document.flag("user-invocable", default=True),
                place.border,
                one_line(printable(fields.get("argument-hint", "")), _MAX_NAME_CHARS),
            )
        else:
            reader.leave_out(file, "it has no description, in lines between two lines of ---")


def _is_meant(file: Path) -> bool:
    """Return True for a Markdown file that may be intended as a skill."""
    return file.suffix.lower() in MARKDOWN and file.stem.upper() not in _ABOUT and file.is_file()


def _files(place: Path, reader: "DefinitionReader", depth: int) -> Iterator[Path]:
    """Yield the `SKILL.md` files of a directory tree; a skill contains no other skills."""
    for entry in reader.entries(place):
        file = entry / FILE
        if os.path.lexists(file):
            yield file
        elif entry.is_symlink() and not entry.exists():
            reader.leave_out(entry, "it is a link that leads nowhere")
        elif not entry.is_dir():
            if depth == _MAX_DEPTH and _is_meant(entry):
                reader.leave_out(entry, f"a skill is a folder: name the file {entry.with_suffix('') / FILE}")
            elif depth == _MAX_DEPTH and entry.suffix.lower() in _PACKED:
                reader.leave_out(entry, "it is packed: unpack it to a folder here")
        elif named := [each for each in reader.entries(entry) if _MISNAMED.fullmatch(each.name)]:
            reader.leave_out(named[0], f"it must be called {FILE}")
        elif depth > 1 and not entry.is_symlink():
            below = list(_files(entry, reader, depth - 1))
            yield from below
            if not below and depth == _MAX_DEPTH:
                for stray in [each for each in reader.entries(entry) if _is_meant(each)][:1]:
                    reader.leave_out(stray, f"a skill is in {FILE}, which {entry} does not have")
        elif depth == 1 and any(os.path.lexists(each / FILE) for each in reader.entries(entry)):
            reader.leave_out(entry, f"a {FILE} in it lies too deep")
