"""System prompts and tools, as sent to a model and as kept in the log."""

from collections.abc import Container, Mapping, Sequence

from sagent.lib.json import JsonObject, as_object, json_freeze_object, sha256_hex, wire_bytes
from sagent.model import ToolSpec
from sagent.session.contents import PromptEntry, StoredTool
from sagent.tool import Tool

_ASIDE: Mapping[str, object] = {"background": {"type": "boolean"}, "delay": {"type": "number"}}


class Prompts:
    """Prepared system prompts and tools, shared by all agents that have the same."""

    def __init__(self) -> None:
        self._specs: dict[tuple[int, ...], tuple[Sequence[Tool], tuple[ToolSpec, ...]]] = {}
        self._entries: dict[tuple[str, int], tuple[tuple[ToolSpec, ...], str, PromptEntry]] = {}

    def specs(self, tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them; equal tools give the very same tuple."""
        key = tuple(map(id, tools))
        if key not in self._specs:
            self._specs[key] = (tuple(tools), specs_of(tools))
        return self._specs[key][1]

    def entry(self, system: str, specs: tuple[ToolSpec, ...]) -> tuple[str, PromptEntry]:
        """Their log entry, and its hash."""
        key = (system, id(specs))
        if key not in self._entries:
            entry = PromptEntry(system, tuple(map(StoredTool.of, specs)))
            self._entries[key] = (specs, sha256_hex(wire_bytes((system, entry.tools))), entry)
        return self._entries[key][1:]


def specs_of(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """The tools as the model sees them. Where one looks after jobs, calls of those that are not `quick` may be put into
    the background; where one calls others by name, `deferrable` ones are left to it: all where one finds them."""
    names = [tool.name for tool in tools]
    late = 0 if "find_tools" in names else names.index("call_tool") if "call_tool" in names else len(names)
    return tuple(_spec(tool, names, later=place >= late) for place, tool in enumerate(tools))


def _spec(tool: Tool, names: Container[str], *, later: bool) -> ToolSpec:
    # that no other arguments are taken need not be sent in every request: a call with one is refused, and says so
    parameters = JsonObject({name: value for name, value in tool.parameters.items() if value is not False})
    if "BackgroundTask" in names and not getattr(tool, "quick", False):
        own = as_object(parameters.get("properties"))
        parameters = json_freeze_object({**parameters, "properties": {**own, **_ASIDE, **own}})
    deferred = later and "call_tool" in names and bool(getattr(tool, "deferrable", False))
    return ToolSpec(tool.name, tool.description, parameters, deferred)
