"""System prompts and tools as a model and the log have them."""

from collections.abc import Mapping, Sequence

from sagent.lib.json import as_object, canonical_bytes, json_freeze_object, json_thaw, sha256_hex
from sagent.model import ToolSpec
from sagent.tool import Tool

_ASIDE: Mapping[str, object] = {"background": {"type": "boolean"}, "delay": {"type": "number"}}


class Prompts:
    """System prompts and tools made ready, once for all agents that have the same."""

    def __init__(self) -> None:
        self._specs: dict[tuple[int, ...], tuple[Sequence[Tool], tuple[ToolSpec, ...]]] = {}
        self._bodies: dict[tuple[str, int], tuple[tuple[ToolSpec, ...], str, Mapping[str, object]]] = {}

    def specs(self, tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them; equal tools give the very same tuple."""
        key = tuple(map(id, tools))
        if key not in self._specs:
            self._specs[key] = (tuple(tools), specs_of(tools))
        return self._specs[key][1]

    def body(self, system: str, specs: tuple[ToolSpec, ...]) -> tuple[str, Mapping[str, object]]:
        """What the log keeps of them, and its hash."""
        key = (system, id(specs))
        if key not in self._bodies:
            tools = [
                {"name": spec.name, "description": spec.description, "parameters": json_thaw(spec.parameters)}
                for spec in specs
            ]
            body = {"system": system, "tools": tools}
            self._bodies[key] = (specs, sha256_hex(canonical_bytes(body)), body)
        return self._bodies[key][1:]


def specs_of(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """The tools as the model sees them. Where one looks after jobs, calls may be put into the background, and those of
    tools that are not `quick` say so."""
    jobs = any(tool.name == "BackgroundTask" for tool in tools)
    return tuple(_spec(tool, jobs=jobs and not getattr(tool, "quick", False)) for tool in tools)


def _spec(tool: Tool, *, jobs: bool) -> ToolSpec:
    parameters = tool.parameters
    if jobs:
        own = as_object(parameters.get("properties"))
        more = {name: schema for name, schema in _ASIDE.items() if name not in own}
        parameters = json_freeze_object({**parameters, "properties": {**own, **more}})
    return ToolSpec(tool.name, tool.description, parameters)
