"""Agents that a person or a project has described: each a file with what it is for, its tools, and its prompt."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sagent.context.frontmatter import read_document
from sagent.context.places import Place, places
from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import readable
from sagent.lib.regular import read_regular
from sagent.lib.text import one_line, printable

MOST = 32
_MOST_BYTES = 100_000
_LENGTH = 200  # characters of a description that the model is shown
_IGNORED = ("permissionMode", "mcpServers", "hooks", "memory", "isolation", "skills", "background")
_TOOLS: Mapping[str, tuple[str, ...]] = {
    "MultiEdit": ("Edit",),
    "LS": ("List",),
    "Task": ("AgentSpawn",),
    "Agent": ("AgentSpawn",),
    "BashOutput": ("BackgroundTask",),
    "KillShell": ("BackgroundTask",),
}
"""What other programs call tools of ours."""


@dataclass(frozen=True, slots=True)
class AgentKind:
    """A kind of agent. None as `tools` is all that the one has which spawns it, but for those `without`; what is named
    and not there is left out, so that it never has more."""

    name: str
    description: str
    prompt: str
    path: Path
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    max_turns: int | None = None
    ignored: tuple[str, ...] = ()  # members of its file that mean nothing here


def find_agents(cwd: Path, user_dir: Path, notices: list[str] | None = None) -> tuple[AgentKind, ...]:
    """The person's own, those of plugins, and the project's, by name. The notices say what could not be read."""
    notices = [] if notices is None else notices
    found: dict[str, AgentKind] = {}
    for place in places("agents", cwd, user_dir):
        for kind in _agents_in(place, notices):
            found.setdefault(kind.name, kind)
    return tuple(found[name] for name in sorted(found))[:MOST]


def tools_named(names: Sequence[str]) -> tuple[str, ...]:
    """Tools as we call them; what stands in parentheses, as in Bash(git:*), narrows nothing here and is left out."""
    plain = [name.partition("(")[0] if name.endswith(")") else name for name in names]
    return tuple(dict.fromkeys(own for name in plain for own in _TOOLS.get(name, (name,))))


def _agents_in(place: Place, notices: list[str]) -> Sequence[AgentKind]:
    found: list[AgentKind] = []
    try:
        files = sorted(place.path.glob("*.md"))
    except OSError:
        return ()
    for file in files:
        try:
            text = readable(read_regular(file, place.border, most=_MOST_BYTES))
        except OSError as error:
            notices.append(f"{file} could not be read: {error.strerror}.")
            continue
        document = read_document(text)
        fields, name = document.fields, document.fields.get("name") or file.stem
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name) or not fields.get("description"):
            notices.append(
                f"{file} does not describe an agent: it needs a name of letters and digits, and a description."
            )
            continue
        tools, turns = document.words("tools"), fields.get("maxTurns", fields.get("max_turns", ""))
        model = fields.get("model", "")
        found.append(
            AgentKind(
                f"{place.plugin}:{name}" if place.plugin else name,
                one_line(printable(fields["description"].replace("\\n", " ")), _LENGTH),
                document.body.strip(),
                file,
                None if tools is None or tools == ("*",) else tools_named(tools),
                tools_named(document.words("disallowedTools") or ()),
                "" if model == "inherit" else model,
                fields.get("effort", ""),
                int(turns) or None if turns.isdecimal() and len(turns) < 10 else None,
                tuple(member for member in _IGNORED if member in fields),
            )
        )
    return found
