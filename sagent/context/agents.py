"""Agents described by a person or a project: each a file with its purpose, tools and prompt."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sagent.context.definitions import DefinitionReader, Form, find_definitions, first_names
from sagent.context.places import Place
from sagent.lib.dataclass import dataclass
from sagent.lib.text import one_line, printable
from sagent.model import EFFORTS

MAX_AGENTS = 32
_MAX_FILE_BYTES = 100_000
_MAX_DESCRIPTION_CHARS = 200  # shown to the model
FORM = Form(
    "agent",
    {
        **dict.fromkeys(("name", "description", "tools", "disallowedTools", "model", "effort", "isolation"), "text"),
        **dict.fromkeys(("maxTurns", "max_turns"), "number"),
    },
    _MAX_FILE_BYTES,
)
_TOOLS: Mapping[str, tuple[str, ...]] = {
    "MultiEdit": ("Edit",),
    "LS": ("List",),
    "Task": ("AgentSpawn",),
    "Agent": ("AgentSpawn",),
    "BashOutput": ("BackgroundTask",),
    "KillShell": ("BackgroundTask",),
}
"""Names that other programs use for our tools."""


@dataclass(frozen=True, slots=True)
class AgentKind:
    """A kind of agent. If `tools` is None, it has all tools of the agent that spawns it, except those in `without`.
    Named tools that the spawning agent lacks are left out, so it never has more."""

    name: str
    description: str
    prompt: str
    path: Path
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    max_turns: int | None = None
    isolation: str = ""


def find_agents(cwd: Path, user_dir: Path, notices: list[str] | None = None) -> tuple[AgentKind, ...]:
    """Return agents by name: the person's, those of plugins and the project's. Notices list those left out."""
    notices = [] if notices is None else notices
    found = find_definitions("agents", FORM, agents_in, cwd, user_dir, notices)
    return tuple(found[name] for name in first_names("agent", sorted(found), MAX_AGENTS, notices))


def tools_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return tools by our names. A restriction in parentheses, as in Bash(git:*), has no effect here and is dropped."""
    plain = [name.partition("(")[0] if name.endswith(")") else name for name in names]
    return tuple(dict.fromkeys(own for name in plain for own in _TOOLS.get(name, (name,))))


def agents_in(place: Place, reader: DefinitionReader) -> Iterator[AgentKind]:
    for file in reader.files(place.path):
        if (document := reader.read(file, place)) is None:
            continue
        fields, name = document.fields, document.fields.get("name") or file.stem
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name) or not fields.get("description"):
            reader.leave_out(file, "an agent needs a name of letters and digits, and a description")
            continue
        tools, turns = document.words("tools"), fields.get("maxTurns", fields.get("max_turns", ""))
        model, effort = fields.get("model", ""), fields.get("effort", "")
        if effort and effort not in EFFORTS:
            reader.say(file, f"effort is {effort!r:.40}: give {', '.join(EFFORTS)}")
        yield AgentKind(
            f"{place.plugin}:{name}" if place.plugin else name,
            one_line(printable(fields["description"].replace("\\n", " ")), _MAX_DESCRIPTION_CHARS),
            document.body.strip(),
            file,
            None if tools is None or tools == ("*",) else tools_named(tools),
            tools_named(document.words("disallowedTools") or ()),
            "" if model == "inherit" else model,
            effort,
            int(turns) or None if turns.isdecimal() and len(turns) < 10 else None,
            fields.get("isolation", ""),
        )
