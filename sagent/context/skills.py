"""Skills: what a person or a project knows how to do, each in a file that a model reads when it needs it.

A skill is a directory `skills/NAME` with a `SKILL.md` that begins with `name` and `description` between two lines of
dashes (agentskills.io). Only these two are in the prompt; scripts and further files lie next to it.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from sagent.context.places import Place, places
from sagent.lib.dataclass import dataclass
from sagent.lib.regular import read_regular
from sagent.lib.text import one_line, printable

MOST = 64
_HEAD = 4_000  # bytes of a file in which its beginning must end
_NAME = 64  # characters of a name that are shown
_LENGTH = 300  # and of a description
_MOST_FOLDERS = 256  # that are looked into, of one
_DEPTH = 3  # directories in which a skill may lie below `skills`


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill and the file that holds all of it. `offered`: the model sees it; `command`: the person may call it."""

    name: str
    description: str
    path: Path
    offered: bool = True
    command: bool = True
    border: Path | None = None
    hint: str = ""  # about its arguments


def find_skills(cwd: Path, user_dir: Path, notices: list[str] | None = None) -> tuple[Skill, ...]:
    """The person's own and the project's, by name; unreadable ones are left out.

    A project cannot replace a skill of the person's: of two with one name theirs counts. Nor may its skills lie outside
    of it. The notices say what was left out.
    """
    notices = [] if notices is None else notices
    found: dict[str, tuple[Skill, str]] = {}
    seen: set[str] = set()  # one that is linked to from several places is one
    for place in places("skills", cwd, user_dir):
        for skill in _skills_in(place, notices):
            real = os.path.realpath(skill.path)
            if real in seen:
                continue
            seen.add(real)
            if skill.name not in found:
                found[skill.name] = skill, place.source
            elif place.source == "project" and found[skill.name][1] == "person":
                notices.append(
                    f"The project's skill {skill.name} ({skill.path}) is not used: you have one with the same name."
                )
            else:
                first = found[skill.name][0].path
                notices.append(f"The skill {skill.name} ({skill.path}) is not used: {first} has the same name.")
    ordered = sorted((skill for skill, _ in found.values()), key=lambda skill: skill.name)
    if left := [skill.name for skill in ordered[MOST:]]:
        notices.append(f"Only {MOST} skills are used. Left out: {', '.join(left)}.")
    return tuple(ordered[:MOST])


def skills_text(skills: Sequence[Skill]) -> str:
    """What the prompt says of them, "" where there are none."""
    rows = "\n".join(f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills if skill.offered)
    return f"Skills. When a task fits one, read its file first and do as it says.\n{rows}" if rows else ""


def skill_text(skill: Skill) -> str:
    """All that a skill says, without its head. Raises OSError."""
    data = read_regular(skill.path, skill.border)
    from sagent.context.frontmatter import read_document
    from sagent.lib.encoding import readable

    body = read_document(readable(data)).body.strip().replace("${CLAUDE_SKILL_DIR}", str(skill.path.parent))
    return f"Skill {skill.name}; its files are in {skill.path.parent}.\n\n{body}"


def _skills_in(place: Place, notices: list[str]) -> Iterator[Skill]:
    for file in _files(place.path, _DEPTH):
        try:
            data = read_regular(file, place.border, most=_HEAD, cut=True)
        except OSError as error:
            notices.append(f"{file} could not be read: {error.strerror}.")
            continue
        from sagent.context.frontmatter import read_document  # few have a skill
        from sagent.lib.encoding import readable

        head = readable(data)
        document = read_document(head)
        fields = document.fields
        name = one_line(printable(fields.get("name") or file.parent.name), _NAME)
        name = f"{place.plugin}:{name}" if place.plugin else name
        when = f"{fields.get('description', '')} {fields.get('when_to_use', '')}"
        if not when.strip():
            why = "its head has no end in the first 4,000 bytes" if head.startswith("---") and not fields else ""
            why = why or "it has no description, in lines between two lines of ---"
            notices.append(f"The skill {file} is left out: {why}.")
            continue
        notices += (
            f"{file}: {flag} is {fields[flag]!r:.40}, which is ignored: give true or false."
            for flag in ("disable-model-invocation", "user-invocable")
            if fields.get(flag, "true").lower() not in ("true", "false")
        )
        if description := one_line(printable(when), _LENGTH):
            yield Skill(
                name,
                description,
                file,
                not document.flag("disable-model-invocation", default=False),
                document.flag("user-invocable", default=True),
                place.border,
                one_line(printable(fields.get("argument-hint", "")), _NAME),
            )


def _files(place: Path, depth: int) -> Iterator[Path]:
    """The `SKILL.md` of each directory; one that has it holds no other skill."""
    try:
        folders = sorted(each for each in islice(place.iterdir(), _MOST_FOLDERS) if each.is_dir())
    except OSError:
        return
    for folder in folders:
        file = folder / "SKILL.md"
        if os.path.lexists(file):
            yield file
        elif depth > 1 and not folder.is_symlink():
            yield from _files(folder, depth - 1)
