"""The system prompt of the text protocol: the kinds of blocks and their effects."""

import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from sagent.context.prompt import FURTHER, PROMPT_FILE, split_place
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.text import one_line
from sagent.model import ToolSpec
from sagent.plugins.textcalls.blocks import text_argument

PROTOCOL_FILE = Path(__file__).with_name("prompt.md")
EDIT_FILE = Path(__file__).with_name("edit.md")
MAX_DESCRIBED = 6  # tools that get their own line
MAX_DESCRIPTION = 90  # characters

_WRITTEN = ("Bash", "Write")
_LOOKING = ("Read", "Grep", "Glob", "List")
_ASKED = ("advisor", "AgentSpawn", "AgentSend", "AgentSelf")
_UNSAID = (*_WRITTEN, *_LOOKING, *_ASKED, "Edit", "TodoWrite", "BackgroundTask")
_FIRST = ("advisor", "AgentSpawn")
_HOW = "To call one, write a block with its name after the fence"
_EXAMPLE = '{"argument": "value"}'


def offer(system: str, tools: Mapping[str, ToolSpec], described: Container[str] = ()) -> str:
    """Return a system prompt with the protocol. It replaces the default prompt, or is put before another prompt.

    Advisors, tools for agents and partial edits of a file are described only if they are named in `described`. Commands
    can tell the directory, platform and date. Every line costs a small model attention.
    """
    default = PROMPT_FILE.read_text("utf-8").strip()
    before, place, after = split_place(system)
    system = before + after
    further = next((line for line in place.splitlines() if line.startswith(FURTHER)), "")
    own = system.removeprefix(default).lstrip("\n") if system.startswith(default) else system
    return "\n\n".join(part for part in (protocol(tools, described), further, own) if part)


def protocol(tools: Mapping[str, ToolSpec], described: Container[str] = ()) -> str:
    """Return the description of the blocks for these tools."""
    opening, *paragraphs, closing = PROTOCOL_FILE.read_text("utf-8").strip().split("\n\n")
    writing, running = paragraphs[:2], paragraphs[2:]
    looking = () if "Bash" in tools else _LOOKING
    said = [name for name in tools if name in looking or name not in _UNSAID or (name in _ASKED and name in described)]
    others = [tools[name] for name in said if not tools[name].deferred]
    others.sort(key=lambda tool: (tool.name not in looking, tool.name not in _FIRST))
    parts = (
        opening,
        *(writing if "Write" in tools else ()),
        *((_editing(),) if "Edit" in tools and "Edit" in described else ()),
        *(running if "Bash" in tools else ()),
        *(_others(others, MAX_DESCRIBED + len(looking)) if others else ()),
        closing,
    )
    return "\n\n".join(parts)


def _editing() -> str:
    """Return how a part of a file is changed. Its marks are written here: as lines of a file they mean a conflict."""
    text = EDIT_FILE.read_text("utf-8").strip()
    return text.replace("{search}", "<<<<<<< SEARCH").replace("{replace}", ">>>>>>> REPLACE")


def _others(tools: Sequence[ToolSpec], limit: int) -> tuple[str, ...]:
    """Return the description of further tools: a line for each of the first ones, and the names of the rest."""
    lines = [_line(tool) for tool in tools[:limit]]
    if rest := tools[limit:]:
        lines.append(f"- also: {', '.join(tool.name for tool in rest)}")
    name = tools[0].name
    text = text_argument(tools[0])
    example = f"```{name}\n{text}\n```" if text else f"```{name}\n{_EXAMPLE}\n```"
    if any(not text_argument(tool) for tool in tools):
        how = f"{_HOW}; in it, the arguments as JSON, or only the text where one text is enough:"
    else:
        how = f"{_HOW} and the text in it:"
    return f"There are tools too. {how}", example, "\n".join(lines)


def _line(tool: ToolSpec) -> str:
    """Return one line about a tool: its name, its arguments, and the first sentence of its description."""
    required = [as_str(name) for name in as_array(tool.parameters.get("required"))]
    names = required or [*as_object(tool.parameters.get("properties"))][:3]
    given = f"text: {text_argument(tool)}" if text_argument(tool) else f"JSON: {', '.join(names) or 'none'}"
    sentence = re.split(r"(?<=[.!?])\s", tool.description.strip(), maxsplit=1)[0]
    return f"- {tool.name} ({given}): {one_line(sentence, MAX_DESCRIPTION)}"
