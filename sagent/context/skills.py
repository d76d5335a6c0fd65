"""Skills: what a person or a project knows how to do, each in a file that a model reads when it needs it.

A skill is a directory `skills/NAME` with a `SKILL.md` that begins with `name` and `description` between two lines of
dashes (agentskills.io). Only these two are in the prompt.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sagent.context.instructions import repository_root
from sagent.lib.dataclass import dataclass
from sagent.lib.regular import read_regular
from sagent.lib.text import one_line, printable

PLACES = (".sagent/skills", ".agents/skills", ".claude/skills")
"""Where a project keeps them."""
MOST = 64
_HEAD = 4_000  # bytes of a file in which its beginning must end
_NAME = 64  # characters of a name that are shown
_LENGTH = 300  # and of a description


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill and the file that holds all of it."""

    name: str
    description: str
    path: Path


def find_skills(cwd: Path, user_dir: Path, notices: list[str] | None = None) -> tuple[Skill, ...]:
    """The person's own and the project's, by name; unreadable ones are left out.

    A project cannot replace a skill of the person's: of two with one name theirs counts. Nor may its skills lie outside
    of it. The notices say what was left out.
    """
    notices = [] if notices is None else notices
    root = repository_root(cwd) or cwd
    found = {skill.name: skill for skill in _skills_in(user_dir / "skills", None, notices)}
    own = set(found)
    for skill in (skill for place in PLACES for skill in _skills_in(cwd / place, root, notices)):
        if skill.name not in own:
            found[skill.name] = skill
        else:
            notices.append(f"The project's skill {skill.name} ({skill.path}) is not used: you have one of that name.")
    return tuple(sorted(found.values(), key=lambda skill: skill.name))[:MOST]


def skills_text(skills: Sequence[Skill]) -> str:
    """What the prompt says of them, "" where there are none."""
    if not skills:
        return ""
    rows = "\n".join(f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills)
    return f"Skills. When a task fits one, read its file first and do as it says.\n{rows}"


def _skills_in(place: Path, border: Path | None, notices: list[str]) -> Iterator[Skill]:
    try:
        files = sorted(place.glob("*/SKILL.md"))
    except OSError:
        return
    for file in files:
        try:
            head = read_regular(file, border, most=_HEAD, cut=True).decode(errors="replace")
        except OSError as error:
            notices.append(f"{file} was not read: {error.strerror}.")
            continue
        fields = _front_matter(head)
        name = one_line(printable(fields.get("name") or file.parent.name), _NAME)
        if description := one_line(printable(fields.get("description", "")), _LENGTH):
            yield Skill(name, description, file)


def _front_matter(text: str) -> dict[str, str]:
    """The `key: value` lines between the first two lines of dashes; a value may go on in indented lines."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    found: dict[str, str] = {}
    key = ""
    for line in lines[1:]:
        if line.strip() == "---":
            return found
        if line[:1].isspace() and key:
            found[key] = f"{found[key]} {line.strip()}".strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            key = key.strip()
            found[key] = value.strip().strip("\"'").removeprefix(">-").removeprefix("|").removeprefix(">").strip()
    return {}
