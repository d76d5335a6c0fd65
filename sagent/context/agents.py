"""Agents that a person or a project has described: each a file with what it is for, its tools, and its prompt."""

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
_MAX_DESCRIPTION_CHARS = 200  # that the model is shown
FORM = Form(
    "agent",
    {
        **dict.fromkeys(("name", "description", "tools", "disallowedTools", "model", "effort"), "text"),
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


def find_agents(cwd: Path, user_dir: Path, notices: list[str] | None = None) -> tuple[AgentKind, ...]:
    """Return the person's agents, those of plugins and the project's, by name. The notices say what was left out."""
    notices = [] if notices is None else notices
    found = find_definitions("agents", FORM, agents_in, cwd, user_dir, notices)
    return tuple(found[name] for name in first_names("agent", sorted(found), MAX_AGENTS, notices))


def tools_named(names: Sequence[str]) -> tuple[str, ...]:
    """Tools as we call them; what stands in parentheses, as in Bash(git:*), narrows nothing here and is left out."""
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
        )
